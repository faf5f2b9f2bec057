"""How many workers would be useful: what the frontier tells, put together, and remembered for a few seconds."""

from __future__ import annotations

import time
from threading import Lock

from shoal.core.advice import Fleet, KindAdvice, QueueAdvice, advise, by_kind
from shoal.core.fleet import WorkerBeat
from shoal.core.frozen import frozen
from shoal.frontier.watch import Watch

REMEMBERED_S = 5.0
"""Workers tell how they do as often as that."""


@frozen
class Staff:
    """Who is there, and what for."""

    queues: tuple[QueueAdvice, ...]
    workers: tuple[WorkerBeat, ...]

    @property
    def kinds(self) -> list[KindAdvice]:
        return by_kind(self.queues, self.workers)

    def of(self, queues: frozenset[str]) -> Staff:
        """Only what these queues need: those that one deployment serves."""
        return Staff(tuple(row for row in self.queues if row.queue in queues), self.workers)


def look(watch: Watch, address_parallel: int) -> Staff:
    """What each queue needs now."""
    workers = tuple(watch.workers())
    fleet = Fleet(watch.queues(), watch.overdue(), watch.samples(), workers, watch.troubles(), address_parallel)
    return Staff(tuple(advise(fleet)), workers)


class Staffing:
    """The same for who is asked often: nobody looks more often than every few seconds."""

    def __init__(self, address_parallel: int) -> None:
        self._address_parallel = address_parallel
        self._lock = Lock()
        self._last: tuple[float, Staff] | None = None

    def look(self, watch: Watch) -> Staff:
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > REMEMBERED_S:
                self._last = time.monotonic(), look(watch, self._address_parallel)
            return self._last[1]
