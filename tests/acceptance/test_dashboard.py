"""The dashboard in a real browser, on `shoal up`: a job from its submission to its results, keys, and hostile pages."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.test_up import ask, running_up
from tests.browsers import browser_path
from tests.command import Shoal
from tests.receiver import Reply as AnswerOfReceiver
from tests.receiver import a_receiver
from tests.site.reply import NOT_FOUND, Reply, page, plain
from tests.site.server import Server, serve
from tests.windows import a_window

__all__ = ["browser_path"]

EVIL = "<script>window.hit=1</script><img src=x onerror=window.hit=2><a href=javascript:window.hit=3>x</a>"
PAGES = 60


class Shop:
    """A few pages with hostile titles, and one that is missing until somebody asks again."""

    def respond(self, target: str, hits: int) -> Reply:
        if target == "/robots.txt":
            return plain("User-agent: *\nDisallow:\n")
        if target == "/late":
            return page("<h1>It came late</h1>") if hits > 1 else NOT_FOUND
        number = 0 if target == "/" else int(target.removeprefix("/p/")) if re.fullmatch(r"/p/\d+", target) else PAGES
        if number >= PAGES:
            return NOT_FOUND
        links = "".join(f'<a href="/p/{other}">{other}</a>' for other in range(1, PAGES)) if not number else ""
        late = '<a href="/late">late</a>' if not number else ""
        title = EVIL.replace("<", "&lt;")
        return page(f"<title>{title}</title><h1>{title} {number}</h1><p class=evil>{title}</p>{links}{late}")


@pytest.fixture
def shop() -> Generator[Server]:
    with serve(Shop()) as server:
        yield server


def test_a_job_from_its_form_to_a_replayed_dead_letter(shoal: Shoal, shop: Server, browser_path: str) -> None:
    with running_up(shoal, "--workers", "1") as (_, url), a_window(browser_path, url) as shown:
        shown.goto("/#/new")
        shown.get_by_label("URLs, one a line").fill(shop.url)
        shown.get_by_label("Name", exact=True).fill(EVIL)
        shown.get_by_label("Requests a second to one host").fill("3")
        shown.get_by_label("Name of field 1").fill("title")
        shown.get_by_label("Where field 1 is found").fill("h1")
        shown.get_by_role("button", name="Preview on one page").click()
        preview = shown.locator("section", has=shown.get_by_role("heading", name="Preview"))
        expect(preview.get_by_role("cell").first).to_contain_text("window.hit=1")
        shown.get_by_role("button", name="Another field").click()
        shown.get_by_label("Name of field 2").fill("evil")
        shown.get_by_label("Where field 2 is found").fill("p.evil")
        shown.get_by_role("button", name="Preview on one page").click()
        expect(preview.get_by_role("columnheader", name="evil")).to_be_visible()
        assert shop.count("/") == 1, "the second preview is read from the archive"

        shown.get_by_role("button", name="Submit the job").click()
        expect(shown.get_by_role("heading", level=1)).to_have_text(EVIL)
        pages = shown.locator(".tile", has_text="Pages").first.locator("dd")
        expect(pages).not_to_have_text("0")
        shown.get_by_role("button", name="Pause").click()
        expect(shown.locator(".head .state")).to_have_text("paused")
        shown.get_by_role("link", name="Settings").click()
        shown.get_by_label("Requests a second to one host").fill("unlimited")
        shown.get_by_role("button", name="Change").click()
        expect(shown.get_by_role("status").get_by_text("Changed.")).to_be_visible()
        shown.get_by_role("button", name="Resume").click()
        expect(shown.locator(".head .state")).to_have_text("finished")
        expect(pages).to_contain_text(str(PAGES))

        shown.get_by_role("link", name="Items").click()
        expect(shown.locator("tbody tr").first).to_contain_text("window.hit=1")
        shown.get_by_role("link", name="Fields", exact=True).click()
        expect(shown.locator("tbody tr").first).to_contain_text("100 %")
        shown.get_by_role("link", name="Pages", exact=True).click()
        shown.get_by_role("button", name="Look").first.click()
        expect(shown.get_by_role("dialog").locator("pre")).to_contain_text("<title>")
        shown.get_by_role("button", name="Close").click()

        shown.get_by_role("link", name="Dead letters").click()
        row = shown.locator("tbody tr", has_text="/late")
        expect(row).to_contain_text("http_404")
        row.get_by_role("button", name="Replay").click()
        expect(shown.get_by_text("1 tried once more.")).to_be_visible()
        expect(shown.get_by_text("No dead letters.")).to_be_visible()
        expect(pages).to_contain_text(str(PAGES + 1))
        assert shop.count("/late") == 2


def test_each_view_shows_what_there_is_in_the_dark_and_on_a_phone(
    shoal: Shoal, shop: Server, browser_path: str
) -> None:
    with running_up(shoal, "--workers", "1") as (_, url):
        job = ask(f"{url}/api/v1/jobs", {"urls": [shop.url], "name": EVIL, "rate": 1, "fields": {"t": "h1"}})["id"]
        for options in ({"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}):
            with a_window(browser_path, url) as shown:
                shown.emulate_media(color_scheme="dark" if "color_scheme" in options else "light")
                shown.set_viewport_size(options.get("viewport") or {"width": 1280, "height": 900})  # type: ignore[arg-type]
                shown.goto("/")
                expect(shown.locator(".tile", has_text="Workers").locator("dd")).not_to_have_text("0")
                expect(shown.get_by_role("link", name=EVIL)).to_be_visible()
                expect(shown.get_by_role("img", name="Pages a second").first).to_be_visible()
                for name, what in (("Jobs", EVIL), ("Hosts", "127.0.0.1"), ("Workers", "http.batch")):
                    shown.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
                    expect(shown.get_by_role("heading", level=1)).to_have_text(name)
                    expect(shown.locator("tbody")).to_contain_text([what])
                shown.goto(f"/#/jobs/{job}/explain?url={shop.link('/nowhere')}")
                expect(shown.get_by_role("heading", level=2)).to_contain_text("never seen")
                expect(shown.locator(".steps li").first).to_be_visible()
                wide = shown.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, "nothing is cut off at the side"


def test_a_key_logs_in_sees_what_its_scopes_allow_and_logs_out(shoal: Shoal, shop: Server, browser_path: str) -> None:
    key = shoal.run("keys", "create", "--scope", "read", "--label", "reader", "--json").json["key"]
    tenants = shoal.run("keys", "create", "--scope", "read", "--tenant", "acme", "--label", "acme", "--json").json[
        "key"
    ]
    with running_up(shoal, "--workers", "1") as (_, url), a_window(browser_path, url) as shown:
        shown.goto("/#/hosts")
        shown.get_by_label("API key").fill("shoal_nobody0000_" + "x" * 43)
        shown.keyboard.press("Enter")
        expect(shown.get_by_role("alert")).to_contain_text("not known")
        shown.get_by_label("API key").fill(key)
        shown.get_by_role("button", name="Log in").click()
        expect(shown.get_by_role("status").first).to_contain_text("needs the scope admin")
        views = shown.get_by_role("navigation", name="Views").get_by_role("link")
        expect(views).to_have_text(["Overview", "Jobs", "Schedules", "Webhooks"])
        assert "shoal_" not in shown.evaluate("document.cookie + JSON.stringify(localStorage)")
        shown.reload()
        views.nth(1).click()
        expect(shown.get_by_text("No such job.")).to_be_visible()
        shown.get_by_role("button", name="Log out").click()
        expect(shown.get_by_label("API key")).to_be_focused()
        shown.goto("/#/jobs")
        expect(shown.get_by_label("API key")).to_be_visible()
        shown.goto("/#/")
        shown.get_by_label("API key").fill(tenants)
        shown.keyboard.press("Enter")
        expect(shown.get_by_role("heading", level=1)).to_have_text("Jobs")  # the overview is of all tenants together
        expect(views).to_have_text(["Jobs", "Schedules", "Webhooks"])
        expect(shown.get_by_role("alert")).to_have_count(0)


def test_everything_can_be_reached_and_named_without_a_mouse(shoal: Shoal, shop: Server, browser_path: str) -> None:
    with running_up(shoal, "--workers", "1") as (_, url), a_window(browser_path, url) as shown:
        for view in ("/#/", "/#/jobs", "/#/schedules", "/#/hosts", "/#/workers", "/#/webhooks", "/#/new"):
            shown.goto(view)
            expect(shown.get_by_role("heading", level=1)).to_be_visible()
            assert shown.evaluate(_NAMELESS) == [], view
        shown.reload()  # begins at the top of the page, while a change of view begins at its content
        expect(shown.get_by_role("heading", level=1)).to_be_visible()
        shown.keyboard.press("Tab")
        expect(shown.get_by_role("link", name="Skip to the content")).to_be_focused()
        shown.keyboard.press("Enter")
        expect(shown.locator("main")).to_be_focused()
        shown.keyboard.press("g")
        shown.keyboard.press("j")
        expect(shown.get_by_role("heading", level=1)).to_have_text("Jobs")


def test_a_webhook_is_added_tried_paused_and_its_delivery_sent_again(shoal: Shoal, browser_path: str) -> None:
    with (
        a_receiver() as receiver,
        running_up(shoal, "--workers", "1") as (_, url),
        a_window(browser_path, url) as shown,
    ):
        receiver.replies(AnswerOfReceiver(500, body=EVIL.encode()), AnswerOfReceiver())
        shown.goto("/#/webhooks")
        shown.get_by_label("URL").fill(receiver.link())
        shown.get_by_label("Name", exact=True).fill("here")
        shown.get_by_role("button", name="Add").click()
        expect(shown.get_by_text("whsec_")).to_be_visible()
        row = shown.locator("tbody tr", has_text=f"127.0.0.1:{receiver.port}")
        expect(row).to_contain_text("enabled")
        row.get_by_role("button", name="Test").click()
        expect(shown.get_by_role("status").get_by_text("here: http_500")).to_be_visible()
        sent = shown.locator("tbody tr", has_text="ping")
        expect(sent).to_contain_text("failed")
        sent.get_by_role("button", name="Send again").click()
        expect(sent).to_contain_text("delivered")
        sent.get_by_role("link").click()
        expect(shown.locator("tbody tr").first).to_contain_text("window.hit=1")
        expect(shown.locator("tbody tr").nth(1)).to_contain_text("200")
        assert len({came.id for came in receiver.received}) == 1
        shown.goto("/#/webhooks")
        row.get_by_role("button", name="Pause").click()
        expect(row).to_contain_text("paused")
        row.get_by_role("button", name="Resume").click()
        expect(row).to_contain_text("enabled")


_NAMELESS = """() => [...document.querySelectorAll("input, select, textarea, button, a, svg[role=img]")]
  .filter((one) => !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim()))
  .map((one) => one.outerHTML.slice(0, 200))"""


def test_colours_can_be_told_apart_from_what_they_stand_on() -> None:
    """WCAG AA: 4.5 to 1 for text, in the light and in the dark."""
    css = (Path(__file__).parents[2] / "src/shoal/api/dashboard/style.css").read_text()
    both = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{3,6}), (#[0-9a-f]{3,6})\)", css)
    themes = [{name: colours[dark] for name, *colours in both} for dark in (False, True)]
    names = re.findall(r"--([\w-]+):", css)
    assert len(names) == len(set(names)), "each is said once, for both"
    for theme in themes:
        for text in ("text", "soft", "link", "good", "warn", "bad", "wait"):
            for ground in ("ground", "card"):
                assert _contrast(theme[text], theme[ground]) >= 4.5, (text, ground, theme[ground])
        assert _contrast(theme["on-accent"], theme["accent"]) >= 4.5


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(char * 2 for char in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
