"""How long an urgent URL waits while a batch crawl takes all that the workers have.

A batch of 500,000 URLs without a limit keeps two worker processes busy. At moments drawn by lot a client posts a job of
one URL in the high lane, for another host; from there to the arrival of its request at the target is what counts.
"""

import random
import time

from benchmarks.api.client import Client
from benchmarks.api.spread import Spread
from benchmarks.api.stage import BenchError
from benchmarks.politeness.ground import FREE, Ground, a_ground
from benchmarks.politeness.target import Manner, addresses
from benchmarks.result import Row

QUEUED, QUEUED_QUICK = 500_000, 40_000
TIMES, TIMES_QUICK = 100, 5
PROCESSES = 2
THINK_S = (0.05, 0.25)
SEED = 1
HOSTS = 10
START_S = 60.0
PATIENCE_S = 60.0
WARM = 500
MAX_P50_MS, MAX_P95_MS = 100.0, 250.0


def measure(quick: bool) -> list[Row]:
    """Fill the queue, and post urgent jobs while it is worked on."""
    queued, times = (QUEUED_QUICK, TIMES_QUICK) if quick else (QUEUED, TIMES)
    *busy, calm = addresses(HOSTS + 1)
    with a_ground("urgent", {name: Manner() for name in (*busy, calm)}) as ground:
        batch = ground.submit(_batch(ground, busy, queued), **FREE)
        with ground.stage.api() as api, ground.workers(PROCESSES), Client(api.port) as client:
            ground.target.wait_for(lambda hits: len(hits) > min(WARM, queued // 10), within_s=START_S)
            before, started = len(ground.target.hits()), time.monotonic()
            sent = _post_all(client, ground.target.urls(calm, times, "urgent"))
            rate = (len(ground.target.hits()) - before) / (time.monotonic() - started)
            left = _left(ground, batch)
            waits = Spread(_waits(ground, sent))
    note = f"{waits.describe(50, 95)}; {rate:,.0f} pages/s meanwhile, {left:,} of {queued:,} left"
    name = "an urgent URL under a batch crawl, from submission to its arrival"
    return [
        Row(f"{name}, p50", waits.percentile(50) * 1000, "ms", note, at_most=MAX_P50_MS),
        Row(f"{name}, p95", waits.percentile(95) * 1000, "ms", "", at_most=MAX_P95_MS),
    ]


def _batch(ground: Ground, hosts: list[str], count: int) -> list[str]:
    return [url for host in hosts for url in ground.target.urls(host, count // len(hosts))]


def _post_all(client: Client, urls: list[str]) -> dict[str, float]:
    """Target → moment of the submission."""
    rng, sent = random.Random(SEED), dict[str, float]()
    for url in urls:
        time.sleep(rng.uniform(*THINK_S))
        sent[url[url.index("/urgent") :]] = time.monotonic()
        client.post("/jobs", {"urls": [url], "lane": "high", **FREE})
    return sent


def _left(ground: Ground, job: str) -> int:
    status = ground.platform.frontier.status(job)
    left = status.counters.queued if status else 0
    if not left:
        raise BenchError("the batch crawl was over before the urgent jobs were")
    return left


def _waits(ground: Ground, sent: dict[str, float]) -> list[float]:
    hits = ground.target.wait_for(
        lambda hits: sum(hit.target in sent for hit in hits) >= len(sent), within_s=PATIENCE_S
    )
    return [hit.at_monotonic - sent[hit.target] for hit in hits if hit.target in sent]
