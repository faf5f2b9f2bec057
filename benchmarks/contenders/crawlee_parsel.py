"""Crawlee's ParselCrawler, as its introduction has it: read the page, keep the data, follow the links.

Run as `python crawlee_parsel.py URL`. All is left as it is by default, but for the number of requests at once, which is
fixed, so that no time goes into finding it, the log, and the storage: that in memory, since the default one writes a
file for each request.
"""

# pyright: basic, reportMissingImports=false
import asyncio
import json
import logging
import sys
import time

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler
from crawlee.storage_clients import MemoryStorageClient

AT_ONCE = 128


async def main(url: str) -> None:
    """Crawl the site that begins there."""
    times: list[float] = []
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=AT_ONCE, max_concurrency=AT_ONCE, desired_concurrency=AT_ONCE
        ),
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=False,
        configure_logging=False,
    )

    @crawler.pre_navigation_hook
    async def note_the_first(_context) -> None:
        if not times:
            times.append(time.perf_counter())

    @crawler.router.default_handler
    async def read_page(context) -> None:
        await context.push_data({"url": context.request.url, "title": context.selector.css("title::text").get()})
        await context.enqueue_links()
        times[1:] = [time.perf_counter()]

    told = await crawler.run([url])
    print(json.dumps({"pages": told.requests_finished, "seconds": times[1] - times[0]}))


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(main(sys.argv[1]))
