"""Schedules on the dashboard, in a real browser: added by the form, run, paused, removed."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from tests.acceptance.test_up import running_up
from tests.browsers import browser_path
from tests.command import Shoal
from tests.site.generated import SlowSite
from tests.site.server import serve
from tests.windows import a_window

__all__ = ["browser_path"]


def test_a_schedule_from_its_form_to_its_removal(shoal: Shoal, browser_path: str) -> None:
    with (
        serve(SlowSite(delay=0, pages=3)) as site,
        running_up(shoal, "--workers", "1") as (_, url),
        a_window(browser_path, url) as shown,
    ):
        shown.goto("/#/schedules")
        shown.get_by_role("link", name="New schedule").click()
        shown.get_by_label("Name", exact=True).fill("nightly")
        shown.get_by_label("Cron: minute").fill("61 3 * * *")
        shown.get_by_label("Time zone").fill("Europe/Berlin")
        shown.get_by_role("button", name="Show the next slots").click()
        expect(shown.get_by_role("alert")).to_contain_text("minute '61' cannot be read")
        shown.get_by_label("Cron: minute").fill("30 2 * * *")
        shown.get_by_label("Not before").fill("2027-03-27")
        shown.get_by_role("button", name="Show the next slots").click()
        expect(shown.locator("tbody tr").nth(1)).to_contain_text("2027-03-28T03:00:00+02:00")
        job = {"urls": [site.url], "rate": "unlimited", "robots": False}
        shown.get_by_label("Job, as JSON").fill(json.dumps(job))
        shown.get_by_role("button", name="Add the schedule").click()

        expect(shown.get_by_role("heading", level=1)).to_have_text("nightly")
        shown.get_by_role("button", name="Run now").click()
        history = shown.locator("section", has=shown.get_by_role("heading", name="History"))
        expect(history.locator("tbody tr").first).to_contain_text("finished")
        expect(history.locator("tbody tr").first).to_contain_text("3 pages")
        shown.get_by_role("button", name="Pause").click()
        expect(shown.locator(".head .state")).to_have_text("paused")
        history.get_by_role("link").first.click()
        expect(shown.get_by_role("heading", level=1)).to_have_text("nightly")
        expect(shown).to_have_url(f"{url}/#/jobs/{shown.url.rpartition('/')[2]}")

        shown.goto("/#/schedules")
        shown.on("dialog", lambda dialog: dialog.accept())
        shown.get_by_role("button", name="Remove").click()
        expect(shown.get_by_text("No schedules so far.")).to_be_visible()
