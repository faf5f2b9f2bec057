"""All about schedules in one value: the book, and the chores that keep it."""

from __future__ import annotations

from shoal.chores import Chore
from shoal.core.frozen import frozen
from shoal.schedules.book import Book
from shoal.schedules.planner import Planner
from shoal.schedules.starter import Starter
from shoal.store.schedule_runs import RunStore
from shoal.store.schedules import ScheduleStore


@frozen
class Schedules:
    """The parts of one process."""

    book: Book
    planner: Planner
    starter: Starter
    store: ScheduleStore
    runs: RunStore

    def chores(self) -> tuple[Chore, ...]:
        """In every round: a slot waits for nobody's turn."""
        return Chore("schedules", self.planner.plan), Chore("schedule_runs", self.starter.tick)
