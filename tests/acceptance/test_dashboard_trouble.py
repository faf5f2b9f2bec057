"""The dashboard when something is away: it says so, shows that it is old, and comes back by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.test_up import ask, running_up
from tests.browsers import browser_path
from tests.command import Shoal, embedded_redis
from tests.contract.api import Desk
from tests.contract.conftest import desk
from tests.windows import Windows, a_browser, served

__all__ = ["browser_path", "desk"]

LONG_MS = 60_000
ONE_LISTENER = "33"
"""Threads of the API: all but 32 may listen."""


def _api(shoal: Shoal) -> list[psutil.Process]:
    return [process for process in shoal.processes() if "shoal.api" in process.cmdline()]


@contextmanager
def _frozen(*processes: psutil.Process) -> Generator[None]:
    """They live, and say nothing."""
    with ExitStack() as stack:
        for process in processes:
            process.suspend()
            stack.callback(process.resume)
        yield


def _is_old(shown: Page, why: str) -> None:
    expect(shown.locator("#stale")).to_contain_text(why, timeout=LONG_MS)
    expect(shown.locator("main")).to_have_attribute("data-stale", "")


def _is_new(shown: Page) -> None:
    expect(shown.locator("#stale")).to_be_empty(timeout=LONG_MS)
    expect(shown.locator("main")).not_to_have_attribute("data-stale", "")


def _shows(shown: Page, waiting: int) -> None:
    expect(shown.locator(".tile", has_text="Waiting").locator("dd")).to_have_text(re.compile(rf"^{waiting}\b"))


def _each(check: Callable[..., None], shown: Iterable[Page], *more: Any) -> None:
    for each in shown:
        check(each, *more)


@pytest.mark.embedded
def test_what_goes_away_is_told_and_comes_back_by_itself(shoal: Shoal, browser_path: str) -> None:
    key = shoal.run("keys", "create", "--scope", "admin", "--label", "test", "--json").json["key"]
    few = replace(shoal, extra=(("SHOAL_API_THREADS", ONE_LISTENER),))
    with running_up(few, "--workers", "0") as (_, url), a_browser(browser_path, url) as windows:
        more, refused = Urls(url, key), list[str]()
        windows.context.on("response", lambda answer: refused.append(answer.url) if answer.status == 429 else None)
        overview, *both = windows.open(), windows.open(), windows.open()
        every = (overview, *both)
        overview.goto("/#/")
        _log_in(overview, key)
        expect(overview.locator(".tile", has_text="Jobs that run").locator("dd")).to_have_text("1")
        for shown in both:  # one of them is not let in as a listener, and asks instead
            shown.goto(f"/#/jobs/{more.job}")
        _each(_shows, both, 1)
        more.add()
        _each(_shows, both, 2)
        assert f"{url}/api/v1/jobs/{more.job}/events" in refused

        with _frozen(*_api(few)):
            _each(_is_old, every, "The API does not answer.")
        _each(_is_new, every)

        for process in _api(few):
            process.kill()
        _each(_is_old, every, "The API does not answer.")
        _each(_is_new, every)  # `shoal up` has started it again
        more.add()
        _each(_shows, both, 3)

        late = windows.open()
        with _frozen(embedded_redis(few)):
            late.goto("/#/jobs")
            _each(_is_old, every, "What you see is not new.")
            expect(late.locator("main").get_by_role("status")).to_contain_text("does not answer")
        _each(_is_new, every)
        expect(late.locator("tbody tr")).to_have_count(1)


class Urls:
    """Those of an open job, which nobody fetches."""

    def __init__(self, url: str, key: str) -> None:
        self._headers = {"Authorization": f"Bearer {key}"}
        self._url = f"{url}/api/v1/jobs"
        self.job: str = ask(self._url, {"urls": ["http://127.0.0.1:9/"], "open": True}, **self._headers)["id"]
        self._count = 0

    def add(self) -> None:
        self._count += 1
        line = {"url": f"http://127.0.0.1:9/{self._count}"}
        ask(f"{self._url}/{self.job}/urls", line, Content_Type="application/x-ndjson", **self._headers)


# --- sessions --------------------------------------------------------------------------------------------------------


@pytest.fixture
def key(desk: Desk) -> str:
    return desk.make_key(label="dashboard")[0]


@pytest.fixture
def windows(desk: Desk, key: str, browser_path: str) -> Generator[Windows]:
    with served(desk.app) as url, a_browser(browser_path, url) as windows:
        yield windows


def _log_in(shown: Page, key: str) -> None:
    shown.get_by_label("API key").fill(key)
    shown.keyboard.press("Enter")


def test_what_was_typed_outlives_the_session_and_windows_come_back_together(
    desk: Desk, key: str, windows: Windows
) -> None:
    shown, other = windows.open(), windows.open()
    shown.goto("/#/new")
    _log_in(shown, key)
    shown.get_by_label("URLs, one a line").fill("http://shop.example/")
    shown.get_by_label("Name of field 1").fill("title")
    other.goto("/#/jobs")
    expect(other.get_by_text("No such job.")).to_be_visible()
    other.get_by_role("button", name="Log out").click()
    expect(other.get_by_label("API key")).to_be_focused()

    shown.get_by_label("Where field 1 is found").fill("h1")
    shown.get_by_role("button", name="Submit the job").click()
    expect(shown.get_by_label("API key")).to_be_focused()
    _log_in(other, key)
    expect(other.get_by_text("No such job.")).to_be_visible()
    expect(shown.get_by_role("dialog")).to_have_count(0)  # it has heard of that
    expect(shown.get_by_label("Where field 1 is found")).to_have_value("h1")
    shown.get_by_role("button", name="Submit the job").click()
    expect(shown.get_by_role("link", name="Progress")).to_be_visible()
    (job,) = desk.client(key).rows("jobs")
    assert job["spec"]["fields"] == {"title": "h1"}


def test_who_tries_wrong_keys_is_told_how_long_to_wait(windows: Windows) -> None:
    shown = windows.open()
    shown.goto("/")
    for _ in range(10):
        with shown.expect_response("**/api/v1/session") as told:
            _log_in(shown, "nonsense")
        assert told.value.status == 401
        expect(shown.locator("form[aria-busy]")).to_have_count(0)  # who is still being answered cannot ask again
        expect(shown.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
        expect(shown.get_by_label("API key")).to_be_focused()
    _log_in(shown, "nonsense")
    expect(shown.get_by_role("alert")).to_contain_text("try again in")
