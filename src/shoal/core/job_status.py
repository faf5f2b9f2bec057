"""Jobs as they stand: sums, state, changes."""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta

from shoal.core.frozen import frozen
from shoal.core.host_status import HostSpeed
from shoal.core.model import JobState
from shoal.core.reuse import REUSED
from shoal.core.totals import Totals
from shoal.core.trouble import Trouble


@frozen
class Event:
    """A change of a job, as the frontier tells it."""

    id: str
    job: str
    kind: str
    """`state`, `ended`, `changed` or `drift`."""
    state: str


@frozen
class Counters:
    """A job's sums. `admitted = queued + delayed + leased + done + dead + dropped`; `seen = admitted + filtered`."""

    seen: int = 0
    admitted: int = 0
    filtered: int = 0
    duplicates: int = 0
    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    dropped: int = 0
    retries: int = 0
    lost: int = 0
    received: int = 0
    saved: int = 0
    """Bytes of pages that were carried over from earlier jobs, and did not have to come."""

    @property
    def reconciles(self) -> bool:
        places = self.queued + self.delayed + self.leased + self.done + self.dead + self.dropped
        return self.admitted == places and self.seen == self.admitted + self.filtered

    @property
    def pending(self) -> int:
        return self.queued + self.delayed + self.leased


@frozen
class JobStatus:
    """A job as the frontier, or after its end the database, knows it."""

    job: str
    state: JobState
    counters: Counters
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    slowest: tuple[HostSpeed, ...] = ()
    started_ms: int | None = None
    ended_ms: int | None = None
    now_ms: int = 0
    open: bool = False
    """More URLs may be submitted."""
    rate: float = 0.0
    """Pages a second over the last five to ten seconds."""
    rested_ms: int = 0
    """Time that it was paused since its first lease."""
    troubles: tuple[Trouble, ...] = ()
    """While it runs: what workers cannot use at the moment."""
    partial: bool = False
    """A server that has some of its hosts is away: what is known of these is as old as that."""

    @property
    def totals(self) -> Totals:
        """What became of all that was discovered."""
        return Totals.of(self.counters, self.reasons)

    @property
    def reconciles(self) -> bool:
        """Do the sums add up, each request in one place, and all that was discovered accounted for?"""
        return self.counters.reconciles and self.totals.reconciles

    @property
    def eta(self) -> timedelta | None:
        """When what waits now would be done at the present rate; a crawl that finds more takes longer."""
        if self.state is not JobState.RUNNING or not self.rate:
            return None
        return timedelta(seconds=self.counters.pending / self.rate)

    @property
    def redirects(self) -> int:
        """How many of the done requests were only pointers to others."""
        return self.reasons.get("done:redirect", 0)

    @property
    def pages(self) -> int:
        """Done requests that were no redirects."""
        return self.counters.done - self.redirects

    @property
    def errors(self) -> dict[str, int]:
        """Requests that ended without a page, by reason."""
        found: dict[str, int] = {}
        for name, count in self.reasons.items():
            outcome, _, reason = name.partition(":")
            if outcome in ("dead", "robots"):
                found[reason] = found.get(reason, 0) + count
        return found

    @property
    def carried(self) -> dict[str, int]:
        """How many pages were carried over from earlier jobs, and how; the most frequent first."""
        found = {reason: self.reasons.get(f"done:{reason}", 0) for reason in REUSED}
        return {reason: count for reason, count in sorted(found.items(), key=lambda pair: -pair[1]) if count}

    @property
    def elapsed(self) -> timedelta:
        """First lease to end, or to now, without the pauses."""
        if self.started_ms is None:
            return timedelta()
        return timedelta(milliseconds=max(0, (self.ended_ms or self.now_ms) - self.started_ms - self.rested_ms))
