"""A worker's pace: what its processes do while they have hardly a free socket."""

from __future__ import annotations

import pytest

from shoal.worker.marks import Deeds, Marks
from shoal.worker.pace import KEPT_S, Pace


def _deeds(full_pages: int, full_ms: int) -> Deeds:
    return Deeds(pages=full_pages + 5000, full_pages=full_pages, full_ms=full_ms)


def test_the_first_look_says_nothing() -> None:
    assert Pace().note(100.0, _deeds(900, 9000)) == 0.0


def test_only_the_time_counts_in_which_processes_were_full() -> None:
    pace = Pace()
    pace.note(0.0, _deeds(0, 0))
    assert pace.note(5.0, _deeds(0, 0)) == 0.0  # it waits for hosts
    assert pace.note(10.0, _deeds(100, 1000)) == 0.0  # too short to tell
    assert pace.note(15.0, _deeds(600, 6000)) == 100.0
    assert pace.note(20.0, _deeds(600, 6000)) == 100.0
    assert pace.note(25.0, _deeds(900, 12_000)) == 75.0  # two processes, or one for longer: it is that of one


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    pace = Pace()
    pace.note(0.0, _deeds(0, 0))
    pace.note(10.0, _deeds(1000, 10_000))
    assert pace.note(KEPT_S, _deeds(1000, 10_000)) == 100.0
    assert pace.note(KEPT_S + 5.0, _deeds(1000, 10_000)) == 0.0
    assert pace.note(KEPT_S + 10.0, _deeds(1040, 12_000)) == 20.0


@pytest.mark.parametrize("full_ms", [0, 1000])
def test_a_process_notes_pages_and_whether_it_was_full(full_ms: int) -> None:
    marks = Marks(2)
    marks.of(0).note(10, full_ms=full_ms)
    marks.of(1).note(7)
    marks.of(0).note(5)
    told = marks.deeds()
    assert (told.pages, told.full_pages, told.full_ms) == (22, 10 if full_ms else 0, full_ms)
