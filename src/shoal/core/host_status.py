"""Hosts as the frontier knows them, and what was decided about them."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from shoal.core.frozen import frozen
from shoal.core.model import Lane


class Breaker(StrEnum):
    """What is done about a host that cannot be reached."""

    CLOSED = "closed"
    """It can."""
    TRIPPED = "tripped"
    """It is left alone, but for a probe now and then."""
    DOWN = "down"
    """The probes failed as well: its requests are given up."""


@frozen
class Decision:
    """Something that was decided about a host."""

    at_ms: int
    what: str
    """`slowed`, `restored`, `held`, `tripped`, `down`, `reached`, `slow_lane`, `fast_lane`, `crawl_delay` or `set`."""
    reason: str
    """For people: `http_429: 8 → 4 a second`."""


@frozen
class HostStatus:
    """What the frontier knows about a host, and how it will be treated."""

    host: str
    rate: float | None
    """An operator's limit: requests a second, 0 is unlimited, None leaves it to the jobs."""
    parallel: int | None
    paused: bool
    hold: timedelta
    """Ask it for nothing during this time: it said so, or an operator."""
    next_slot: timedelta
    """Its bucket is empty until then."""
    in_flight: int
    latency_ms: int | None
    waiting_jobs: int
    """Jobs that stand at its cap."""
    seen_ms: int
    """Last asked or set."""
    lane: Lane | None = None
    """`slow` when it has proved slow; None leaves it to the jobs."""
    pace: float | None = None
    """Requests a second that it is asked at the most, because it cannot take more; None when it can."""
    breaker: Breaker = Breaker.CLOSED
    probe_in: timedelta = timedelta()
    """With an open breaker: the next probe."""
    crawl_delay: float | None = None
    """Seconds between requests that its robots.txt asks for."""
    group: str = ""
    """`@domain` when it shares its domain's bucket."""
    address: str = ""
    """Where it lives, when addresses are looked at."""
    decisions: tuple[Decision, ...] = ()
    """What was lately decided about it, the newest first."""

    @property
    def reason(self) -> str:
        """Of the newest decision."""
        return self.decisions[0].reason if self.decisions else ""

    @property
    def state(self) -> str:
        if self.paused:
            return "paused"
        if self.breaker is not Breaker.CLOSED:
            return self.breaker.value
        if self.hold:
            return "held"
        if self.pace is not None:
            return "slowed"
        return "at_cap" if self.waiting_jobs else "open"


@frozen
class HostSpeed:
    """A host and how long it lately took to answer."""

    host: str
    latency_ms: int
