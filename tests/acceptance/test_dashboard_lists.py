"""The dashboard in a real browser on an API of this process: long lists, forms that are refused, strange names."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.browsers import browser_path
from tests.contract.api import Desk, dead, page, told
from tests.contract.conftest import desk
from tests.windows import Windows, a_browser, served

__all__ = ["browser_path", "desk"]

URL = "http://shop.example/"
MANY = 120
ROWS = 50


@pytest.fixture
def windows(desk: Desk, browser_path: str) -> Generator[Windows]:
    with served(desk.app) as url, a_browser(browser_path, url) as windows:
        yield windows


def _names(shown: Page) -> list[str]:
    return shown.locator("tbody td.name a").all_inner_texts()


# --- lists -----------------------------------------------------------------------------------------------------------


def test_filters_and_orders_are_about_all_jobs_and_a_page_draws_some_of_them(desk: Desk, windows: Windows) -> None:
    for number in range(MANY):
        desk.submit(name=f"job {number:03}", open=True, labels=["even"] if number % 2 == 0 else [])
    shown = windows.open()
    shown.goto("/#/jobs")
    rows = shown.locator("tbody tr")
    expect(rows).to_have_count(ROWS)
    expect(shown.get_by_text(f"Jobs 1 to {ROWS}, and more")).to_be_visible()
    expect(rows.first).to_contain_text("job 119")

    by_name = shown.get_by_role("columnheader", name="Job")
    by_name.get_by_role("button").press("Enter")
    expect(rows.first).to_contain_text("job 000")
    expect(by_name).to_have_attribute("aria-sort", "ascending")
    expect(by_name.get_by_role("button")).to_be_focused()
    shown.get_by_role("button", name="Further jobs").click()
    expect(rows.first).to_contain_text("job 050")
    shown.get_by_role("button", name="Further jobs").click()
    expect(rows).to_have_count(MANY - 2 * ROWS)
    expect(shown.get_by_role("button", name="Further jobs")).to_have_count(0)
    shown.get_by_role("button", name="Back").click()
    expect(rows.first).to_contain_text("job 050")

    shown.get_by_label("Find a name, id or label").press_sequentially("B 01")
    expect(rows).to_have_count(10)
    expect(shown.get_by_label("Find a name, id or label")).to_be_focused()
    shown.get_by_label("Label", exact=True).fill("even")
    shown.keyboard.press("Enter")
    expect(rows).to_have_count(5)
    shown.reload()
    expect(rows).to_have_count(5)
    assert _names(shown) == [f"job {number:03}" for number in (10, 12, 14, 16, 18)]
    shown.get_by_label("Label", exact=True).fill("two words")
    shown.keyboard.press("Enter")
    expect(shown.get_by_label("Label", exact=True)).to_have_attribute("aria-invalid", "true")


def test_a_rate_is_changed_in_the_list_by_the_keyboard_alone(desk: Desk, windows: Windows) -> None:
    job = desk.submit(name="slow one", open=True, rate=1)
    shown = windows.open()
    shown.goto("/#/jobs")
    button = shown.get_by_role("button", name="Rate", exact=True)
    button.press("Enter")
    rate = shown.get_by_role("dialog", name="Rate of slow one").get_by_label("Requests a second to one host")
    expect(rate).to_be_focused()
    rate.fill("fast")
    shown.keyboard.press("Enter")
    expect(rate).to_have_attribute("aria-invalid", "true")
    expect(rate).to_be_focused()
    rate.fill("30/m")
    shown.keyboard.press("Enter")
    expect(shown.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    assert desk.job(job)["spec"]["rate"] == 0.5
    button.press("Enter")
    shown.keyboard.press("Escape")
    expect(shown.get_by_role("dialog")).to_have_count(0)


def test_a_list_that_is_left_while_it_asks_does_not_go_on_looking(desk: Desk, windows: Windows) -> None:
    job = desk.submit(open=True)
    shown = windows.open()
    shown.route("**/extractions", lambda _: None)  # never answered
    with shown.expect_request("**/extractions"):
        shown.goto(f"/#/jobs/{job}/items")
    shown.goto("/#/new")
    expect(shown.get_by_role("button", name="Submit the job")).to_be_visible()
    assert shown.evaluate("async () => (await import('/ui/api.js')).pulse.wanted") == 0


# --- forms -----------------------------------------------------------------------------------------------------------


def test_what_is_wrong_in_a_form_stands_at_its_fields_and_the_first_is_gone_to(desk: Desk, windows: Windows) -> None:
    shown = windows.open()
    shown.goto("/#/new")
    submit = shown.get_by_role("button", name="Submit the job")
    submit.click()
    urls = shown.get_by_label("URLs, one a line")
    expect(urls).to_be_focused()
    expect(urls).to_have_attribute("aria-invalid", "true")

    urls.fill(f"{URL}\nnonsense:\n")
    shown.get_by_label("Requests a second to one host").fill("fast")
    shown.get_by_label("Name of field 1").fill("title")
    shown.get_by_label("Where field 1 is found").fill("h1[")
    submit.click()
    for label in ("URLs, one a line", "Requests a second to one host", "Where field 1 is found"):
        field = shown.get_by_label(label)
        expect(field).to_have_attribute("aria-invalid", "true")
        described = field.get_attribute("aria-describedby")
        expect(shown.locator(f"[id='{described}']")).not_to_be_empty()
    expect(urls).to_be_focused()
    expect(shown.locator("#f-urls-flaw")).to_contain_text("number 2")
    summary = shown.get_by_role("alert")
    expect(summary).to_contain_text("3 things are to be mended")
    summary.get_by_role("link", name="Requests a second to one host").click()
    expect(summary.get_by_role("link").first).to_have_text("URLs, one a line, number 2")
    expect(shown.get_by_label("Requests a second to one host")).to_be_focused()
    expect(shown.get_by_label("Where field 1 is found")).to_have_value("h1[")

    urls.fill(URL)
    shown.get_by_label("Requests a second to one host").fill("")
    shown.get_by_label("Where field 1 is found").fill("h1")
    submit.click()
    expect(shown.get_by_role("link", name="Progress")).to_be_visible()
    assert len(list(desk.rows("jobs"))) == 1


def test_other_forms_do_so_too(desk: Desk, windows: Windows) -> None:
    job = desk.submit(open=True)
    shown = windows.open()
    shown.goto(f"/#/jobs/{job}/settings")
    shown.get_by_role("button", name="Change", exact=True).click()
    expect(shown.get_by_label("Requests a second to one host")).to_be_focused()
    shown.get_by_label("Requests a second to one host").fill("2")
    shown.get_by_label("Pages at most").fill("-4")
    shown.get_by_role("button", name="Change", exact=True).click()
    expect(shown.get_by_label("Pages at most")).to_be_focused()
    expect(shown.get_by_label("Requests a second to one host")).not_to_have_attribute("aria-invalid", "true")
    told(desk.patch("hosts/shop.example", {"rate": 2}))
    shown.goto("/#/hosts/shop.example")
    shown.get_by_label("At once").fill("none")
    shown.get_by_role("button", name="Set", exact=True).click()
    expect(shown.get_by_label("At once")).to_have_attribute("aria-invalid", "true")
    expect(shown.get_by_label("At once")).to_be_focused()
    shown.goto(f"/#/jobs/{job}/explain?url=nonsense:")
    expect(shown.get_by_label("URL, as it stands")).to_have_attribute("aria-invalid", "true")


# --- strange words ---------------------------------------------------------------------------------------------------

_TURNS = "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_TURNED = """() => {
  const turns = /[\\u202a-\\u202e\\u2066-\\u2069]/;
  const words = [...document.querySelectorAll("*")].flatMap((one) => [...one.attributes])
    .filter((one) => !["value", "href"].includes(one.name)).map((one) => one.value);
  return [document.title, document.body.textContent, ...words].filter((text) => turns.test(text));
}"""


def test_words_that_change_the_direction_of_writing_turn_nothing_round(desk: Desk, windows: Windows) -> None:
    name = f"invoice{_TURNS}gpj.exe"
    job = desk.submit(f"{URL}1", f"{URL}2", name=name, open=True)
    body = f"<h1>{name}</h1>".encode()
    desk.work(lambda one: page(one, item={"title": name}, body=body) if str(one.request.url)[-1] == "1" else dead(one))
    with desk.platform.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE dead_letters SET detail = ?, url = url || ?", (name, _TURNS))
    shown = windows.open()
    views = {
        "": "invoice",
        "jobs": "invoice",
        f"jobs/{job}": "invoice",
        f"jobs/{job}/items": "invoice",
        f"jobs/{job}/fields": "invoice",
        f"jobs/{job}/dead": "http_404",
        f"jobs/{job}/settings": "As submitted",
        f"jobs/{job}/explain?url={URL}{_TURNS}": "never seen",
    }
    for place, text in views.items():
        shown.goto(f"/#/{place}")
        expect(shown.locator("main")).to_contain_text(text)
        assert shown.evaluate(_TURNED) == [], place
    shown.goto(f"/#/jobs/{job}")
    expect(shown.get_by_role("heading", level=1)).to_contain_text("⟨U+202E⟩")
    shown.locator("summary", has_text="http_404").click()
    expect(shown.locator("details p")).to_contain_text("invoice")
    assert shown.evaluate(_TURNED) == []
    shown.goto(f"/#/jobs/{job}/pages")
    shown.get_by_role("button", name="Look").click()
    expect(shown.get_by_role("dialog").locator("pre")).to_contain_text("⟨U+202E⟩")
    shown.get_by_role("button", name="Close", exact=True).last.click()
    asked: list[str] = []

    def refuse(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    shown.once("dialog", refuse)
    shown.get_by_role("button", name="Cancel").click()
    assert "⟨U+202E⟩" in asked[0]
    assert "\u202e" not in asked[0]


# --- the first look --------------------------------------------------------------------------------------------------


def test_the_first_look_at_a_job_is_a_handful_of_requests(desk: Desk, windows: Windows) -> None:
    job = desk.submit(*(f"{URL}{number}" for number in range(30)), open=True)
    desk.work()
    shown = windows.open()
    shown.goto(f"/#/jobs/{job}")
    expect(shown.locator(".tile", has_text="Pages").first.locator("dd")).to_have_text("30")
    expect(shown.get_by_text("No host was asked yet.").or_(shown.get_by_text("Time to answer"))).to_be_visible()
    asked = [path.removeprefix("/api/v1/") for path in windows.asked if path.startswith("/api/")]
    kinds = [path.partition("?")[0] for path in asked[:4]]
    assert sorted(kinds) == sorted(["session", f"jobs/{job}", f"jobs/{job}/events", f"jobs/{job}/history"])
