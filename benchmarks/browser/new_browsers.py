"""A new browser for each page, as tutorials on Celery and Playwright have it.

Run as `python -m benchmarks.browser.new_browsers EXECUTABLE AT_ONCE RESULTS URLS`, the last a file. Each page is a task
that starts Playwright, launches the browser, opens a page, reads it and closes all again; as many processes as pages at
once do these tasks, as those of a prefork worker do. There is no broker: tasks come for nothing.
"""

# pyright: basic, reportMissingImports=false
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from playwright.sync_api import sync_playwright

ITEM = ".item"


def read_page(executable: str, url: str) -> dict:
    """One task."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, chromium_sandbox=os.geteuid() != 0)
        try:
            page = browser.new_page()
            page.goto(url)
            page.wait_for_selector(ITEM, state="attached")
            return {"url": url, "items": page.locator(ITEM).all_inner_texts()}
        finally:
            browser.close()


def main(executable: str, at_once: int, results: Path, urls: list[str]) -> None:
    """All pages, so many at once."""
    with ProcessPoolExecutor(at_once) as pool, results.open("w") as file:
        for found in pool.map(partial(read_page, executable), urls):
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]).read_text().split())
