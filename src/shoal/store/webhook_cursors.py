"""How far a job's items, and the changes of its pages, are handed out to an endpoint. What is stored is the queue: an
endpoint that is away has no more than its place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from shoal.core.frozen import frozen
from shoal.core.happening import ENDS, ITEMS, PAGE_CHANGED, STARTED, Happening
from shoal.core.webhook import MessageState, Webhook, WebhookState
from shoal.store.tables import jobs
from shoal.store.trouble import translated_errors
from shoal.store.upsert import insert_new
from shoal.store.webhook_rows import insert_message
from shoal.store.webhook_tables import webhook_cursors, webhook_messages, webhooks

CURSORS_AT_ONCE = 200
_NAMES = ("job", "name", "labels", "request_id")
_BEGINS = {ITEMS: 0, PAGE_CHANGED: -(2**63)}
"""Before the first item's id, and before all fingerprints."""

_c = webhook_cursors.c


@frozen
class Cursor:
    """One endpoint's place in one job's items, or in the changes of its pages."""

    webhook: str
    job: str
    type: str
    last_id: int
    data: Mapping[str, Any]
    """The job's names."""
    ended: bool
    updated_ms: int


class Cursors:
    """All of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, kind: str, most_waiting: int) -> list[Cursor]:
        """Those that are looked at, of endpoints that are enabled and have not so many messages of the kind waiting."""
        m = webhook_messages.c
        waiting = (
            sa.select(sa.func.count())
            .where(m.webhook == _c.webhook, m.state == MessageState.WAITING.value, m.type == kind)
            .scalar_subquery()
        )
        query = (
            sa.select(webhook_cursors)
            .join(webhooks, webhooks.c.id == _c.webhook)
            .where(_c.open, _c.type == kind, webhooks.c.state == WebhookState.ENABLED.value, waiting < most_waiting)
            .order_by(_c.updated_ms)
            .limit(CURSORS_AT_ONCE)
        )
        with translated_errors(), self._engine.connect() as connection:
            return [_cursor(row) for row in connection.execute(query).mappings()]

    def advance(self, cursor: Cursor, span: tuple[int, int], what: Happening, now_ms: int) -> bool:
        """Hand these items out; False when somebody else has moved it meanwhile."""
        return self._hand_out(cursor, {"last_id": span[1]}, [what], now_ms, span)

    def hand_out(self, cursor: Cursor, upto: int | None, told: Sequence[Happening], now_ms: int) -> bool:
        """Hand these out, which say all themselves, and go on behind `upto`; None: that was all. False likewise."""
        values = {"open": False} if upto is None else {"last_id": upto}
        return self._hand_out(cursor, values, told, now_ms)

    def _hand_out(
        self,
        cursor: Cursor,
        values: Mapping[str, object],
        told: Sequence[Happening],
        now_ms: int,
        span: tuple[int, int] | None = None,
    ) -> bool:
        with translated_errors(), self._engine.begin() as connection:
            if not _move(connection, cursor, values, now_ms):
                return False
            for what in told:
                insert_message(connection, cursor.webhook, what.key, what, now_ms, span)
            return True

    def close(self, cursor: Cursor, now_ms: int) -> bool:
        """All of an ended job's are handed out; it is opened again when the job goes on."""
        with translated_errors(), self._engine.begin() as connection:
            return _move(connection, cursor, {"open": False}, now_ms)

    def trim(self, before_ms: int) -> int:
        """Forget those that were closed before, of jobs that are gone: one that goes on does so from its place."""
        gone_jobs = _c.job.not_in(sa.select(jobs.c.id))
        old = sa.delete(webhook_cursors).where(sa.not_(_c.open), _c.updated_ms < before_ms, gone_jobs)
        gone = sa.delete(webhook_cursors).where(_c.webhook.not_in(sa.select(webhooks.c.id)))
        with translated_errors(), self._engine.begin() as connection:
            return connection.execute(old).rowcount + connection.execute(gone).rowcount


def follow(connection: Connection, hook: Webhook, what: Happening, now_ms: int) -> None:
    """In the transaction that hands out a job's beginning or an end of it: its items are followed from the first one
    on, or on from the last, the changes of its pages from each end on, all of them."""
    if what.type in (STARTED, *ENDS) and hook.wants(ITEMS, what.data):
        again = {"ended": True} if what.type in ENDS else {}
        _open(connection, hook.id, ITEMS, what, now_ms, again)
    if what.type in ENDS and hook.wants(PAGE_CHANGED, what.data):
        _open(connection, hook.id, PAGE_CHANGED, what, now_ms, {"ended": True, "last_id": _BEGINS[PAGE_CHANGED]})


def _open(
    connection: Connection, webhook: str, kind: str, what: Happening, now_ms: int, again: Mapping[str, object]
) -> None:
    """`again`: what changes where there is a place already, as the job was met before."""
    facts = {name: what.data.get(name) for name in _NAMES} | {"ended_at": what.data.get("ended_at")}
    values: dict[str, object] = {"data": orjson.dumps(facts).decode(), "updated_ms": now_ms, "ended": bool(again)}
    place = {"webhook": webhook, "job": what.job, "type": kind, "last_id": _BEGINS[kind]}
    connection.execute(insert_new(connection.dialect.name, webhook_cursors).values(**place, **values))
    if again:
        mine = (_c.webhook == webhook, _c.job == what.job, _c.type == kind)
        anew = {**again, "data": values["data"], "open": True, "updated_ms": _c.updated_ms + 1}
        connection.execute(sa.update(webhook_cursors).where(*mine).values(anew))


def _move(connection: Connection, cursor: Cursor, values: Mapping[str, object], now_ms: int) -> bool:
    """Only from where it was seen: who has looked before it was opened again does not close it."""
    mine = (_c.webhook == cursor.webhook, _c.job == cursor.job, _c.type == cursor.type)
    seen = _c.updated_ms == cursor.updated_ms
    changed = {**values, "updated_ms": max(now_ms, cursor.updated_ms + 1)}
    return bool(connection.execute(sa.update(webhook_cursors).where(*mine, seen, _c.open).values(changed)).rowcount)


def _cursor(row: RowMapping) -> Cursor:
    data = orjson.loads(row["data"])
    place = (row["webhook"], row["job"], row["type"], row["last_id"])
    return Cursor(*place, data, row["ended"], row["updated_ms"])
