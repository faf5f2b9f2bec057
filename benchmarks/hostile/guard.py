"""What the egress guard costs: the bare crawl of `raw` with the guard, and with plain connectors in its place."""

import sys
import time
from statistics import median

import uvloop

from benchmarks import raw, server
from benchmarks.launch import LOOPBACK
from benchmarks.result import Row
from shoal.core.egress import Egress
from shoal.fetch.guard import Guard
from shoal.fetch.reuse import DirectConnector

PAGES, PAGES_QUICK = 10_000, 500
ROUNDS, ROUNDS_QUICK = 9, 1
MAX_COST = 3.0


class NoGuard(Guard):
    """Judges nothing: names and connections are left to aiohttp."""

    async def check(self, host: str, *, local: bool = False) -> None:
        """Everybody may be asked."""

    def connector(self, *, local: bool = False, **options: object) -> DirectConnector:
        """As it was without a guard."""
        return DirectConnector(limit=0, ttl_dns_cache=300, **options)


def measure(quick: bool) -> list[Row]:
    """Round after round with and without, in turn: the machine's noise hits both alike. Of the processor's time."""
    pages, rounds = (PAGES_QUICK, ROUNDS_QUICK) if quick else (PAGES, ROUNDS)
    costs: list[float] = []
    with server.serve([pages]) as urls:
        for number in range(rounds):
            seconds = {kind: _crawl(urls[pages], kind) for kind in _order(number)}
            costs.append((seconds[Guard] / seconds[NoGuard] - 1) * 100)
            print(f"guard: round {number + 1}: {costs[-1]:+.1f} %", file=sys.stderr, flush=True)
    note = f"median of {rounds} rounds of {pages:,} pages, {min(costs):+.1f} to {max(costs):+.1f}"
    return [Row("time that the egress guard adds to a bare crawl", median(costs), "%", note, at_most=MAX_COST)]


def _order(number: int) -> tuple[type[Guard], type[Guard]]:
    return (Guard, NoGuard) if number % 2 else (NoGuard, Guard)


def _crawl(url: str, kind: type[Guard]) -> float:
    """Seconds of this process' processor time; one process takes all there is."""
    loop = raw.Loop(url, kind(Egress.read(LOOPBACK)))
    started = time.process_time()
    uvloop.run(loop.crawl())
    return time.process_time() - started
