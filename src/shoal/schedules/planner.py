"""Slots that are due become rows, each once: the row and the schedule's move to the next slot are one transaction.

Any number of processes may do this at once. A clock that is put back finds all slots decided; one that jumps ahead has
missed some, and the schedule's policy says what becomes of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import structlog

from shoal.core.schedule import MAX_RUNS_WAITING, plan
from shoal.errors import ShoalError, Unavailable
from shoal.store.schedule_runs import RunStore
from shoal.store.schedules import ScheduleRow, ScheduleStore

log = structlog.get_logger()

SCHEDULES_AT_ONCE = 1_000
"""Many: a slot that waits long for its plan would be taken for missed."""
LONGEST_S = 2.0
"""Of one round: who keeps house has more to do."""
UNSERVED_PAUSE_MS = 60_000
"""A schedule that cannot be served is looked at again after this."""

Count = Callable[[str, int], None]
"""For the metrics: what became of how many slots."""
T = TypeVar("T")


class Planner:
    """Decides about slots."""

    def __init__(self, store: ScheduleStore, runs: RunStore, clock: Callable[[], int], count: Count) -> None:
        self._store = store
        self._runs = runs
        self._clock = clock
        self._count = count

    def plan(self) -> None:
        """Decide about slots that are due, the longest overdue first."""
        now = self._clock()
        for row in for_a_while(self._store.due(now, SCHEDULES_AT_ONCE), LONGEST_S):
            with not_holding_up(row.id, lambda row=row: self._put_off(row, now)):
                self._plan(row, now)

    def _put_off(self, row: ScheduleRow, now_ms: int) -> None:
        self._store.change(row, {"next_ms": now_ms + UNSERVED_PAUSE_MS})

    def _plan(self, row: ScheduleRow, now_ms: int) -> None:
        found = plan(row.calendar, row.cursor_ms, now_ms, MAX_RUNS_WAITING - self._runs.count_waiting(row.id))
        if not self._store.record(row, found, now_ms):
            return  # somebody else has
        for run in found.runs:
            what = run.skip.value if run.skip else "run"
            log.info("slot_planned", schedule=row.name, slot_ms=run.slot_ms, slots=run.slots, what=what)
        self._runs.trim(row.id)
        for reason in dict.fromkeys(run.skip for run in found.runs if run.skip):
            self._count(f"skipped:{reason.value}", sum(run.slots for run in found.runs if run.skip is reason))


@contextmanager
def not_holding_up(schedule: int, put_off: Callable[[], None]) -> Generator[None]:
    """A schedule that cannot be served, such as one whose time zone this machine does not know, holds up no other."""
    try:
        yield
    except Unavailable:
        raise
    except (ShoalError, ValueError, KeyError) as exc:
        log.exception("schedule_failed", schedule_id=schedule, error=str(exc))
        put_off()


def for_a_while(items: Iterable[T], seconds: float) -> Iterator[T]:
    """One at least, and no more when the time is up."""
    until = time.monotonic() + seconds
    for item in items:
        yield item
        if time.monotonic() >= until:
            return
