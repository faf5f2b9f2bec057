"""Progress and its absence: when a worker counts as stalled, and which processes as hung."""

from __future__ import annotations

import os

from shoal.worker.marks import Marks
from shoal.worker.watchdog import Watchdog


class Clock:
    """Goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_work_that_nobody_takes_is_a_stall_after_a_while() -> None:
    clock = Clock()
    watchdog = Watchdog(30, clock)
    assert watchdog.look(slices=7) is None
    clock.now += 29
    assert watchdog.look(slices=7) is None
    clock.now += 1
    assert watchdog.look(slices=7) == 30


def test_a_slice_that_begins_is_progress() -> None:
    clock = Clock()
    watchdog = Watchdog(30, clock)
    watchdog.look(slices=7)
    clock.now += 29
    assert watchdog.look(slices=8) is None
    clock.now += 29
    assert watchdog.look(slices=8) is None
    clock.now += 1
    assert watchdog.look(slices=8) == 30


def test_a_moment_without_work_begins_the_count_anew() -> None:
    clock = Clock()
    watchdog = Watchdog(30, clock)
    watchdog.look(slices=7)
    clock.now += 29
    watchdog.calm()
    assert not watchdog.is_worried
    clock.now += 29
    assert watchdog.look(slices=7) is None
    assert watchdog.is_worried


def test_a_process_without_marks_is_hung_only_while_it_is_in_a_slice() -> None:
    hour = 3600.0
    later = Marks(2)
    later.of(1).make()
    assert later.silent(hour) == []
    assert later.silent(-1) == [os.getpid()]
    later.of(1).clear()
    assert later.silent(-1) == []
