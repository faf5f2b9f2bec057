"""How long a page keeps the loop from everything else: a heartbeat's longest pause while the page is read."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

import uvloop

from benchmarks.result import Row
from shoal.core.model import Lease, Request
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.fetch.port import Response
from shoal.worker.context import JobContext
from shoal.worker.reader import Reader
from shoal.worker.reading import read_page

BEAT_S = 0.001
MAX_MS = 250.0
MAX_BODY = 32_000_000
TIMES, TIMES_QUICK = 3, 1

PAGES: dict[str, Callable[[], str]] = {
    "100,000 nested tags": lambda: "<div>" * 100_000,
    "a million links": lambda: "".join(f"<a href=/{number}>" for number in range(1_000_000)),
    "100,000 attributes": lambda: f"<p {' '.join(f'a{number}=1' for number in range(100_000))}>",
    "10 MB of prose": lambda: "<p>the tide brings the same fish back to the same rocks</p>" * 170_000,
}

QUICK = "a million links"
"""Others take the reader to its limit of five seconds."""


def measure(quick: bool) -> list[Row]:
    """Each page a few times; the worst counts."""
    times = TIMES_QUICK if quick else TIMES
    names = [QUICK] if quick else list(PAGES)
    return [_row(name, [uvloop.run(_read(PAGES[name]())) for _ in range(times)]) for name in names]


def _row(name: str, measured: list[tuple[float, float]]) -> Row:
    worst, took = max(measured)
    note = f"worst of {len(measured)}; it was read in {took:.1f} s"
    return Row(f"{name}: longest pause of the loop", worst * 1000, "ms", note, at_most=MAX_MS)


async def _read(text: str) -> tuple[float, float]:
    """(longest pause, seconds for the page)"""
    url = parse("http://large.example/")
    context = JobContext.of("job", JobSpec(hosts=(url.host,), fields={"title": "h1"}, max_body=MAX_BODY))
    lease = Lease(1, 1, "job", Request(url))
    headers = ((b"Content-Type", b"text/html; charset=utf-8"),)
    response = Response(url, 200, "OK", headers, text.encode(), timedelta())
    reader, pauses = Reader(), list[float]()
    heart = asyncio.create_task(_beat(pauses))
    await asyncio.sleep(BEAT_S * 10)
    pauses.clear()
    started = time.perf_counter()
    await read_page(context, lease, response, reader)
    took = time.perf_counter() - started
    heart.cancel()
    await reader.end()
    return max(pauses, default=0.0), took


async def _beat(pauses: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(BEAT_S)
        now = time.perf_counter()
        pauses.append(now - last - BEAT_S)
        last = now
