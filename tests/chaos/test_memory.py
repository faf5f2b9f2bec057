"""A worker's memory does not grow with what it has fetched."""

from __future__ import annotations

from datetime import timedelta
from statistics import median

from tests.chaos.pool import pool_processes
from tests.command import Shoal
from tests.long import LONG
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 20_000 if LONG else 3_000
GROWTH = 0.05 if LONG else 0.1
"""A short run has hardly filled the buffers and caches whose sizes are bounded."""
SAMPLES = 15


def test_a_worker_does_not_grow_over_the_second_half_of_a_long_crawl(shoal: Shoal) -> None:
    """All that it has in memory: what is its own alone grows as it comes to share less with its parent."""
    with serve(LinkedSite(pages=PAGES, links=40, size=25_000)) as site:
        options = ("--rate", "unlimited", "--parallel", "64", "--no-robots", "--workers", "1", "--quiet")
        with shoal.running("crawl", site.url, *options) as process:

            def around(share: float) -> float:
                """The middle of some readings on the way to this share of all fetches, a percent apart together."""
                sizes: list[int] = []
                for sample in range(SAMPLES):
                    asked = PAGES * (share - 0.02 * (SAMPLES - sample) / SAMPLES)
                    wait_until(lambda asked=asked: len(site.hits) >= asked, within=timedelta(minutes=5))
                    sizes.append(worker.memory_info().rss)
                return median(sizes)

            wait_until(lambda: len(site.hits) > 0, within=timedelta(seconds=60))
            (worker,) = pool_processes(shoal)
            half, whole = around(0.5), around(0.99)
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
    assert whole < half * (1 + GROWTH), f"{half / 1e6:.1f} MB at half, {whole / 1e6:.1f} MB at the end"
