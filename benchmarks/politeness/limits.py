"""Twenty hosts with different limits, four worker processes: what the hosts saw of them.

Limits are an operator's, a job's, those of a robots.txt, and the defaults; the work lasts beyond the end. Pages take
20 to 50 ms. A host whose cap allows fewer requests than its rate is told apart: there the cap is the limit.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.politeness.ground import PLAIN, Ground, a_ground
from benchmarks.politeness.target import Hit, Manner, addresses
from benchmarks.politeness.windows import Window, share_used, worst_window
from benchmarks.result import Row
from shoal.frontier.host_change import HostChange

SECONDS, QUICK_SECONDS = 60.0, 5.0
PROCESSES = 4
JITTER_S = 0.25
"""Requests are on their way for different times: what arrives may stand closer than what was let go by so much."""
DEFAULT_RATE, DEFAULT_PARALLEL = 4.0, 2
START_S = 60.0
MIN_SHARE_PERCENT = 95.0


@dataclass(frozen=True, slots=True)
class Limit:
    """One host and what it may be asked."""

    source: str
    rate: float
    parallel: int
    delay: float = 0.03
    also: float | None = None
    """The rate of a second job on the same host, slower than the first."""

    @property
    def cap_binds(self) -> bool:
        """Does the cap allow less than nine tenths of the rate, were each page settled within 50 ms of its end?"""
        return self.parallel / (self.delay + 0.05) < self.rate * 1.1

    @property
    def title(self) -> str:
        return f"{self.source} {self.rate:g}/s, {self.parallel} at once"


LIMITS = (
    *(Limit("operator", 0.5, 1), Limit("operator", 2, 1), Limit("operator", 10, 2, 0.05), Limit("operator", 25, 4)),
    *(Limit("operator", 50, 8), Limit("operator", 50, 2, 0.05)),
    *(Limit("job", 0.5, 1), Limit("job", 1, 1), Limit("job", 3, 1), Limit("job", 8, 2), Limit("job", 15, 3)),
    *(Limit("job", 20, 4, 0.05), Limit("job", 30, 4), Limit("job", 50, 8, 0.02), Limit("job", 40, 1, 0.05)),
    *(Limit("job", 20, 4, also=5), Limit("robots", 0.5, 2), Limit("robots", 2, 2)),
    *(Limit("default", DEFAULT_RATE, DEFAULT_PARALLEL), Limit("default", DEFAULT_RATE, DEFAULT_PARALLEL, 0.05)),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one host saw."""

    limit: Limit
    requests: int
    worst: Window
    most_at_once: int
    share: float

    @property
    def jitter_ms(self) -> float:
        """As much closer must requests have come than they were let go, for this excess."""
        return max(0.0, self.worst.excess) / self.limit.rate * 1000


def measure(quick: bool, seconds: float = SECONDS) -> list[Row]:
    """Let the workers run for a while, and read the log."""
    seconds = QUICK_SECONDS if quick else seconds
    hosts = dict(zip(addresses(len(LIMITS)), LIMITS, strict=True))
    with a_ground("limits", {name: _manner(limit) for name, limit in hosts.items()}) as ground:
        for name, limit in hosts.items():
            _set_up(ground, name, limit, seconds)
        with ground.workers(PROCESSES):
            ground.target.wait_for(lambda hits: len(hits) > 0, within_s=START_S)
            time.sleep(seconds)
            until = time.monotonic()
            hits = [hit for hit in ground.target.hits() if hit.at_monotonic <= until]
        seen = [_look(hits, ground.target.host(name), limit, until) for name, limit in hosts.items()]
    for one in seen:
        _tell(one)
    return _rows(seen, seconds)


def _manner(limit: Limit) -> Manner:
    robots = f"User-agent: *\nCrawl-delay: {1 / limit.rate:g}\n" if limit.source == "robots" else ""
    return Manner(delay=limit.delay, robots=robots)


def _set_up(ground: Ground, name: str, limit: Limit, seconds: float) -> None:
    fields: dict[str, Any] = {**PLAIN, "robots": limit.source in ("robots", "default")}
    if limit.source == "operator":
        change = HostChange(rate=limit.rate, parallel=limit.parallel)
        ground.platform.hosts.set(ground.target.host(name), change)
    if limit.source == "job":
        fields |= {"rate": limit.rate, "parallel": limit.parallel}
    count = int(limit.rate * (seconds + 15) * 1.2) + 10
    ground.submit(ground.target.urls(name, count), **fields)
    if limit.also:
        fields["rate"] = limit.also
        ground.submit(ground.target.urls(name, count, "also"), **fields)


def _look(hits: Sequence[Hit], host: str, limit: Limit, until: float) -> Seen:
    mine = [hit for hit in hits if hit.host_header == host]
    times = [hit.at_monotonic for hit in mine]
    if not times:
        return Seen(limit, 0, Window(0.0, 0.0, 0.0), 0, 0.0)
    most = max(hit.in_flight for hit in mine)
    return Seen(limit, len(mine), worst_window(times, limit.rate), most, share_used(times, limit.rate, until))


def _tell(seen: Seen) -> None:
    said = (
        f"{seen.limit.title}: {seen.requests} requests, {seen.share:.1%} of the rate, {seen.most_at_once} at once, "
        f"worst window {seen.worst.describe()} ({seen.jitter_ms:.0f} ms)"
    )
    print(said, file=sys.stderr, flush=True)


def _rows(seen: Sequence[Seen], seconds: float) -> list[Row]:
    where = f"{len(seen)} hosts, {PROCESSES} processes, {seconds:g} s"
    closest = max(seen, key=lambda one: one.jitter_ms)
    over = [one for one in seen if one.most_at_once > one.limit.parallel]
    paced = [one for one in seen if not one.limit.cap_binds]
    least = min(paced, key=lambda one: one.share)
    capped = ", ".join(f"{one.limit.title}: {one.share:.0%}" for one in seen if one.limit.cap_binds)
    return [
        Row(
            "worst window above burst and rate: closer than it was let go by",
            closest.jitter_ms,
            "ms",
            f"{where}; {closest.limit.title}: {closest.worst.describe()}",
            at_most=JITTER_S * 1000,
        ),
        Row("hosts that ever saw more at once than their cap", len(over), "hosts", where, at_most=0),
        Row(
            "share of the allowed rate used, the least of all hosts",
            least.share * 100,
            "%",
            f"{least.limit.title}; median {median(one.share for one in paced):.1%} of {len(paced)}; by cap: {capped}",
            at_least=MIN_SHARE_PERCENT,
        ),
    ]
