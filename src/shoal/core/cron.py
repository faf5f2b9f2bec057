"""Cron expressions in a time zone: which moment comes next.

Daylight saving is handled as by Debian's cron. An expression that names its hours and minutes runs once a day whatever
the clock does: a time that is skipped counts at the first moment after the gap, one that comes twice counts at the
first of the two. One whose minute or hour begins with `*` follows the clock on the wall: a skipped hour has no slots, a
repeated one has them twice. `cronsim` walks the calendar, without a zone; what the zone does to it is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from cronsim.explain import explain

FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_ALLOWED = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L or LW",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT, 5L, MON#1",
}
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LONGEST_SHIFT = timedelta(hours=3)
"""Clocks that are put back are put back by less."""
_MINUTE = timedelta(minutes=1)


class BadCron(ValueError):
    """This is no cron expression; says which field is wrong."""


def read_cron(text: str) -> str:
    """The five fields of an expression, or of its short form, checked one by one."""
    known = ALIASES.get(text.strip().lower(), text)
    parts = known.upper().split()
    if known.startswith("@"):
        raise BadCron(f"there is no {known[:20]!r}; there are {', '.join(ALIASES)}")
    if len(parts) != len(FIELDS):
        raise BadCron(
            f"a cron expression has five fields, {', '.join(FIELDS)}, such as '0 3 * * *'; this has {len(parts)}"
        )
    for number, name in enumerate(FIELDS):
        alone = ["*"] * len(FIELDS)
        alone[number] = parts[number]
        if not _is_one(" ".join(alone)):
            raise BadCron(f"{name} {parts[number][:40]!r} cannot be read: {_ALLOWED[name]}; lists, ranges, */steps")
    cron = " ".join(parts)
    if not _is_one(cron) or next_wall(cron, datetime(2024, 1, 1)) is None:
        raise BadCron(f"{text!r} never comes: no month has such a day")
    return cron


def _is_one(cron: str) -> bool:
    try:
        CronSim(cron, datetime(2024, 1, 1))
    except (CronSimError, ValueError, AssertionError):
        return False
    return True


def in_words(cron: str) -> str:
    """`At 03:00 every day`"""
    try:
        return explain(cron)
    except (ValueError, IndexError, AttributeError):  # a rare form that only its calendar understands
        return cron


def next_wall(cron: str, after: datetime) -> datetime | None:
    """The next time on the wall, without a zone; None when there is none for fifty years."""
    return next(_walls(cron, after), None)


def next_moment(cron: str, zone: ZoneInfo, after_ms: int) -> int | None:
    """The first slot after this moment; None when there is none for fifty years."""
    after = datetime.fromtimestamp(after_ms / 1000, UTC)
    return (_once if _names_its_times(cron) else _by_the_wall)(cron, zone, after)


def _once(cron: str, zone: ZoneInfo, after: datetime) -> int | None:
    """Every time on the wall is one slot."""
    for wall in _walls(cron, _wall_of(after, zone)):
        at = wall.replace(tzinfo=zone)
        while not _is_real(at):
            at += _MINUTE
        if at.astimezone(UTC) > after:
            return _ms(at)
    return None


def _by_the_wall(cron: str, zone: ZoneInfo, after: datetime) -> int | None:
    """Every moment whose time on the wall fits is a slot."""
    found: list[datetime] = []
    for wall in _walls(cron, _wall_of(after, zone) - _put_back_soon(after, zone)):
        both = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        moments = [at.astimezone(UTC) for at in both if _is_real(at)]
        found += [at for at in moments if at > after]
        if moments and moments[0] > after:  # a later time on the wall has no earlier first moment
            break
    return _ms(min(found)) if found else None


def _walls(cron: str, after: datetime) -> Iterator[datetime]:
    yield from CronSim(cron, after)


def _wall_of(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _put_back_soon(moment: datetime, zone: ZoneInfo) -> timedelta:
    """By so much are the clocks put back during the next hours: what they have shown, they show again."""
    now, later = (at.astimezone(zone).utcoffset() or timedelta() for at in (moment, moment + _LONGEST_SHIFT))
    return max(timedelta(), now - later)


def _is_real(at: datetime) -> bool:
    return at.astimezone(UTC).astimezone(at.tzinfo).replace(fold=0) == at.replace(fold=0)


@lru_cache(maxsize=1_000)
def _names_its_times(cron: str) -> bool:
    minute, hour = cron.split()[:2]
    return not minute.startswith("*") and not hour.startswith("*")


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
