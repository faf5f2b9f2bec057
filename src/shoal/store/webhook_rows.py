"""Messages of webhooks and their attempts, as values and as rows."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson
from sqlalchemy.engine import Connection, RowMapping

from shoal.core.frozen import frozen, names_of
from shoal.core.happening import Happening
from shoal.core.webhook import MessageState
from shoal.store.upsert import insert_new
from shoal.store.webhook_tables import webhook_messages


@frozen
class Message:
    """One event for one endpoint."""

    id: str
    webhook: str
    type: str
    job: str
    at_ms: int
    data: Mapping[str, Any]
    first_id: int | None
    last_id: int | None
    """Of a message about items: which."""
    state: MessageState
    tries: int
    error: str
    created_ms: int
    updated_ms: int
    due_ms: int


@frozen
class Attempt:
    """One time that a message was sent."""

    at_ms: int
    status: int
    """0 when there was no answer."""
    reason: str
    """Why it failed; empty when it arrived."""
    elapsed_ms: float
    answer: str


def insert_message(
    connection: Connection, webhook: str, key: str, what: Happening, now_ms: int, span: tuple[int, int] | None = None
) -> str:
    """Of this event for this endpoint there is one, however often it is made; returns its id."""
    name = message_id(webhook, key)
    values = {
        "id": name,
        "webhook": webhook,
        "type": what.type,
        "job": what.job,
        "at_ms": what.at_ms,
        "data": orjson.dumps(dict(what.data)).decode(),
        "first_id": span[0] if span else None,
        "last_id": span[1] if span else None,
        "state": MessageState.WAITING.value,
        "created_ms": now_ms,
        "updated_ms": now_ms,
    }
    connection.execute(insert_new(connection.dialect.name, webhook_messages).values(values))
    return name


def message_id(webhook: str, key: str) -> str:
    """The same for the same event and endpoint."""
    return f"msg_{blake2b(f'{webhook} {key}'.encode(), digest_size=14).hexdigest()}"


def message_of(row: RowMapping) -> Message:
    """From columns."""
    values: dict[str, Any] = {name: row[name] for name in names_of(Message)}
    values |= {"data": orjson.loads(row["data"]), "state": MessageState(row["state"])}
    return Message(**values)
