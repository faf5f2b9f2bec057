"""Slots and what becomes of them: intervals, jitter, bounds, catching up."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from shoal.core.schedule import (
    GRACE,
    LOOK_AT_ONCE,
    MAX_RUNS_WAITING,
    TOLD_ONE_BY_ONE,
    Calendar,
    CatchUp,
    Kind,
    Plan,
    Skip,
    Timing,
    near_zones,
    plan,
)
from shoal.core.values import STORED

NOON = round(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE, HOUR = 60_000, 3_600_000
GRACE_MS = GRACE // timedelta(milliseconds=1)


def _calendar(**timing: object) -> Calendar:
    return Calendar(Timing.model_validate({"every": "1h", **timing}), NOON, "7")


def _first(calendar: Calendar, count: int, after: int = NOON) -> list[int]:
    return list(islice(calendar.after(after), count))


# --- slots -----------------------------------------------------------------------------------------------------------


def test_an_interval_counts_from_its_beginning_whoever_asks_when() -> None:
    calendar = _calendar(every="90m")
    assert _first(calendar, 2) == [NOON + 90 * MINUTE, NOON + 180 * MINUTE]
    assert calendar.next_after(NOON + 100 * MINUTE) == NOON + 180 * MINUTE
    assert calendar.next_after(NOON - 5 * HOUR) == NOON + 90 * MINUTE


def test_an_interval_with_a_start_has_its_first_slot_there() -> None:
    calendar = _calendar(start="2026-11-17T14:10+00:00")
    assert _first(calendar, 2) == [NOON + 130 * MINUTE, NOON + 190 * MINUTE]


def test_bounds_are_of_the_time_zone_and_the_end_is_the_last_moment() -> None:
    calendar = _calendar(
        every=None, cron="0 * * * *", timezone="Europe/Berlin", start="2026-11-18", end="2026-11-18T02:00"
    )
    assert [datetime.fromtimestamp(slot / 1000, UTC).hour for slot in calendar.after(NOON)] == [23, 0, 1]


@given(st.integers(60, 10**6), st.integers(0, 2**40), st.integers(0, 2**40))
def test_the_next_slot_is_after_and_at_most_one_interval_away(every: int, anchor: int, moment: int) -> None:
    calendar = Calendar(Timing(every=every), anchor, "")
    slot = calendar.next_after(moment)
    assert slot is not None
    assert slot > moment
    assert slot >= anchor + every * 1000
    assert (slot - anchor) % (every * 1000) == 0
    assert slot - moment <= every * 1000 or slot == anchor + every * 1000


@given(st.integers(0, 10**13), st.text(max_size=5))
def test_jitter_is_the_same_for_everybody_and_within_its_bound(slot: int, seed: str) -> None:
    timing = Timing.model_validate({"every": 3600, "jitter": "10m"})
    drawn = {Calendar(timing, anchor, seed).due_ms(slot) - slot for anchor in (0, NOON)}
    assert len(drawn) == 1
    assert 0 <= drawn.pop() < 600_000


def test_jitter_differs_from_slot_to_slot_and_from_schedule_to_schedule() -> None:
    timing = Timing.model_validate({"every": 3600, "jitter": "10m"})
    assert len({Calendar(timing, 0, str(seed)).due_ms(NOON) for seed in range(50)}) > 45
    assert len({Calendar(timing, 0, "1").due_ms(NOON + n * HOUR) - n * HOUR for n in range(50)}) > 45


# --- what becomes of them --------------------------------------------------------------------------------------------


def _shown(found: Plan) -> list[str]:
    return [run.skip.value if run.skip else run.kind.value for run in found.runs]


@pytest.mark.parametrize(
    ("catch_up", "late", "decided"),
    [
        ("skip", 0, ["missed", "missed", "slot"]),
        ("skip", GRACE_MS + 1, ["missed"] * 3),
        ("once", 0, ["missed", "missed", "slot"]),
        ("once", GRACE_MS, ["missed", "missed", "slot"]),
        ("once", GRACE_MS + 1, ["missed", "missed", "catch_up"]),
        ("all", 0, ["catch_up", "catch_up", "slot"]),
        ("all", GRACE_MS + 1, ["catch_up"] * 3),
    ],
)
def test_catching_up(catch_up: str, late: int, decided: list[str]) -> None:
    found = plan(_calendar(catch_up=catch_up), NOON, NOON + 3 * HOUR + late, MAX_RUNS_WAITING)
    assert _shown(found) == decided
    assert (found.cursor_ms, found.next_slot_ms) == (NOON + 3 * HOUR, NOON + 4 * HOUR)


def test_nothing_is_decided_before_its_time() -> None:
    calendar = _calendar(jitter="10m")
    due = calendar.due_ms(NOON + HOUR)
    assert plan(calendar, NOON, due - 1, 20).runs == ()
    assert _shown(plan(calendar, NOON, due, 20)) == ["slot"]
    assert plan(calendar, NOON, due - 1, 20).next_ms == due


def test_without_room_a_slot_is_told_to_be_too_many() -> None:
    assert _shown(plan(_calendar(), NOON, NOON + HOUR, 0)) == [Skip.TOO_MANY.value]
    assert _shown(plan(_calendar(catch_up="all"), NOON, NOON + 3 * HOUR, 2)) == ["too_many", "catch_up", "slot"]


@settings(deadline=None)
@given(
    st.sampled_from(CatchUp),
    st.lists(st.integers(-500, 3_000), min_size=1, max_size=8),
    st.integers(0, MAX_RUNS_WAITING),
)
def test_every_slot_is_decided_once_whatever_the_clock_does(catch_up: CatchUp, jumps: list[int], room: int) -> None:
    """The clock moves by so many minutes, back too; each slot that it has passed is in exactly one decision."""
    calendar, cursor, now, latest = _calendar(every="1m", catch_up=catch_up), NOON, NOON, NOON
    told: list[tuple[int, int, int]] = []
    for jump in jumps:
        now += jump * MINUTE
        latest = max(latest, now)
        for _ in range(5):
            found = plan(calendar, cursor, now, room)
            assert found.cursor_ms >= cursor
            assert len(found.runs) <= TOLD_ONE_BY_ONE + MAX_RUNS_WAITING + 2
            assert sum(run.skip is None for run in found.runs) <= max(room, 0)
            told += [(run.slot_ms, run.last_ms, run.slots) for run in found.runs]
            cursor = found.cursor_ms
    assert cursor == latest
    assert sum(slots for _, _, slots in told) == (latest - NOON) // MINUTE
    assert all(last < first for (_, last, _), (first, _, _) in pairwise(told))
    assert all((last - first) // MINUTE + 1 == slots for first, last, slots in told)


def test_who_is_far_behind_decides_in_steps_and_keeps_the_newest_for_the_last() -> None:
    calendar = _calendar(every="1m", catch_up="all")
    found = plan(calendar, NOON, NOON + 10_000 * MINUTE, MAX_RUNS_WAITING)
    assert sum(run.slots for run in found.runs) == LOOK_AT_ONCE - MAX_RUNS_WAITING
    assert all(run.skip is Skip.MISSED for run in found.runs)
    assert [run.kind for run in found.runs] == [Kind.SLOT] * 2


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({}, "one of cron and every"),
        ({"cron": "0 3 * * *", "every": "6h"}, "one of cron and every"),
        ({"every": "59s"}, "too short"),
        ({"every": True}, "should be a number"),
        ({"every": "6 hours"}, "write seconds"),
        ({"every": "6h", "timezone": "Mars/Olympus"}, "no such time zone; write one such as"),
        ({"every": "6h", "timezone": "Europe/Berln"}, "did you mean Europe/Berlin"),
        ({"every": "6h", "timezone": "new york"}, "did you mean America/New_York"),
        ({"every": "6h", "jitter": "7h"}, "longer than the 21600 s"),
        ({"cron": "*/5 * * * *", "jitter": "6m"}, "longer than the 300 s"),
        ({"every": "6h", "jitter": "soon"}, "write seconds"),
        ({"every": "6h", "start": "tomorrow"}, "write a time"),
        ({"every": "6h", "start": "2026-12-01", "end": "2026-11-01"}, "is not after the start"),
        ({"every": "6h", "end": "9999-01-01"}, "between 1971 and"),
        ({"every": "6h", "catch_up": "twice"}, "'skip', 'once' or 'all'"),
        ({"every": "6h", "evry": 1}, "Extra inputs"),
    ],
)
def test_a_timing_that_makes_no_sense_says_why(values: dict[str, object], error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        Timing.model_validate(values)


@pytest.mark.parametrize("start", [date(2026, 12, 1), datetime(2026, 12, 1), "2026-12-01"])
def test_a_date_may_be_one_already_as_yaml_reads_it(start: object) -> None:
    timing = Timing.model_validate({"every": "6h", "start": start, "timezone": "Europe/Berlin"})
    assert timing.start == "2026-12-01T00:00:00+01:00"


def test_a_time_zone_is_found_whatever_its_case() -> None:
    assert Timing(every=3600, timezone="europe/berlin").timezone == "Europe/Berlin"
    assert near_zones("xyzzy") == []


def test_a_timing_is_the_same_after_it_was_stored() -> None:
    timing = Timing.model_validate({"cron": "@daily", "timezone": "Asia/Tokyo", "start": "2026-12-01", "jitter": "5m"})
    again = Timing.model_validate_json(timing.model_dump_json(exclude_defaults=True), context=STORED)
    assert again == timing
    assert again.start == "2026-12-01T00:00:00+09:00"
    assert not again.moves_from(timing)
    assert again.moves_from(timing.model_copy(update={"jitter": 1.0}))
    assert not again.moves_from(timing.model_copy(update={"catch_up": CatchUp.ALL}))


@pytest.mark.parametrize(("every", "words"), [("1d", "Every 1 d"), ("6h", "Every 6 h"), ("90s", "Every 90 s")])
def test_an_interval_in_words(every: str, words: str) -> None:
    assert _calendar(every=every).timing.words == words
