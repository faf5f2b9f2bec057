"""What a run leaves behind for its verdict: the site's log, the store's rows, the sums, and the faults that came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from shoal.core.frozen import frozen
from shoal.core.job_status import Counters
from shoal.drill.kind import Kind
from shoal.drill.plan import Plan
from shoal.drill.site import Hit


@frozen
class Held:
    """A URL that a worker holds, and by which lease."""

    url: str
    lease: str
    """Its group and its number in it."""
    since: float = field(default=0.0, compare=False)
    """When it was leased, on this machine's monotonic clock."""

    @property
    def group(self) -> str:
        """What one worker has leased with one call."""
        return self.lease.partition(":")[0]


@frozen
class Injected:
    """A fault that came; times are on this machine's monotonic clock."""

    kind: Kind
    worker: int | None
    """Which worker it hit, from 0; None if it was for all."""
    began: float
    ended: float
    """The process was started again or thawed, the lock was let go."""
    held: frozenset[Held]
    """What those whom it hit had leased at that moment: this alone may be fetched again."""
    progress: float
    """Share of the pages that were stored then."""
    exit_code: int | None = None
    """Of a worker that was told to stop; None if it did not."""
    note: str = ""

    @property
    def over(self) -> float:
        """From when on the crawl must recover: others take over from a worker at once, but nobody replaces a store."""
        return self.began if self.kind.hits_worker else self.ended


@frozen
class Evidence:
    """One run, seen from outside."""

    plan: Plan
    urls: frozenset[str]
    """What there was to find."""
    finished: bool
    """Did the job end by itself in time?"""
    hits: tuple[Hit, ...]
    rows: tuple[str, ...]
    """The URL of each page row."""
    stored_at: Mapping[str, float]
    """When each URL had a row for the first time."""
    unreadable: tuple[str, ...]
    """Rows that point to bytes which are not there."""
    dead: tuple[str, ...]
    """URLs among the dead letters, with their reasons."""
    counters: Counters | None
    """The job's last sums; None if there are none."""
    faults: tuple[Injected, ...]
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    """Its outcomes by reason."""
    late: int = 0
    """Settlements that came too late and were refused."""
    reaped: int = 0
    """Leases that ran out and went back."""
    unasked: tuple[str, ...] = ()
    """Workers that ended without having been told to."""
    began: float = 0.0
    ended: float = 0.0
