"""What happened to jobs, written down with the change itself: a crash neither loses an event nor tells it twice.

Where nobody asks to be told, nothing is written. An event that was handed out is removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from shoal.core.drift import Drift
from shoal.core.happening import Happening, Whose, began, drifted, ended
from shoal.core.job_status import JobStatus
from shoal.core.webhook import WebhookState
from shoal.store.tables import jobs
from shoal.store.upsert import insert_new
from shoal.store.webhook_tables import events, webhooks

_OF_A_JOB = (
    *(jobs.c.id, jobs.c.name, jobs.c.labels, jobs.c.tenant, jobs.c.request_id, jobs.c.created_ms),
    *(jobs.c.ended_ms, jobs.c.deleted_ms),
)


def note_start(connection: Connection, whose: Whose) -> None:
    """In the transaction that makes the job."""
    _write(connection, began(whose))


def note_end(connection: Connection, status: JobStatus) -> None:
    """In the transaction that writes down its end, before it does: an end that is written already is told already."""
    row = _job(connection, status.job)
    if row is not None and status.ended_ms is not None and row["ended_ms"] != status.ended_ms:
        _write(connection, ended(_whose(row), status))


def note_drift(connection: Connection, job: str, drifts: Sequence[Drift]) -> None:
    """In the transaction that writes down how a run differs from earlier ones."""
    row = _job(connection, job)
    if row is not None and drifts:
        _write(connection, drifted(_whose(row), row["ended_ms"] or 0, drifts))


def waiting_events(connection: Connection, limit: int) -> list[tuple[int, Happening]]:
    """Those that happened first."""
    rows = connection.execute(sa.select(events).order_by(events.c.id).limit(limit)).mappings()
    return [(row["id"], _happening(row)) for row in rows]


def take_event(connection: Connection, number: int) -> bool:
    """It is handed out in this transaction, unless somebody else has done so."""
    return bool(connection.execute(sa.delete(events).where(events.c.id == number)).rowcount)


def _write(connection: Connection, what: Happening) -> None:
    heard = (webhooks.c.tenant == what.tenant, webhooks.c.state != WebhookState.DISABLED.value)
    if connection.execute(sa.select(webhooks.c.id).where(*heard).limit(1)).first() is None:
        return
    values = {
        "key": what.key,
        "type": what.type,
        "tenant": what.tenant,
        "job": what.job,
        "at_ms": what.at_ms,
        "data": orjson.dumps(dict(what.data)).decode(),
    }
    connection.execute(insert_new(connection.dialect.name, events).values(values))


def _job(connection: Connection, job: str) -> RowMapping | None:
    return connection.execute(sa.select(*_OF_A_JOB).where(jobs.c.id == job)).mappings().first()


def _whose(row: RowMapping) -> Whose:
    labels = tuple(row["labels"].split())
    return Whose(row["id"], row["name"], labels, row["tenant"], row["request_id"], row["created_ms"])


def _happening(row: RowMapping) -> Happening:
    data = orjson.loads(row["data"])
    return Happening(row["key"], row["type"], row["tenant"], row["job"], row["at_ms"], data)
