"""The dashboard's first view of a job with a million pages, in a real browser that has seen nothing before.

From asking for the page until sums, tabs and charts are drawn; then the same for its lists. Each page has an item.
"""

import time
from collections.abc import Iterator
from statistics import median

from playwright.sync_api import Browser, sync_playwright

from benchmarks.api.client import Client
from benchmarks.api.stage import a_stage
from benchmarks.api.write_pages import write
from benchmarks.result import Row
from shoal.render.lookup import find_browser

PAGES, PAGES_QUICK = 1_000_000, 2_000
ROUNDS, ROUNDS_QUICK = 15, 2
PATIENCE_MS = 30_000
VIEWS = {"": ".two figure", "pages": "tbody tr", "items": "tbody tr", "dead": ".empty"}
"""Tab → what is there when it is complete."""


def measure(quick: bool) -> list[Row]:
    """On SQLite, as on one machine."""
    count, rounds = (PAGES_QUICK, ROUNDS_QUICK) if quick else (PAGES, ROUNDS)
    with a_stage() as stage, stage.api() as api, Client(api.port) as client:
        job: str = client.post("/jobs", {"urls": [], "open": True, "follow": False}).json["id"]
        write(stage.database_url, job, 0, count, items=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
            try:
                return list(_rows(browser, f"http://127.0.0.1:{api.port}/#/jobs/{job}", count, rounds))
            finally:
                browser.close()


def _rows(browser: Browser, url: str, count: int, rounds: int) -> Iterator[Row]:
    for tab, sign in VIEWS.items():
        taken = [_view(browser, f"{url}/{tab}", sign) * 1_000 for _ in range(rounds)]
        what = f"first view of a job with {count:,} pages{f', {tab}' if tab else ''}"
        yield Row(what, max(taken), "ms", f"the slowest of {rounds}; median {median(taken):.0f} ms", at_most=1_000)


def _view(browser: Browser, url: str, sign: str) -> float:
    """Seconds; of a window with empty caches."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        started = time.perf_counter()
        page.goto(url, wait_until="commit", timeout=PATIENCE_MS)
        page.wait_for_selector("nav.tabs", timeout=PATIENCE_MS)
        page.wait_for_selector(f"main {sign}", timeout=PATIENCE_MS)
        return time.perf_counter() - started
    finally:
        context.close()
