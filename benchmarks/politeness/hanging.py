"""Fifty hosts from which bytes drip, and fifty whose robots.txt never comes, beside twenty that behave, in one job.

The hostile ones are those of the tests' hostile site. Each has more URLs than a worker can wait for at a time.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.politeness.ground import PLAIN, a_ground
from benchmarks.politeness.target import Manner, addresses
from benchmarks.result import Row
from tests.site.hostile.process import hostile_site

LIVE, PAGES, PAGES_QUICK = 20, 1_000, 30
HOSTILE, URLS, URLS_QUICK = 50, 20, 4
ROUNDS, ROUNDS_QUICK = 3, 1
PROCESSES = 2
DONE_S = 240.0
GRACE_S = "1"
"""Nobody waits at the end for fetches that would hang for longer."""
MIN_SHARE_PERCENT = 80.0
PARALLEL = 2
"""The default; no rate holds the good hosts back."""
SLOW = ("slow-headers", "slow-body")
ROBOTS = ("robots-silent", "robots-slow")


def measure(quick: bool) -> list[Row]:
    """Without and with them in turn; then once with as many requests to each at once as there are sockets."""
    rounds, pages, urls = (ROUNDS_QUICK, PAGES_QUICK, URLS_QUICK) if quick else (ROUNDS, PAGES, URLS)
    alone, slow, robots = list[float](), list[float](), list[float]()
    for number in range(rounds):
        alone.append(_run(f"hanging-{number}-without", pages))
        slow.append(_run(f"hanging-{number}-slow", pages, SLOW, urls))
        robots.append(_run(f"hanging-{number}-robots", pages, ROBOTS, urls))
    rows = [
        _row(f"{HOSTILE} hosts that drip beside {LIVE} others", alone, slow, bar=MIN_SHARE_PERCENT),
        _row(f"{HOSTILE} hosts whose robots.txt hangs beside {LIVE} others", alone, robots, bar=MIN_SHARE_PERCENT),
    ]
    return rows if quick else [*rows, _unbounded(pages, urls)]


def _unbounded(pages: int, urls: int) -> Row:
    alone = _run("hanging-unbounded-without", pages, parallel="unlimited")
    slow = _run("hanging-unbounded-slow", pages, SLOW, urls, parallel="unlimited")
    return _row(f"{HOSTILE} hosts that drip, asked for everything at once, beside {LIVE} others", [alone], [slow])


def _row(name: str, alone: list[float], beside: list[float], bar: float | None = None) -> Row:
    return Row(
        f"{name}: throughput left",
        median(less / plain for plain, less in zip(alone, beside, strict=True)) * 100,
        "%",
        f"{median(alone):,.0f} pages/s without, {median(beside):,.0f} with; rounds: {len(alone)}",
        at_least=bar,
    )


def _run(name: str, pages: int, cases: tuple[str, ...] = (), urls: int = 0, parallel: int | str = PARALLEL) -> float:
    """Pages a second of the hosts that behave, from the first request to the last."""
    live = addresses(LIVE)
    with ExitStack() as stack:
        ground = stack.enter_context(a_ground(name, {host: Manner() for host in live}, SHOAL_GRACE_SECONDS=GRACE_S))
        bad = _hostile_urls(stack, cases, urls) if cases else []
        wanted = [url for host in live for url in ground.target.urls(host, pages)]
        job = ground.submit([*bad, *wanted], **PLAIN, rate="unlimited", parallel=parallel)
        with ground.workers(PROCESSES):
            hits = ground.target.wait_for(lambda hits: len(hits) >= len(wanted) + LIVE, within_s=DONE_S)
            ground.platform.control.cancel(job)
    rate = len(wanted) / (hits[-1].at_monotonic - hits[0].at_monotonic)
    print(f"{name}: {rate:,.0f} pages/s", file=sys.stderr, flush=True)
    return rate


def _hostile_urls(stack: ExitStack, cases: tuple[str, ...], urls: int) -> list[str]:
    """So many of each host; the hosts play the cases in turn."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-hostile-"))
    plan = {address: cases[number % len(cases)] for number, address in enumerate(addresses(HOSTILE, LIVE + 1))}
    site = stack.enter_context(hostile_site(Path(folder), plan))
    return [f"http://{address}:{site.port}/p/{number}" for address in plan for number in range(urls)]
