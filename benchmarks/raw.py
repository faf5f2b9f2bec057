"""The ceiling: Shoal's own HTTP client and parser in a bare loop; no frontier, no store, no politeness.

Run as `python -m benchmarks.raw URL`; prints its outcome as JSON.
"""

import asyncio
import json
import sys
import time

import uvloop

from benchmarks.launch import LOOPBACK
from shoal.core.egress import Egress
from shoal.core.url import Base, Url, parse
from shoal.extract.page import Html
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpClient
from shoal.fetch.port import Client, FetchLimits

CONCURRENCY = 128
LIMITS = FetchLimits()


class Loop:
    """A crawl of one host whose whole state is a set, a queue and a cache of hrefs."""

    def __init__(self, start: str, guard: Guard | None = None) -> None:
        first = parse(start)
        self.guard = guard or Guard(Egress.read(LOOPBACK))
        self.host = first.host
        self.seen = {first}
        self.hrefs: set[str] = set()
        self.waiting = asyncio.Queue[Url]()
        self.waiting.put_nowait(first)
        self.pages = 0

    async def crawl(self) -> float:
        """Fetch until nothing is left; returns the seconds it took."""
        client = HttpClient("raw", self.guard)
        try:
            started = time.perf_counter()
            workers = [asyncio.create_task(self.work(client)) for _ in range(CONCURRENCY)]
            await self.waiting.join()
            seconds = time.perf_counter() - started
            for worker in workers:
                worker.cancel()
            return seconds
        finally:
            await client.close()

    async def work(self, client: Client) -> None:
        """Fetch pages from the queue, for ever."""
        while True:
            url = await self.waiting.get()
            response = await client.fetch(url, {}, LIMITS)
            if response.status == 200:
                self.pages += 1
                self.follow(url, response.wire_body)
            self.waiting.task_done()

    def follow(self, url: Url, body: bytes) -> None:
        """Queue the links of a page that were not seen before."""
        html = Html.parse(body, "utf-8", Base(str(url)))
        for href in html.hrefs():
            if href not in self.hrefs:
                self.admit(html.base, href)

    def admit(self, base: Base, href: str) -> None:
        # An absolute path means the same on every page of a host, so it needs to be resolved once only.
        if href.startswith("/"):
            self.hrefs.add(href)
        target = base.join(href)
        if target and target.host == self.host and target not in self.seen:
            self.seen.add(target)
            self.waiting.put_nowait(target)


def main() -> None:
    """Crawl the site of the first argument."""
    loop = Loop(sys.argv[1])
    seconds = uvloop.run(loop.crawl())
    print(json.dumps({"pages": loop.pages, "seconds": seconds}))


if __name__ == "__main__":
    main()
