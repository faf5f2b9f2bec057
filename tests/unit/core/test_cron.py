"""Cron expressions in time zones: daylight saving, leap days, ends of months."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.cron import BadCron, in_words, next_moment, next_wall, read_cron

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _slots(cron: str, zone: str, after: str, count: int) -> list[str]:
    """On the clock of the zone."""
    found: list[str] = []
    moment: int | None = _ms(after)
    while moment is not None and len(found) < count:
        moment = next_moment(read_cron(cron), ZoneInfo(zone), moment)
        if moment is not None:
            found.append(datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("cron", "zone", "after", "slots"),
    [
        ("30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        ("0,30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
        ("0 2,3 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
        ("30 2 * * *", BERLIN, "2026-10-24T12:00+02:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        ("0 * * * *", BERLIN, "2026-03-29T00:30+01:00", ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"]),
        (
            *("*/30 2 * * *", BERLIN, "2026-10-24T12:00+02:00"),
            ["2026-10-25T02:00+02:00", "2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00"],
        ),
        ("*/30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-30T02:00+02:00"]),
        ("30 2 * * *", NEW_YORK, "2026-03-07T12:00-05:00", ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"]),
        ("30 1 * * *", NEW_YORK, "2026-10-31T12:00-04:00", ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00+10:30", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-04T12:00+11:00", ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]),
        (
            *("*/30 1-2 * * *", LORD_HOWE, "2026-04-04T12:00+11:00"),
            ["2026-04-05T01:00+11:00", "2026-04-05T01:30+11:00", "2026-04-05T01:30+10:30", "2026-04-05T02:00+10:30"],
        ),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00+00:00", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
        ("0 0 31 * *", "UTC", "2026-01-31T00:00+00:00", ["2026-03-31T00:00+00:00", "2026-05-31T00:00+00:00"]),
        ("0 12 L * *", "UTC", "2028-02-01T00:00+00:00", ["2028-02-29T12:00+00:00", "2028-03-31T12:00+00:00"]),
        ("@weekly", "UTC", "2026-11-17T00:00+00:00", ["2026-11-22T00:00+00:00"]),
        ("0 9 * * mon#1", "UTC", "2026-11-17T00:00+00:00", ["2026-12-07T09:00+00:00"]),
    ],
)
def test_the_next_slots(cron: str, zone: str, after: str, slots: list[str]) -> None:
    assert _slots(cron, zone, after, len(slots)) == slots


def test_who_looks_during_the_repeated_hour_does_not_go_back() -> None:
    after = "2026-10-25T02:10+01:00"
    assert _slots("15 2 * * *", BERLIN, after, 1) == ["2026-10-26T02:15+01:00"]
    assert _slots("*/5 * * * *", BERLIN, after, 1) == ["2026-10-25T02:15+01:00"]


minutes = st.sampled_from(["0", "15", "*/20", "30,45", "*"])
hours = st.sampled_from(["*", "2", "1-3", "*/2", "0"])
days = st.sampled_from(["*", "1", "L", "29", "25-31"])


@settings(max_examples=150, deadline=None)
@given(
    minutes,
    hours,
    days,
    st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "Africa/Cairo", "Asia/Kathmandu", "UTC"]),
    st.sampled_from(["2026-03-07", "2026-03-28", "2026-04-04", "2026-04-23", "2026-10-03", "2026-10-24", "2026-10-31"]),
    st.integers(0, 2 * 24 * 60),
)
def test_the_next_slot_is_the_first_minute_that_fits(
    minute: str, hour: str, day: str, zone: str, near: str, offset: int
) -> None:
    """Held against a look at every single minute."""
    cron, place = f"{minute} {hour} {day} * *", ZoneInfo(zone)
    after = datetime.fromisoformat(f"{near}T00:00+00:00") + timedelta(minutes=offset)
    found = next_moment(cron, place, round(after.timestamp() * 1000))
    expected = _looked_for(cron, place, after)
    if expected is None:
        assert found is None or found > (after + timedelta(days=3)).timestamp() * 1000
    else:
        assert found == round(expected.timestamp() * 1000)


def _looked_for(cron: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    by_the_wall = cron.split()[0].startswith("*") or cron.split()[1].startswith("*")
    for number in range(1, 3 * 24 * 60 + 1):
        at = after + timedelta(minutes=number)
        if any(_fits(cron, wall) for wall in _walls(at, zone, by_the_wall=by_the_wall)):
            return at
    return None


def _walls(at: datetime, zone: ZoneInfo, *, by_the_wall: bool) -> list[datetime]:
    """The times on the wall that count at this minute: its own, with those that were skipped just before it."""
    wall = at.astimezone(zone)
    plain = wall.replace(tzinfo=None, fold=0)
    if by_the_wall:
        return [plain]
    before = (at - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None, fold=0)
    skipped = round((plain - before) / timedelta(minutes=1)) - 1
    own = [] if wall.fold else [plain]
    return [*own, *(before + timedelta(minutes=n) for n in range(1, skipped + 1))]


def _fits(cron: str, wall: datetime) -> bool:
    return wall in _of_day(cron, wall.date())


@cache
def _of_day(cron: str, day: date) -> frozenset[datetime]:
    """All times on the wall of a day that fit."""
    start = datetime.combine(day, time())
    found, at = set[datetime](), next_wall(cron, start - timedelta(minutes=1))
    while at is not None and at < start + timedelta(days=1):
        found.add(at)
        at = next_wall(cron, at)
    return frozenset(found)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("61 * * * *", "minute '61' cannot be read: 0-59"),
        ("0 24 * * *", "hour '24' cannot be read: 0-23"),
        ("0 0 0 * *", "day-of-month '0' cannot be read: 1-31"),
        ("0 0 * 13 *", "month '13' cannot be read: 1-12"),
        ("0 0 * * 8", "day-of-week '8' cannot be read: 0-7"),
        ("0 0 * * MUN", "day-of-week 'MUN' cannot be read"),
        ("*/0 * * * *", "minute '\\*/0' cannot be read"),
        ("5-1 * * * *", "minute '5-1' cannot be read"),
        ("0 3 * *", "five fields, .* this has 4"),
        ("0 0 3 * * *", "this has 6"),
        ("", "this has 0"),
        ("@nightly", "there is no '@nightly'; there are @hourly"),
        ("0 0 31 2 *", "never comes"),
        ("0 0 30,31 2 *", "never comes"),
    ],
)
def test_what_is_wrong_is_named(text: str, error: str) -> None:
    with pytest.raises(BadCron, match=error):
        read_cron(text)


@given(st.text(alphabet="0123456789*/,-#LWMONSUJAN @?", max_size=30))
def test_any_text_is_an_expression_or_says_why_it_is_none(text: str) -> None:
    try:
        cron = read_cron(text)
    except BadCron:
        return
    assert next_moment(cron, ZoneInfo("UTC"), 0) is not None
    assert in_words(cron)


def test_an_expression_is_said_in_words() -> None:
    assert in_words("0 3 * * *") == "At 03:00 every day"
