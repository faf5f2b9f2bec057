"""The ceiling: one HTTP client and one parser in a bare loop; no frontier, no store, no politeness.

Run as `python -m benchmarks.raw URL`; prints its outcome as JSON.
"""

import asyncio
import json
import sys
import time

import aiohttp
import can_ada
import uvloop
from selectolax.lexbor import LexborHTMLParser

CONCURRENCY = 128


class Loop:
    """A crawl of one host whose whole state is a set, a queue and a cache of hrefs."""

    def __init__(self, start: str) -> None:
        self.origin = can_ada.parse(start).origin
        self.seen = {start}
        self.hrefs: set[str] = set()
        self.waiting = asyncio.Queue[str]()
        self.waiting.put_nowait(start)
        self.pages = 0

    async def crawl(self) -> float:
        """Fetch until nothing is left; returns the seconds it took."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            started = time.perf_counter()
            workers = [asyncio.create_task(self.work(session)) for _ in range(CONCURRENCY)]
            await self.waiting.join()
            seconds = time.perf_counter() - started
            for worker in workers:
                worker.cancel()
            return seconds

    async def work(self, session: aiohttp.ClientSession) -> None:
        """Fetch pages from the queue, for ever."""
        while True:
            await self.fetch(session, await self.waiting.get())
            self.waiting.task_done()

    async def fetch(self, session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(url) as response:
            body = await response.read()
        if response.status == 200:
            self.pages += 1
            self.follow(url, body)

    def follow(self, url: str, body: bytes) -> None:
        """Queue the links of a page that were not seen before."""
        base = can_ada.parse(url)
        for anchor in LexborHTMLParser(body).css("a[href]"):
            href = anchor.attributes["href"]
            if href and href not in self.hrefs:
                self.admit(base, href)

    def admit(self, base: can_ada.URL, href: str) -> None:
        # An absolute path means the same on every page of a host, so it needs to be resolved once only.
        if href.startswith("/"):
            self.hrefs.add(href)
        target = base + href
        if target.origin == self.origin and target.href not in self.seen:
            self.seen.add(target.href)
            self.waiting.put_nowait(target.href)


def main() -> None:
    """Crawl the site of the first argument."""
    loop = Loop(sys.argv[1])
    seconds = uvloop.run(loop.crawl())
    print(json.dumps({"pages": loop.pages, "seconds": seconds}))


if __name__ == "__main__":
    main()
