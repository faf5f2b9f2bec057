"""When a schedule runs: its slots, and what becomes of those that are due.

A slot is a moment, and its name: whoever computes it, whenever, gets the same. Jitter is drawn from schedule and slot,
so that everybody knows the same due time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from hashlib import sha256
from itertools import islice, pairwise
from typing import Annotated, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from shoal.core.cron import BadCron, in_words, next_moment, read_cron
from shoal.core.frozen import frozen
from shoal.core.values import STORED, Duration, no_boolean, read_duration

SHORTEST = timedelta(minutes=1)
"""Between two slots."""
MAX_RUNS_WAITING = 20
"""Runs of one schedule that wait: for the one before, or to be caught up with."""
GRACE = timedelta(minutes=5)
"""A slot that is later than this was missed; so was one when the next is due."""
LOOK_AT_ONCE = 2_000
"""Slots of one schedule that are looked at in one tick; one that is further behind goes on in the next."""
TOLD_ONE_BY_ONE = 100
"""Missed slots with a row of their own; those before them share one."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,49}$"
_LAST_YEAR = 2200


class CatchUp(StrEnum):
    """What becomes of slots that passed while nobody looked."""

    SKIP = "skip"
    ONCE = "once"
    """One run makes up for all of them."""
    ALL = "all"
    """Each is run, one after the other."""


class Overlap(StrEnum):
    """What becomes of a slot while the run before goes on."""

    SKIP = "skip"
    QUEUE = "queue"
    """It waits."""
    CANCEL = "cancel"
    """The run before is cancelled."""


def _read_pause(value: object) -> object:
    """`10m`, or 0 for none."""
    found = read_duration(no_boolean(value))
    if isinstance(found, str) and not found.replace(".", "", 1).isdigit():
        raise ValueError("write seconds, or a number with s, m, h or d, such as 90, 10m or 2h")
    return found


def _read_date(value: object) -> object:
    """As text: YAML reads `2026-12-01` as a date."""
    return value.isoformat() if isinstance(value, date) else value


Moment = Annotated[str, BeforeValidator(_read_date)]


class Timing(BaseModel):
    """When a schedule runs, and what it does when it cannot."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    # Descriptions of fields, not texts below them: for these Pydantic reads the source of everything that is imported.
    cron: str = Field(
        default="",
        max_length=200,
        description="Minute, hour, day of month, month, day of week: `0 3 * * *`; or @hourly, @daily, @weekly, "
        "@monthly, @yearly.",
    )
    every: Annotated[Duration, BeforeValidator(no_boolean)] | None = Field(
        default=None,
        description="In place of cron: the time between two slots, `6h`, at least a minute, counted from `start` or "
        "from when it was\nset.",
    )
    timezone: str = Field(
        default="UTC",
        max_length=60,
        description="In which the cron expression is meant, and `start` and `end` unless they have a zone: "
        "Europe/Berlin.",
    )
    jitter: Annotated[float, Field(ge=0, le=86_400), BeforeValidator(_read_pause)] = Field(
        default=0.0, description="Each slot begins up to this much later, by chance: `10m`."
    )
    start: Moment | None = Field(default=None, description="No slot before this: `2026-12-01` or `2026-12-01T08:00`.")
    end: Moment | None = Field(default=None, description="No slot after this.")
    catch_up: CatchUp = Field(
        default=CatchUp.ONCE,
        description="When slots were missed, because nothing was running: skip them, run once for all of them, or "
        "run all.",
    )
    overlap: Overlap = Field(
        default=Overlap.SKIP,
        description="When the run before goes on: skip the slot, queue it, or cancel the run before.",
    )

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, text: str, info: ValidationInfo) -> str:
        if not text or info.context == STORED:
            return text
        try:
            return read_cron(text)
        except BadCron as exc:
            raise ValueError(str(exc)) from exc

    @field_validator("every")
    @classmethod
    def _is_long_enough(cls, seconds: float | None) -> float | None:
        if seconds is not None and seconds < SHORTEST.total_seconds():
            raise ValueError("too short: at least a minute lies between two slots, such as 15m or 6h")
        return seconds

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, name: str, info: ValidationInfo) -> str:
        known = _zones().get(name.lower())
        if known is None and info.context != STORED:
            near = near_zones(name)
            hint = f"; did you mean {' or '.join(near)}?" if near else "; write one such as Europe/Berlin or UTC"
            raise ValueError(f"there is no such time zone{hint}")
        return known or name

    @field_validator("start", "end")
    @classmethod
    def _is_a_moment(cls, text: str | None, info: ValidationInfo) -> str | None:
        if not text or info.context == STORED:
            return text or None
        try:
            at = datetime.fromisoformat(text)
        except ValueError as exc:
            raise ValueError("write a time such as 2026-12-01 or 2026-12-01T08:00") from exc
        at = at.replace(tzinfo=ZoneInfo(info.data.get("timezone", "UTC"))) if at.tzinfo is None else at
        if not 1970 < at.year < _LAST_YEAR:
            raise ValueError(f"a time between 1971 and {_LAST_YEAR} is needed")
        return at.isoformat()

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        if info.context == STORED:
            return self
        if bool(self.cron) == (self.every is not None):
            raise ValueError("give one of cron and every: cron: '0 3 * * *', or every: 6h")
        if self.start_ms is not None and self.end_ms is not None and self.start_ms >= self.end_ms:
            raise ValueError(f"the end, {self.end}, is not after the start, {self.start}")
        gap = self._shortest_gap()
        if gap is not None and self.jitter * 1000 > gap:
            raise ValueError(f"a jitter of {self.jitter:g} s is longer than the {gap / 1000:g} s between two slots")
        return self

    def _shortest_gap(self) -> int | None:
        """Between some slots, in ms."""
        if not self.jitter:
            return None
        start = self.start_ms or round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
        slots = islice(Calendar(self, start, "").after(start - 1), 50)
        return min((later - earlier for earlier, later in pairwise(slots)), default=None)

    @property
    def start_ms(self) -> int | None:
        return _ms(self.start)

    @property
    def end_ms(self) -> int | None:
        return _ms(self.end)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def words(self) -> str:
        """`At 03:00 every day, Europe/Berlin`"""
        if self.every is not None:
            return f"Every {_span(self.every)}"
        return f"{in_words(self.cron)}, {self.timezone}"

    def moves_from(self, other: Timing) -> bool:
        """Does it have other slots?"""
        names = ("cron", "every", "timezone", "start", "end", "jitter")
        return any(getattr(self, name) != getattr(other, name) for name in names)


@frozen
class Calendar:
    """The slots of one schedule."""

    timing: Timing
    anchor_ms: int
    """An interval without a start counts from here."""
    seed: str
    """Whose jitter it is."""

    def next_after(self, moment_ms: int) -> int | None:
        """The first slot after this moment."""
        timing, start, end = self.timing, self.timing.start_ms, self.timing.end_ms
        if timing.every is not None:
            slot = self._next_interval(moment_ms, round(timing.every * 1000))
        else:
            after = moment_ms if start is None else max(moment_ms, start - 1)
            slot = next_moment(timing.cron, timing.zone, after)
        return None if slot is None or (end is not None and slot > end) else slot

    def _next_interval(self, moment_ms: int, step: int) -> int:
        start = self.timing.start_ms
        first = self.anchor_ms + step if start is None else start
        return first + max(0, (moment_ms - first) // step + 1) * step

    def is_slot(self, moment_ms: int) -> bool:
        return self.next_after(moment_ms - 1) == moment_ms

    def after(self, moment_ms: int) -> Iterator[int]:
        """All slots after this moment, in their order."""
        slot = self.next_after(moment_ms)
        while slot is not None:
            yield slot
            slot = self.next_after(slot)

    def due_ms(self, slot_ms: int) -> int:
        """When a slot is to begin: everybody draws the same."""
        jitter_ms = round(self.timing.jitter * 1000)
        drawn = int.from_bytes(sha256(f"{self.seed}.{slot_ms}".encode()).digest()[:8])
        return slot_ms + drawn * jitter_ms // 2**64


# --- what becomes of slots that are due ------------------------------------------------------------------------------


class Kind(StrEnum):
    """Why there is a run."""

    SLOT = "slot"
    CATCH_UP = "catch_up"
    """Its slot was missed."""
    MANUAL = "manual"
    FORCED = "forced"
    """Somebody wants it now, whatever goes on."""


class Skip(StrEnum):
    """Why a slot is not run."""

    MISSED = "missed"
    TOO_MANY = "too_many"
    """More were missed than are caught up with, or wait already."""
    OVERLAP = "overlap"
    SUPERSEDED = "superseded"
    """It waited, and a later one took its place."""
    PAUSED = "paused"
    """It waited, and the schedule was paused before its turn came."""


@frozen
class Planned:
    """A slot that is due, or several that are skipped together, with what is to become of it."""

    slot_ms: int
    due_ms: int
    kind: Kind = Kind.SLOT
    skip: Skip | None = None
    """None: it is to run."""
    last_ms: int = 0
    """The last of several; its own time else."""
    slots: int = 1


@frozen
class Plan:
    """What is to be written down of one schedule, all at once."""

    runs: tuple[Planned, ...]
    cursor_ms: int
    """The last slot that was decided about."""
    next_slot_ms: int | None
    next_ms: int | None
    """When that is due."""


def plan(calendar: Calendar, cursor_ms: int, now_ms: int, room: int) -> Plan:
    """Decide about all slots that are due; `room` is how many more runs may wait."""
    due = list(islice(_due(calendar, cursor_ms, now_ms), LOOK_AT_ONCE))
    if len(due) == LOOK_AT_ONCE:  # far behind: the newest are left for the next look
        missed = due[:-MAX_RUNS_WAITING]
        return _plan(calendar, _skipped(calendar, missed, Skip.MISSED, 1), missed[-1])
    if not due:
        return _plan(calendar, (), cursor_ms)
    on_time = now_ms - calendar.due_ms(due[-1]) <= GRACE / timedelta(milliseconds=1)
    runs = _missed(calendar, due[:-1] if on_time else due, room, stands_in=on_time)
    if on_time:
        skip = Skip.TOO_MANY if room <= len(_to_run(runs)) else None
        runs = (*runs, Planned(due[-1], calendar.due_ms(due[-1]), skip=skip, last_ms=due[-1]))
    return _plan(calendar, runs, due[-1])


def _due(calendar: Calendar, cursor_ms: int, now_ms: int) -> Iterator[int]:
    for slot in calendar.after(cursor_ms):
        if calendar.due_ms(slot) > now_ms:
            return
        yield slot


def _missed(calendar: Calendar, missed: Sequence[int], room: int, *, stands_in: bool) -> tuple[Planned, ...]:
    """By the policy; a run that is on time stands in for all that `once` would run."""
    policy = calendar.timing.catch_up
    wanted = {CatchUp.SKIP: 0, CatchUp.ONCE: 0 if stands_in else 1, CatchUp.ALL: len(missed)}[policy]
    # Of all, the last place is for the slot that is on time.
    count = max(0, min(wanted, len(missed), room - stands_in))
    left, taken = (missed[:-count], missed[-count:]) if count else (missed, ())
    why = Skip.TOO_MANY if policy is CatchUp.ALL else Skip.MISSED
    caught = (Planned(slot, calendar.due_ms(slot), Kind.CATCH_UP, last_ms=slot) for slot in taken)
    return (*_skipped(calendar, left, why), *caught)


def _skipped(
    calendar: Calendar, slots: Sequence[int], why: Skip, one_by_one: int = TOLD_ONE_BY_ONE
) -> tuple[Planned, ...]:
    """The newest have a row each; those before them share one."""
    together, alone = slots[:-one_by_one], slots[-one_by_one:]
    runs = [Planned(slot, calendar.due_ms(slot), skip=why, last_ms=slot) for slot in alone]
    if together:
        first = together[0]
        runs.insert(0, Planned(first, calendar.due_ms(first), skip=why, last_ms=together[-1], slots=len(together)))
    return tuple(runs)


def _to_run(runs: Sequence[Planned]) -> list[Planned]:
    return [run for run in runs if run.skip is None]


def _plan(calendar: Calendar, runs: Sequence[Planned], cursor_ms: int) -> Plan:
    following = calendar.next_after(cursor_ms)
    return Plan(tuple(runs), cursor_ms, following, None if following is None else calendar.due_ms(following))


# --- values ----------------------------------------------------------------------------------------------------------


@cache
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


def near_zones(name: str) -> list[str]:
    """Zones that may have been meant: by the whole name, or by the city's."""
    wanted = name.lower().replace(" ", "_")[:60]
    cities = {zone.rpartition("/")[2]: zone for zone in sorted(_zones(), reverse=True)}
    found = [cities[city] for city in get_close_matches(wanted.rpartition("/")[2], cities, n=2, cutoff=0.75)]
    found += get_close_matches(wanted, _zones(), n=2, cutoff=0.75)
    return list(dict.fromkeys(_zones()[zone] for zone in found))[:3]


def _ms(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
