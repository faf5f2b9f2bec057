"""Deliveries: where a job's results go, how far that has come, and who works on it: one owner at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import StrEnum

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen, values_of
from shoal.core.output import OutputSettings
from shoal.core.values import STORED
from shoal.store.tables import FIRST_VERSION, deliveries, jobs
from shoal.store.trouble import translated_errors

DUE_AT_ONCE = 20


class DeliveryState(StrEnum):
    """The life of a delivery."""

    WAITING = "waiting"
    """For its job to end, or for rows enough."""
    RETRYING = "retrying"
    """Something is wrong, and it is tried again later."""
    DELIVERED = "delivered"
    SUPERSEDED = "superseded"
    """All is there, but readers are pointed to something newer, and stay with it."""
    WITHHELD = "withheld"
    """All is there, but it may not be published."""
    FAILED = "failed"
    """Tried often enough."""

    @property
    def ended(self) -> bool:
        return self.value not in _OPEN


_OPEN = (DeliveryState.WAITING.value, DeliveryState.RETRYING.value)
_ANEW = {"state": DeliveryState.WAITING.value, "due_ms": 0, "tries": 0, "error": ""}


@frozen
class Part:
    """Rows after one id and up to another, as they were delivered."""

    name: str
    """Of its file; empty in a table."""
    after: int
    last: int
    rows: int
    size: int
    """Bytes."""
    digest: str
    """Of its rows."""
    columns: str
    """A digest of their names and types."""


@frozen
class Delivery:
    """One place of one job's."""

    id: int
    job: str
    version: str
    output: OutputSettings
    state: DeliveryState
    parts: tuple[Part, ...]
    error: str
    updated_ms: int
    allowed: str = ""
    round: int = 0
    """How often a delivery of its job was asked for before it was: what was asked for later is newer."""
    tries: int = 0
    due_ms: int = 0

    @property
    def last_id(self) -> int:
        return self.parts[-1].last if self.parts else 0

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


class Deliveries:
    """All of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, job: str, version: str, output: OutputSettings, now_ms: int, allowed: str = "") -> int:
        """Deliver there too, or once more; returns its id."""
        mine = (deliveries.c.job == job, deliveries.c.version == version, deliveries.c.output == _text(output))
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(jobs).where(jobs.c.id == job).values(id=job))  # takes the lock
            newest = _rounds(connection, job)[1]
            again = {**_ANEW, "round": newest + 1}
            if not connection.execute(sa.update(deliveries).where(*mine).values(again)).rowcount:
                insert_delivery(connection, job, output, allowed, now_ms, version, newest + 1)
            return connection.execute(sa.select(deliveries.c.id).where(*mine)).scalar_one()

    def of_job(self, job: str) -> list[Delivery]:
        """The oldest first."""
        query = sa.select(deliveries).where(deliveries.c.job == job).order_by(deliveries.c.id)
        with translated_errors(), self._engine.connect() as connection:
            return [_delivery(row) for row in connection.execute(query).mappings()]

    def get(self, number: int) -> Delivery | None:
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(sa.select(deliveries).where(deliveries.c.id == number)).mappings().first()
        return None if row is None else _delivery(row)

    def open_rounds(self, of_jobs: Collection[str]) -> set[tuple[str, int]]:
        """(job, round) of those deliveries of these jobs that have not ended."""
        d = deliveries.c
        query = (
            sa.select(d.job, d.round)
            .join(jobs, jobs.c.id == d.job)
            .where(d.job.in_(of_jobs), d.state.in_(_OPEN), jobs.c.deleted_ms.is_(None))
        )
        with translated_errors(), self._engine.connect() as connection:
            return {(str(job), int(turn)) for job, turn in connection.execute(query)}

    def due(self, now_ms: int) -> list[int]:
        """Those that somebody should work on now, and nobody does: of ended jobs, and such as are begun early."""
        d = deliveries.c
        query = (
            sa.select(d.id)
            .join(jobs, jobs.c.id == d.job)
            .where(d.state.in_(_OPEN), d.due_ms <= now_ms, d.owned_ms <= now_ms, jobs.c.deleted_ms.is_(None))
            .where(sa.or_(jobs.c.ended_ms.is_not(None), d.early))
            .order_by(d.due_ms)
            .limit(DUE_AT_ONCE)
        )
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def claim(self, number: int, owner: str, now_ms: int, lasts: timedelta) -> Delivery | None:
        """Be its owner for a while; None when another one is, or there is nothing left to do."""
        d = deliveries.c
        mine = (d.id == number, d.state.in_(_OPEN), sa.or_(d.owned_ms <= now_ms, d.owner == owner))
        until = now_ms + lasts // timedelta(milliseconds=1)
        with translated_errors(), self._engine.begin() as connection:
            taken = connection.execute(sa.update(deliveries).where(*mine).values(owner=owner, owned_ms=until)).rowcount
            row = connection.execute(sa.select(deliveries).where(d.id == number)).mappings().first() if taken else None
        return None if row is None else _delivery(row)

    def renew(self, number: int, owner: str, now_ms: int, lasts: timedelta) -> bool:
        """Stay its owner; False when another one is."""
        return self._change(number, owner, {"owned_ms": now_ms + lasts // timedelta(milliseconds=1)})

    def save(self, delivery: Delivery, owner: str, now_ms: int) -> bool:
        """Write down how far it has come; False when it has another owner meanwhile, or was asked for once more."""
        values = {
            "state": delivery.state.value,
            "last_id": delivery.last_id,
            "part": len(delivery.parts),
            "rows": delivery.rows,
            "parts": orjson.dumps([_part_values(part) for part in delivery.parts]).decode(),
            "error": delivery.error,
            "updated_ms": now_ms,
            "tries": delivery.tries,
            "due_ms": delivery.due_ms,
        }
        return self._change(delivery.id, owner, values, deliveries.c.round == delivery.round)

    def put_off(self, number: int, owner: str, due_ms: int) -> bool:
        """Look at it again then; False when it has another owner meanwhile."""
        return self._change(number, owner, {"due_ms": due_ms})

    def release(self, number: int, owner: str) -> None:
        """Let another one work on it."""
        self._change(number, owner, {"owner": "", "owned_ms": 0})

    def _change(self, number: int, owner: str, values: Mapping[str, object], *only: sa.ColumnElement[bool]) -> bool:
        mine = (deliveries.c.id == number, deliveries.c.owner == owner, *only)
        with translated_errors(), self._engine.begin() as connection:
            return bool(connection.execute(sa.update(deliveries).where(*mine).values(values)).rowcount)


def insert_delivery(
    connection: Connection,
    job: str,
    output: OutputSettings,
    allowed: str,
    now_ms: int,
    version: str = FIRST_VERSION,
    turn: int = 0,
) -> None:
    """In the transaction that makes the job."""
    values = {
        "job": job,
        "version": version,
        "output": _text(output),
        "state": DeliveryState.WAITING.value,
        "updated_ms": now_ms,
        "allowed": allowed,
        "early": output.every is not None,
        "round": turn,
    }
    connection.execute(sa.insert(deliveries).values(values))


def await_deliveries(connection: Connection, job: str) -> None:
    """The job goes on: what it finds is delivered at its next end, in the order in which it was asked for."""
    oldest, newest = _rounds(connection, job)
    again = {**_ANEW, "round": deliveries.c.round + (newest - oldest + 1)}
    connection.execute(sa.update(deliveries).where(deliveries.c.job == job).values(again))


def _rounds(connection: Connection, job: str) -> tuple[int, int]:
    """The first and the last of a job's deliveries; -1 when there are none."""
    query = sa.select(sa.func.min(deliveries.c.round), sa.func.max(deliveries.c.round)).where(deliveries.c.job == job)
    oldest, newest = connection.execute(query).one()
    return (-1, -1) if newest is None else (int(oldest), int(newest))


def _text(output: OutputSettings) -> str:
    return output.model_dump_json(exclude_defaults=True)


def _part_values(part: Part) -> list[object]:
    return list(values_of(part).values())


def _delivery(row: sa.RowMapping) -> Delivery:
    return Delivery(
        row["id"],
        row["job"],
        row["version"],
        OutputSettings.model_validate_json(row["output"], context=STORED),
        DeliveryState(row["state"]),
        tuple(Part(*values) for values in orjson.loads(row["parts"])),
        row["error"],
        row["updated_ms"],
        row["allowed"],
        row["round"],
        row["tries"],
        row["due_ms"],
    )
