"""What became of the slots of schedules. A run changes its state only from the one that it was seen in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen
from shoal.core.model import JobState
from shoal.core.schedule import MAX_RUNS_WAITING, Calendar, Kind, Planned, Skip
from shoal.store.schedule_tables import schedule_runs, schedules
from shoal.store.tables import jobs
from shoal.store.trouble import translated_errors
from shoal.store.upsert import insert_new

KEEP_RUNS = 500
"""Of a schedule, the newest; those under way besides."""
LONGEST_PAUSE_MS = 120_000
"""Nobody puts a run off for longer."""


class RunState(StrEnum):
    """The life of a run."""

    WAITING = "waiting"
    """To be decided about: it may have to wait for the run before."""
    STARTING = "starting"
    """It was decided that it runs; its job may be there already."""
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    FAILED = "failed"
    """There could be no job."""


OPEN = (RunState.WAITING, RunState.STARTING, RunState.RUNNING)
OF_SLOTS = (Kind.SLOT, Kind.CATCH_UP)
"""The others are somebody's wish."""
# In so many words, as in the index of those that are open: SQLite would not use it else.
_OPEN = schedule_runs.c.state.in_(
    sa.bindparam("open", [state.value for state in OPEN], expanding=True, literal_execute=True)
)
_BUSY = schedule_runs.c.state.in_([RunState.STARTING.value, RunState.RUNNING.value])


def is_time(try_ms: int, now_ms: int) -> bool:
    """Is a run to be looked at? If it was put off for longer than anybody does, a clock was put back."""
    return try_ms <= now_ms or try_ms > now_ms + LONGEST_PAUSE_MS


@frozen
class Sums:
    """What a job had done when it ended."""

    pages: int
    failed: int
    items: int
    seconds: float


@frozen
class RunRow:
    """One slot, or several that were missed together."""

    id: int
    schedule: int
    slot_ms: int
    due_ms: int
    planned_ms: int
    last_ms: int
    slots: int
    kind: Kind
    state: RunState
    reason: str
    """Why it was skipped or failed, in a word."""
    detail: str
    job: str
    other: str
    """The job that stood in its way."""
    previous: str
    """The schedule's last finished job when it began."""
    try_ms: int
    decided_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    sums: Sums | None


class RunStore:
    """The runs of all schedules of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- looking -------------------------------------------------------------------------------------------------

    def get(self, number: int) -> RunRow | None:
        found = self._all(schedule_runs.c.id == number)
        return found[0] if found else None

    def waiting_for_somebody(self, now_ms: int, limit: int) -> list[int]:
        """Schedules with runs that are to be decided about or started, those that have waited longest first."""
        try_ms = schedule_runs.c.try_ms
        looked_for = sa.or_(try_ms <= now_ms, try_ms > now_ms + LONGEST_PAUSE_MS)  # as `is_time`
        query = (
            sa.select(schedule_runs.c.schedule)
            .where(_OPEN, schedule_runs.c.state != RunState.RUNNING.value, looked_for)
            .group_by(schedule_runs.c.schedule)
            .order_by(sa.func.min(try_ms), sa.func.min(schedule_runs.c.id))
            .limit(limit)
        )
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def under_way(self, schedule: int) -> list[RunRow]:
        """All that have not ended, in the order of their slots."""
        return self._all(_OPEN, schedule_runs.c.schedule == schedule)

    def count_waiting(self, schedule: int) -> int:
        with translated_errors(), self._engine.connect() as connection:
            return _count_waiting(connection, schedule)

    def over(self, limit: int, schedule: int | None = None) -> list[RunRow]:
        """Runs whose jobs have ended, or are gone, and that do not say so."""
        mine = sa.and_(jobs.c.id == schedule_runs.c.job, jobs.c.deleted_ms.is_(None))
        query = sa.select(schedule_runs).outerjoin(jobs, mine)
        over = sa.or_(jobs.c.id.is_(None), jobs.c.ended_ms.is_not(None))
        query = query.where(_OPEN, schedule_runs.c.state == RunState.RUNNING.value, over).limit(limit)
        query = query if schedule is None else query.where(schedule_runs.c.schedule == schedule)
        with translated_errors(), self._engine.connect() as connection:
            return [_row(row) for row in connection.execute(query).mappings()]

    def newest(self, schedule: int, limit: int, before_ms: int | None = None) -> list[RunRow]:
        """The latest slots first."""
        wanted = [schedule_runs.c.schedule == schedule]
        wanted += [] if before_ms is None else [schedule_runs.c.slot_ms < before_ms]
        query = sa.select(schedule_runs).where(*wanted).order_by(schedule_runs.c.slot_ms.desc()).limit(limit)
        with translated_errors(), self._engine.connect() as connection:
            return [_row(row) for row in connection.execute(query).mappings()]

    def last(self, numbers: Collection[int]) -> dict[int, RunRow]:
        """The latest run of each of these schedules."""
        newest = sa.select(schedule_runs.c.schedule, sa.func.max(schedule_runs.c.slot_ms))
        newest = newest.where(schedule_runs.c.schedule.in_(numbers)).group_by(schedule_runs.c.schedule)
        key = sa.tuple_(schedule_runs.c.schedule, schedule_runs.c.slot_ms)
        return {row.schedule: row for row in self._all(key.in_(newest))} if numbers else {}

    def last_finished(self, schedule: int) -> str:
        """The job of the latest run whose job has finished and is there; empty when there is none."""
        query = (
            sa.select(schedule_runs.c.job)
            .join(jobs, sa.and_(jobs.c.id == schedule_runs.c.job, jobs.c.deleted_ms.is_(None)))
            .where(schedule_runs.c.schedule == schedule, jobs.c.state == JobState.FINISHED.value)
            .order_by(schedule_runs.c.slot_ms.desc())
            .limit(1)
        )
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).scalar() or ""

    def lateness_s(self) -> float | None:
        """By so much was the slot late that was started last; None when there is none."""
        late = schedule_runs.c.started_ms - schedule_runs.c.due_ms
        query = sa.select(late).where(schedule_runs.c.started_ms.is_not(None), schedule_runs.c.kind.in_(OF_SLOTS))
        query = query.order_by(schedule_runs.c.started_ms.desc()).limit(1)
        with translated_errors(), self._engine.connect() as connection:
            found: int | None = connection.execute(query).scalar()
        return None if found is None else max(0, found) / 1000

    def _all(self, *wanted: sa.ColumnElement[bool]) -> list[RunRow]:
        query = sa.select(schedule_runs).where(*wanted).order_by(schedule_runs.c.slot_ms)
        with translated_errors(), self._engine.connect() as connection:
            return [_row(row) for row in connection.execute(query).mappings()]

    # --- changing ------------------------------------------------------------------------------------------------

    def add_now(self, schedule: int, kind: Kind, now_ms: int, calendar: Calendar) -> RunRow | None:
        """A run that somebody asks for, at this moment or the first free one after it; None: the schedule is gone.

        The moment of a slot is the slot's. Only so many wait: one more is skipped at once.
        """
        with translated_errors(), self._engine.begin() as connection:
            if not _lock(connection, schedule):
                return None
            skip = Skip.TOO_MANY if _count_waiting(connection, schedule) >= MAX_RUNS_WAITING else None
            slot = now_ms
            while calendar.is_slot(slot) or not insert_planned(
                connection, schedule, [Planned(slot, slot, kind, skip, slot)], now_ms
            ):
                slot += 1
            query = sa.select(schedule_runs).where(
                schedule_runs.c.schedule == schedule, schedule_runs.c.slot_ms == slot
            )
            return _row(connection.execute(query).mappings().one())

    def begin(self, run: RunRow, *, alone: bool, **values: Any) -> bool:
        """From waiting to starting; False when it waits no more, or when it is to be `alone` and another goes on."""
        with translated_errors(), self._engine.begin() as connection:
            if not _lock(connection, run.schedule):
                return False
            others = sa.select(schedule_runs.c.id).where(_OPEN, _BUSY, schedule_runs.c.schedule == run.schedule)
            if alone and connection.execute(others.limit(1)).first():
                return False
            return _turn(connection, run, RunState.STARTING, values)

    def turn(self, run: RunRow, state: RunState, **values: Any) -> bool:
        """From the state that it was seen in to another; False when it is in that no more."""
        if isinstance(sums := values.get("sums"), Sums):
            values["sums"] = orjson.dumps(sums).decode()
        with translated_errors(), self._engine.begin() as connection:
            return _turn(connection, run, state, values)

    def put_off(self, schedule: int, states: Sequence[RunState], try_ms: int, **values: Any) -> None:
        """Look again, not before then, at its runs in these states."""
        mine = (schedule_runs.c.schedule == schedule, _OPEN, schedule_runs.c.state.in_(states))
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(schedule_runs).where(*mine).values(try_ms=try_ms, **values))

    def trim(self, schedule: int) -> None:
        """Only so much history is kept; what has not ended stays."""
        mine = schedule_runs.c.schedule == schedule
        nth = sa.select(schedule_runs.c.slot_ms).where(mine).order_by(schedule_runs.c.slot_ms.desc())
        with translated_errors(), self._engine.begin() as connection:
            oldest = connection.execute(nth.offset(KEEP_RUNS - 1).limit(1)).scalar()
            if oldest is not None:
                old = sa.and_(mine, schedule_runs.c.slot_ms < oldest, sa.not_(_OPEN))
                connection.execute(sa.delete(schedule_runs).where(old))


def _lock(connection: Connection, schedule: int) -> bool:
    """Nobody else adds or begins runs of this schedule meanwhile; False when it is gone."""
    mine = sa.update(schedules).where(schedules.c.id == schedule).values(id=schedule)
    return bool(connection.execute(mine).rowcount)


def _count_waiting(connection: Connection, schedule: int) -> int:
    waiting = (_OPEN, schedule_runs.c.state != RunState.RUNNING.value, schedule_runs.c.schedule == schedule)
    return connection.execute(sa.select(sa.func.count()).select_from(schedule_runs).where(*waiting)).scalar_one()


def _turn(connection: Connection, run: RunRow, state: RunState, values: Mapping[str, Any]) -> bool:
    mine = (schedule_runs.c.id == run.id, schedule_runs.c.state == run.state.value)
    changed = sa.update(schedule_runs).where(*mine).values({**values, "state": state.value})
    return bool(connection.execute(changed).rowcount)


def insert_planned(connection: Connection, schedule: int, runs: Sequence[Planned], now_ms: int) -> int:
    """In the transaction that moves the schedule on: a slot that has a row keeps it. Returns how many are new."""
    statement = insert_new(connection.dialect.name, schedule_runs).returning(schedule_runs.c.id)
    return sum(connection.execute(statement, _values(schedule, run, now_ms)).first() is not None for run in runs)


def _values(schedule: int, run: Planned, now_ms: int) -> Mapping[str, Any]:
    return {
        "schedule": schedule,
        "slot_ms": run.slot_ms,
        "due_ms": run.due_ms,
        "planned_ms": now_ms,
        "last_ms": run.last_ms,
        "slots": run.slots,
        "kind": run.kind.value,
        "state": (RunState.SKIPPED if run.skip else RunState.WAITING).value,
        "reason": run.skip.value if run.skip else "",
        "detail": _SKIPPED.get(run.skip, "") if run.skip else "",
        "ended_ms": now_ms if run.skip else None,
    }


_SKIPPED = {
    Skip.MISSED: "nobody looked in time, and the catch-up policy does not run it",
    Skip.TOO_MANY: "more runs are waiting than may wait",
}


def _row(row: sa.RowMapping) -> RunRow:
    sums = None if row["sums"] is None else Sums(**orjson.loads(row["sums"]))
    values: dict[str, Any] = {**row, "kind": Kind(row["kind"]), "state": RunState(row["state"]), "sums": sums}
    return RunRow(**values)
