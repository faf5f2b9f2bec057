"""Schedules as rows. Every change is made to the revision that was read, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from shoal.core.frozen import frozen
from shoal.core.schedule import Calendar, Plan, Timing
from shoal.core.spec import JobSpec
from shoal.core.values import STORED
from shoal.errors import Conflict, StoreUnavailable
from shoal.store.schedule_runs import insert_planned
from shoal.store.schedule_tables import schedule_runs, schedules
from shoal.store.trouble import translated_errors

MAX_SCHEDULES = 10_000
"""Of a tenant."""


@frozen
class NewSchedule:
    """One about to be recorded."""

    tenant: str
    name: str
    timing: Timing
    spec: JobSpec
    allowed: str = ""
    enabled: bool = True


@frozen
class ScheduleRow:
    """A schedule as the database knows it, without its job."""

    id: int
    tenant: str
    name: str
    timing: Timing
    allowed: str
    enabled: bool
    anchor_ms: int
    cursor_ms: int
    next_slot_ms: int | None
    next_ms: int | None
    created_ms: int
    changed_ms: int
    revision: int

    @property
    def calendar(self) -> Calendar:
        return Calendar(self.timing, self.anchor_ms, str(self.id))

    @property
    def state(self) -> str:
        """`active`, `paused`, or `ended`: no slot will come."""
        return "paused" if not self.enabled else "active" if self.next_ms is not None else "ended"


_LIGHT = [column for column in schedules.c if column.name != "spec"]
"""A job may have thousands of URLs: it is read by who runs it."""


class ScheduleStore:
    """The schedules of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- looking -------------------------------------------------------------------------------------------------

    def get(self, tenant: str, name: str) -> ScheduleRow | None:
        return self._first(schedules.c.tenant == tenant, schedules.c.name == name)

    def by_id(self, number: int) -> ScheduleRow | None:
        return self._first(schedules.c.id == number)

    def _first(self, *wanted: sa.ColumnElement[bool]) -> ScheduleRow | None:
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(sa.select(*_LIGHT).where(*wanted)).mappings().first()
        return None if row is None else _row(row)

    def spec(self, number: int) -> dict[str, Any] | None:
        """The settings of its job, as they were checked when they came."""
        query = sa.select(schedules.c.spec).where(schedules.c.id == number)
        with translated_errors(), self._engine.connect() as connection:
            text = connection.execute(query).scalar()
        return None if text is None else orjson.loads(text)

    def job(self, row: ScheduleRow) -> JobSpec:
        """Its job, to be shown: as it was checked when it came, settings of a newer version left out."""
        known = {name: value for name, value in (self.spec(row.id) or {}).items() if name in JobSpec.model_fields}
        try:
            return JobSpec.model_validate(known, context=STORED)
        except ValidationError as exc:
            raise StoreUnavailable(f"the job of schedule {row.name} in the database cannot be read: {exc}") from exc

    def list(self, tenant: str | None, limit: int, after: tuple[str, str] = ("", "")) -> list[ScheduleRow]:
        """By tenant and name, behind this place."""
        place = sa.tuple_(schedules.c.tenant, schedules.c.name)
        query = sa.select(*_LIGHT).where(place > sa.tuple_(*map(sa.literal, after)))
        query = query if tenant is None else query.where(schedules.c.tenant == tenant)
        with translated_errors(), self._engine.connect() as connection:
            found = connection.execute(query.order_by(schedules.c.tenant, schedules.c.name).limit(limit))
            return [_row(row) for row in found.mappings()]

    def due(self, now_ms: int, limit: int) -> list[ScheduleRow]:
        """Those with a slot whose time has come, the longest overdue first."""
        query = sa.select(*_LIGHT).where(schedules.c.next_ms <= now_ms).order_by(schedules.c.next_ms).limit(limit)
        with translated_errors(), self._engine.connect() as connection:
            return [_row(row) for row in connection.execute(query).mappings()]

    def count_by_state(self) -> dict[str, int]:
        state = sa.case(
            (sa.not_(schedules.c.enabled), "paused"), (schedules.c.next_ms.is_(None), "ended"), else_="active"
        )
        query = sa.select(state, sa.func.count()).group_by(state)
        with translated_errors(), self._engine.connect() as connection:
            found: dict[str, int] = {state: count for state, count in connection.execute(query)}  # noqa: C416 - types
        return {name: found.get(name, 0) for name in ("active", "paused", "ended")}

    # --- changing ------------------------------------------------------------------------------------------------

    def add(self, new: NewSchedule, now_ms: int) -> ScheduleRow:
        """Record one; it counts from now."""
        values = {
            "tenant": new.tenant,
            "name": new.name,
            "timing": timing_text(new.timing),
            "spec": spec_text(new.spec),
            "allowed": new.allowed,
            "enabled": new.enabled,
            "anchor_ms": now_ms,
            "cursor_ms": now_ms,
            "created_ms": now_ms,
            "changed_ms": now_ms,
        }
        with translated_errors(), self._engine.begin() as connection:
            self._check_room(connection, new.tenant)
            try:
                number = connection.execute(sa.insert(schedules).values(values).returning(schedules.c.id)).scalar_one()
            except IntegrityError as exc:
                raise Conflict(f"there is a schedule {new.name!r} already: change that, or take another name") from exc
            made = _row(connection.execute(sa.select(*_LIGHT).where(schedules.c.id == number)).mappings().one())
            connection.execute(sa.update(schedules).where(schedules.c.id == number).values(counting_from(made, now_ms)))
        return self.by_id(made.id) or made

    def _check_room(self, connection: Connection, tenant: str) -> None:
        query = sa.select(sa.func.count()).select_from(schedules).where(schedules.c.tenant == tenant)
        if connection.execute(query).scalar_one() >= MAX_SCHEDULES:
            raise Conflict(f"there are {MAX_SCHEDULES} schedules, and no room for more: remove some")

    def change(self, row: ScheduleRow, values: Mapping[str, Any]) -> bool:
        """Change the revision that was read; False when somebody else was quicker."""
        with translated_errors(), self._engine.begin() as connection:
            return _change(connection, row, values)

    def record(self, row: ScheduleRow, plan: Plan, now_ms: int) -> bool:
        """Move on, and write down what becomes of the slots before, all or nothing; False when somebody else did."""
        values = {"cursor_ms": plan.cursor_ms, "next_slot_ms": plan.next_slot_ms, "next_ms": plan.next_ms}
        with translated_errors(), self._engine.begin() as connection:
            if not _change(connection, row, values):
                return False
            insert_planned(connection, row.id, plan.runs, now_ms)
            return True

    def remove(self, number: int) -> None:
        """It is gone, with its history; jobs that it has made stay."""
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.delete(schedules).where(schedules.c.id == number))
            connection.execute(sa.delete(schedule_runs).where(schedule_runs.c.schedule == number))


def counting_from(row: ScheduleRow, now_ms: int, timing: Timing | None = None) -> dict[str, Any]:
    """Columns of a schedule whose slots count from now."""
    calendar = Calendar(timing or row.timing, now_ms, str(row.id))
    slot = calendar.next_after(now_ms) if row.enabled else None
    due = None if slot is None else calendar.due_ms(slot)
    return {"anchor_ms": now_ms, "cursor_ms": now_ms, "next_slot_ms": slot, "next_ms": due}


def timing_text(timing: Timing) -> str:
    return timing.model_dump_json(exclude_defaults=True)


def spec_text(spec: JobSpec) -> str:
    return spec.model_dump_json(exclude_defaults=True)


def _change(connection: Connection, row: ScheduleRow, values: Mapping[str, Any]) -> bool:
    mine = (schedules.c.id == row.id, schedules.c.revision == row.revision)
    changed = sa.update(schedules).where(*mine).values({**values, "revision": row.revision + 1})
    return bool(connection.execute(changed).rowcount)


def _row(row: sa.RowMapping) -> ScheduleRow:
    saved = orjson.loads(row["timing"])  # settings of a newer version are left out
    timing = Timing.model_validate({k: v for k, v in saved.items() if k in Timing.model_fields}, context=STORED)
    values: dict[str, Any] = {**row, "timing": timing}
    return ScheduleRow(**values)
