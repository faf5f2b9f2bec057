"""Crawlee's PlaywrightCrawler, as its introduction has it: read the page, keep the data, follow the links.

Run as `python crawlee_browser.py EXECUTABLE AT_ONCE RESULTS URL [--incognito]`. All is left as it is by
default, but for the number of pages at once and the browser. By default all pages share one context of the browser,
and so its cache; with `--incognito` each has its own, as each has in Shoal.
"""

# pyright: basic, reportMissingImports=false
import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.crawlers import PlaywrightCrawler

ITEM = ".item"


async def main(executable: str, at_once: int, results: Path, url: str, *, incognito: bool) -> None:
    """Crawl the site that begins there."""
    crawler = PlaywrightCrawler(
        headless=True,
        browser_type="chromium",
        browser_launch_options={"executable_path": executable, "chromium_sandbox": os.geteuid() != 0},
        use_incognito_pages=incognito,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=at_once, max_concurrency=at_once, desired_concurrency=at_once
        ),
        request_handler_timeout=timedelta(seconds=60),
    )

    @crawler.router.default_handler
    async def read_page(context) -> None:
        await context.page.wait_for_selector(ITEM, state="attached")
        items = await context.page.locator(ITEM).all_inner_texts()
        await context.push_data({"url": context.request.url, "items": items})
        await context.enqueue_links()

    await crawler.run([url])
    data = await crawler.get_data()
    results.write_text("".join(json.dumps(item) + "\n" for item in data.items))


if __name__ == "__main__":
    executable, at_once, results, url, *options = sys.argv[1:]
    asyncio.run(main(executable, int(at_once), Path(results), url, incognito="--incognito" in options))
