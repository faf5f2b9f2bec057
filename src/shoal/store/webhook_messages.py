"""Messages of webhooks: made of events, once for each endpoint; owned while they are sent; kept with their attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from shoal.core.frozen import frozen, names_of, values_of
from shoal.core.happening import PING, Happening
from shoal.core.webhook import MessageState, Webhook, WebhookState
from shoal.errors import NotFound
from shoal.store.outbox import take_event, waiting_events
from shoal.store.trouble import translated_errors
from shoal.store.webhook_cursors import follow
from shoal.store.webhook_rows import Attempt, Message, insert_message, message_of
from shoal.store.webhook_tables import webhook_attempts, webhook_messages, webhooks
from shoal.store.webhooks import listening, webhook_of

EVENTS_AT_ONCE = 200
KEPT_ATTEMPTS = 30
"""Of one message; the oldest go first."""

_m = webhook_messages.c


@frozen
class Verdict:
    """What becomes of a message, and of its endpoint, after an attempt."""

    state: MessageState
    due_ms: int
    endpoint: Mapping[str, object]
    """Columns of the endpoint that change."""


@frozen
class Backlog:
    """What waits, over all endpoints that are enabled."""

    waiting: int
    oldest_ms: int | None


@frozen
class Due:
    """An endpoint that something is to be sent to."""

    webhook: str
    tenant: str
    failing: bool


@frozen
class MessageFilter:
    """Which messages to list; None is any."""

    tenant: str | None = None
    webhook: str | None = None
    state: MessageState | None = None
    before: tuple[int, str] | None = None


class Messages:
    """All of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- making them ----------------------------------------------------------------------------------------------

    def hand_out(self, now_ms: int) -> int:
        """Make messages of the events that wait, for all who want them; returns how many events there were."""
        with translated_errors(), self._engine.begin() as connection:
            waiting = waiting_events(connection, EVENTS_AT_ONCE)
            for number, what in waiting:
                if take_event(connection, number):
                    self._tell(connection, what, now_ms)
        return len(waiting)

    def _tell(self, connection: Connection, what: Happening, now_ms: int) -> None:
        for hook in listening(connection, what.tenant):
            if hook.wants(what.type, what.data):
                insert_message(connection, hook.id, what.key, what, now_ms)
            follow(connection, hook, what, now_ms)

    def ping(self, hook: Webhook, key: str, now_ms: int) -> str:
        """A message that says no more than that it arrives; returns its id."""
        what = Happening(key, PING, hook.tenant, "", now_ms, {"webhook": hook.id, "name": hook.name})
        with translated_errors(), self._engine.begin() as connection:
            return insert_message(connection, hook.id, key, what, now_ms)

    def resend(self, message: str, now_ms: int) -> None:
        """Send it once more, with the same id, now."""
        anew = {"state": MessageState.WAITING.value, "tries": 0, "due_ms": 0, "error": "", "updated_ms": now_ms}
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(webhook_messages).where(_m.id == message).values(anew))

    # --- looking --------------------------------------------------------------------------------------------------

    def get(self, message: str, tenant: str | None = None) -> Message:
        """One of another tenant does not exist; raises NotFound."""
        query = sa.select(webhook_messages).where(_m.id == message, *_of_tenant(tenant))
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(query).mappings().first()
        if row is None:
            raise NotFound(f"there is no delivery {message[:60]!r}; `shoal webhooks deliveries` lists them")
        return message_of(row)

    def newest(self, limit: int, wanted: MessageFilter) -> list[Message]:
        """The newest first."""
        conditions = [*_of_tenant(wanted.tenant)]
        if wanted.webhook is not None:
            conditions.append(_m.webhook == wanted.webhook)
        if wanted.state is not None:
            conditions.append(_m.state == wanted.state.value)
        if wanted.before is not None:
            conditions.append(sa.tuple_(_m.created_ms, _m.id) < sa.tuple_(*map(sa.literal, wanted.before)))
        query = sa.select(webhook_messages).where(*conditions)
        with translated_errors(), self._engine.connect() as connection:
            rows = connection.execute(query.order_by(_m.created_ms.desc(), _m.id.desc()).limit(limit)).mappings()
            return [message_of(row) for row in rows]

    def attempts(self, message: str) -> list[Attempt]:
        """The first first."""
        a = webhook_attempts.c
        query = sa.select(webhook_attempts).where(a.message == message).order_by(a.id)
        with translated_errors(), self._engine.connect() as connection:
            rows = connection.execute(query).mappings()
            return [Attempt(*(row[name] for name in names_of(Attempt))) for row in rows]

    def backlog(self) -> Backlog:
        """What waits for endpoints that are enabled."""
        query = (
            sa.select(sa.func.count(), sa.func.min(_m.created_ms))
            .join(webhooks, webhooks.c.id == _m.webhook)
            .where(_m.state == MessageState.WAITING.value, webhooks.c.state == WebhookState.ENABLED.value)
        )
        with translated_errors(), self._engine.connect() as connection:
            count, oldest = connection.execute(query).one()
            return Backlog(int(count), None if oldest is None else int(oldest))

    # --- sending them ---------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> list[Due]:
        """Endpoints that something is to be sent to now, and that may be asked: a look at each, not at what waits."""
        w = webhooks.c
        may = (w.state == WebhookState.ENABLED.value, w.hold_ms <= now_ms)
        waits = sa.exists().where(_m.webhook == w.id, *_is_due(now_ms))
        query = sa.select(w.id, w.tenant, w.failures).where(*may, waits).order_by(w.created_ms, w.id)
        with translated_errors(), self._engine.connect() as connection:
            return [Due(name, tenant, bool(failures)) for name, tenant, failures in connection.execute(query)]

    def claim(self, webhook: str, owner: str, now_ms: int, lasts: timedelta, limit: int) -> list[Message]:
        """Own some that are due for a while; those that wait longest first."""
        first = sa.select(_m.id).where(_m.webhook == webhook, *_is_due(now_ms)).order_by(_m.due_ms, _m.id).limit(limit)
        with translated_errors(), self._engine.begin() as connection:
            return [
                message_of(row)
                for message in connection.execute(first).scalars().all()
                if (row := _claim(connection, message, owner, now_ms, lasts)) is not None
            ]

    def claim_one(self, message: str, owner: str, now_ms: int, lasts: timedelta) -> Message | None:
        """None when another one sends it."""
        with translated_errors(), self._engine.begin() as connection:
            row = _claim(connection, message, owner, now_ms, lasts)
        return None if row is None else message_of(row)

    def settle(self, message: Message, owner: str, attempt: Attempt, judge: Callable[[Webhook], Verdict]) -> bool:
        """Write down how an attempt went, and what comes of it; False when another one has taken the message over."""
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(webhooks).where(webhooks.c.id == message.webhook).values(id=message.webhook))
            row = connection.execute(sa.select(webhooks).where(webhooks.c.id == message.webhook)).mappings().first()
            if row is None:
                return False
            verdict = judge(webhook_of(row))
            values = {
                "state": verdict.state.value,
                "tries": message.tries + 1,
                "error": attempt.reason,
                "updated_ms": attempt.at_ms,
                "due_ms": verdict.due_ms,
                "owner": "",
                "owned_ms": 0,
            }
            mine = (_m.id == message.id, _m.owner == owner)
            if not connection.execute(sa.update(webhook_messages).where(*mine).values(values)).rowcount:
                return False
            _add_attempt(connection, message.id, attempt)
            if verdict.endpoint:
                connection.execute(
                    sa.update(webhooks).where(webhooks.c.id == message.webhook).values(dict(verdict.endpoint))
                )
            return True

    # --- keeping them ---------------------------------------------------------------------------------------------

    def waiting(self) -> dict[str, int]:
        """How many wait for each endpoint."""
        query = sa.select(_m.webhook, sa.func.count()).where(_m.state == MessageState.WAITING.value)
        with translated_errors(), self._engine.connect() as connection:
            return {name: int(count) for name, count in connection.execute(query.group_by(_m.webhook))}

    def fail_surplus(self, webhook: str, most: int, now_ms: int, reason: str) -> int:
        """The oldest of more than so many that wait are given up; returns how many."""
        mine = (_m.webhook == webhook, _m.state == MessageState.WAITING.value)
        with translated_errors(), self._engine.begin() as connection:
            newest = sa.select(_m.id).where(*mine).order_by(_m.created_ms.desc(), _m.id.desc())
            surplus = connection.execute(newest.offset(most).limit(1_000)).scalars().all()
            ended = {"state": MessageState.FAILED.value, "error": reason, "updated_ms": now_ms}
            return connection.execute(sa.update(webhook_messages).where(_m.id.in_(surplus)).values(ended)).rowcount

    def trim(self, before_ms: int, most: int, at_once: int) -> int:
        """Remove what is older than this; and of more than so many the oldest, but none that waits.

        Returns how many messages.
        """
        with translated_errors(), self._engine.begin() as connection:
            total = connection.execute(sa.select(sa.func.count()).select_from(webhook_messages)).scalar_one()
            settled = sa.select(_m.id).where(_m.state != MessageState.WAITING.value)
            old = settled.order_by(_m.created_ms, _m.id).limit(min(at_once, max(0, total - most)))
            aged = sa.select(_m.id).where(_m.created_ms < before_ms).order_by(_m.created_ms, _m.id).limit(at_once)
            gone = {*connection.execute(old).scalars(), *connection.execute(aged).scalars()}
            if gone:
                connection.execute(sa.delete(webhook_attempts).where(webhook_attempts.c.message.in_(gone)))
                connection.execute(sa.delete(webhook_messages).where(_m.id.in_(gone)))
            return len(gone)


def _is_due(now_ms: int) -> tuple[sa.ColumnElement[bool], ...]:
    return _m.state == MessageState.WAITING.value, _m.due_ms <= now_ms, _m.owned_ms <= now_ms


def _of_tenant(tenant: str | None) -> Sequence[sa.ColumnElement[bool]]:
    return () if tenant is None else (_m.webhook.in_(sa.select(webhooks.c.id).where(webhooks.c.tenant == tenant)),)


def _claim(connection: Connection, message: str, owner: str, now_ms: int, lasts: timedelta) -> RowMapping | None:
    mine = (_m.id == message, _m.state == MessageState.WAITING.value, _m.owned_ms <= now_ms)
    until = now_ms + lasts // timedelta(milliseconds=1)
    taken = sa.update(webhook_messages).where(*mine).values(owner=owner, owned_ms=until)
    if not connection.execute(taken).rowcount:
        return None
    return connection.execute(sa.select(webhook_messages).where(_m.id == message)).mappings().first()


def _add_attempt(connection: Connection, message: str, attempt: Attempt) -> None:
    values = {"message": message, **values_of(attempt)}
    connection.execute(sa.insert(webhook_attempts).values(values))
    a = webhook_attempts.c
    newest = sa.select(a.id).where(a.message == message).order_by(a.id.desc()).offset(KEPT_ATTEMPTS)
    if surplus := connection.execute(newest).scalars().all():
        connection.execute(sa.delete(webhook_attempts).where(a.id.in_(surplus)))
