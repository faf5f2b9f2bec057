"""What the egress guard costs: the bare crawl of `raw` with the guard, and with plain connections in its place."""

import asyncio
import ssl
import sys
import time
from collections.abc import Callable
from statistics import median

import uvloop

from benchmarks import raw, server
from benchmarks.launch import LOOPBACK
from benchmarks.result import Row
from shoal.core.egress import Egress
from shoal.fetch.guard import Guard, P

PAGES, PAGES_QUICK = 10_000, 500
ROUNDS, ROUNDS_QUICK = 9, 1
MAX_COST = 3.0


class NoGuard(Guard):
    """Judges nothing: names and connections are left to the event loop."""

    async def check(self, host: str, *, local: bool = False) -> None:
        """Everybody may be asked."""

    def has_passed(self, host: str, *, local: bool = False) -> bool:
        """It has."""
        return True

    async def dial(
        self,
        make: Callable[[], P],
        host: str,
        port: int,
        *,
        local: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """As it would be without a guard."""
        return await asyncio.get_running_loop().create_connection(make, host, port, ssl=tls)


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
