"""What a slice works with, within which limits, and what it says to have done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import structlog

from shoal.core.frozen import frozen
from shoal.errors import Unavailable
from shoal.frontier.frontier import Frontier
from shoal.worker.context import JobContext
from shoal.worker.delivery import Delivery
from shoal.worker.earlier import EarlierShelf
from shoal.worker.flights import Flights
from shoal.worker.routes import RouteBook
from shoal.worker.stored import StoredPages
from shoal.worker.threads import in_thread
from shoal.worker.traces import Traces
from shoal.worker.visit import Visitor

log = structlog.get_logger()

T = TypeVar("T")


@frozen
class SliceLimits:
    """How much a slice does at once, and for how long."""

    queues: tuple[str, ...]
    sockets: int
    lease_for: timedelta
    length: timedelta
    grace: timedelta
    slow_sockets: int | None = None
    """Of these, for slow hosts at most; None is all."""
    rendered: int = 0
    """Of these, for the browser at most."""


@frozen
class SliceTools:
    """What a slice works with."""

    frontier: Frontier
    visitor: Visitor
    delivery: Delivery
    context_of: Callable[[str], JobContext | None]
    """Looks the job up in the database; None when it is not there."""
    ring: Callable[[], None]
    """Call another slice: there is more to do than this one can."""
    finalise: Callable[[str], None]
    threads: ThreadPoolExecutor
    look: Callable[[], None] = lambda: None
    """Find out what a server that was started anew has lost."""
    flights: Flights | None = None
    """Knows which visits have begun to fetch; without it, all have."""
    routes: RouteBook | None = None
    """Knows which pages of `auto` jobs need a browser."""
    stored: StoredPages | None = None
    """Knows pages that need not be fetched again; without it, all are."""
    earlier: EarlierShelf | None = None
    """Knows pages that earlier jobs have stored; without it, nothing is carried over."""
    traces: Traces = field(default_factory=Traces)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Make a call of the sync core."""
        return await in_thread(self.threads, call)

    async def finalise_all(self, jobs: Sequence[str]) -> None:
        """Write the ends of jobs down; where that fails, whoever looks at the job next does it."""
        for job in jobs:
            try:
                await self.in_thread(lambda job=job: self.finalise(job))
            except Unavailable as exc:
                log.warning("finalise_failed", job=job, error=str(exc))


@dataclass(slots=True)
class SliceReport:
    """What a slice did."""

    pages: int = 0
    late: int = 0
    given_back: int = 0
    work_remains: bool = False

    @property
    def told(self) -> str:
        """In words."""
        counts = {"pages": self.pages, "late": self.late, "given back": self.given_back}
        parts = [f"{count} {name}" for name, count in counts.items() if count or name == "pages"]
        return ", ".join([*parts, "more to do"] if self.work_remains else parts)
