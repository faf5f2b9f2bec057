"""The fleet at one moment: what its first look needs, on a terminal and for programs."""

from __future__ import annotations

import time

from shoal.core.fleet import Load, QueueDepth, WorkerBeat
from shoal.core.frozen import frozen
from shoal.core.host_status import HostStatus
from shoal.core.model import JobState
from shoal.core.trouble import Trouble
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobFilter
from shoal.wiring import Platform

MOST_JOBS = 200
MOST_HOSTS = 200


@frozen
class FleetLook:
    """All at once."""

    at: float
    """Seconds of the clock that only goes forward."""
    pages: int
    """Fetched by all jobs since the frontier began."""
    jobs: tuple[JobRow, ...]
    """Those that have not ended."""
    queues: tuple[QueueDepth, ...]
    hosts: tuple[HostStatus, ...]
    """The last used ones."""
    workers: tuple[WorkerBeat, ...]
    load: Load
    troubles: tuple[Trouble, ...]

    def rate_since(self, before: FleetLook | None) -> float | None:
        """Pages a second between two looks; None when that cannot be said."""
        seconds = self.at - before.at if before else 0.0
        if before is None or seconds <= 0 or self.pages < before.pages:
            return None
        return (self.pages - before.pages) / seconds


def look_at_fleet(platform: Platform) -> FleetLook:
    """Raises RedisUnavailable or DatabaseUnavailable."""
    watch = platform.watch
    stats = watch.stats()
    states = (JobState.RUNNING, JobState.PAUSED)
    jobs = [row for state in states for row in platform.control.jobs(MOST_JOBS, JobFilter(state=state))]
    return FleetLook(
        at=time.monotonic(),
        pages=sum(count for name, count in stats.items() if name.partition(":")[0] == "done"),
        jobs=tuple(jobs),
        queues=tuple(watch.queues()),
        hosts=tuple(watch.hosts(MOST_HOSTS)),
        workers=tuple(watch.workers()),
        load=watch.load(),
        troubles=watch.troubles(),
    )
