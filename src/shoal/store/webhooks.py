"""Endpoints that are told what happens: who they are, and how they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from shoal.core.webhook import MAX_WEBHOOKS, MessageState, Secret, Webhook, WebhookSettings, WebhookState
from shoal.errors import Conflict, NotFound
from shoal.store.trouble import translated_errors
from shoal.store.webhook_tables import events, webhook_attempts, webhook_cursors, webhook_messages, webhooks

_WELL: Mapping[str, object] = {"failures": 0, "failing_since_ms": None, "given_up": 0, "hold_ms": 0}
Change = Callable[[Webhook], Webhook]


class WebhookStore:
    """All of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, hook: Webhook) -> None:
        """Raises Conflict when the tenant has one of this name, or enough."""
        c = webhooks.c
        with translated_errors(), self._engine.begin() as connection:
            names = set(connection.execute(sa.select(c.name).where(c.tenant == hook.tenant)).scalars())
            _check_free(hook.name, names)
            if len(names) >= MAX_WEBHOOKS:
                raise Conflict(f"there are {len(names)} webhooks, and no more are taken; remove one that nobody needs")
            values = {
                "id": hook.id,
                "tenant": hook.tenant,
                "state": hook.state.value,
                "created_ms": hook.created_ms,
                "by_api": hook.by_api,
                **_words(hook.settings, hook.secrets),
            }
            connection.execute(sa.insert(webhooks).values(values))

    def all(self, tenant: str | None = None) -> list[Webhook]:
        """By name."""
        query = sa.select(webhooks).order_by(webhooks.c.tenant, webhooks.c.name)
        query = query if tenant is None else query.where(webhooks.c.tenant == tenant)
        with translated_errors(), self._engine.connect() as connection:
            return [webhook_of(row) for row in connection.execute(query).mappings()]

    def find(self, name: str, tenant: str | None = None) -> Webhook:
        """By its id or its name; one of another tenant does not exist. Raises NotFound."""
        mine = [sa.or_(webhooks.c.id == name, webhooks.c.name == name)]
        mine += [] if tenant is None else [webhooks.c.tenant == tenant]
        with translated_errors(), self._engine.connect() as connection:
            rows = connection.execute(sa.select(webhooks).where(*mine).limit(2)).mappings().all()
        if len(rows) > 1:
            raise Conflict(f"several tenants have a webhook {name[:80]!r}; name it by its id: shoal webhooks list")
        if not rows:
            raise NotFound(f"there is no webhook {name[:80]!r}; `shoal webhooks list` shows them")
        return webhook_of(rows[0])

    def get(self, number: str) -> Webhook | None:
        """By its id."""
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(sa.select(webhooks).where(webhooks.c.id == number)).mappings().first()
        return None if row is None else webhook_of(row)

    def any_told(self) -> bool:
        """Is there one that is told anything, now or when it is resumed?"""
        query = sa.select(webhooks.c.id).where(webhooks.c.state != WebhookState.DISABLED.value).limit(1)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).first() is not None

    def edit(self, number: str, change: Change) -> Webhook:
        """Change its settings, its secrets or where it comes from; who does so at the same time waits."""
        mine = webhooks.c.id == number
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(webhooks).where(mine).values(id=number))  # takes the lock, in every database
            hook = _locked(connection, number)
            new = change(hook)
            others = sa.select(webhooks.c.name).where(webhooks.c.tenant == hook.tenant, webhooks.c.id != number)
            _check_free(new.name, set(connection.execute(others).scalars()))
            values = {**_words(new.settings, new.secrets), "by_api": new.by_api}
            connection.execute(sa.update(webhooks).where(mine).values(values))
            return _locked(connection, number)

    def set_state(self, number: str, state: WebhookState, reason: str = "") -> Webhook:
        """One that is enabled begins anew: what it has failed of before does not count, and what waits is due."""
        values = {"state": state.value, "reason": reason, **(_WELL if state is WebhookState.ENABLED else {})}
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(webhooks).where(webhooks.c.id == number).values(values))
            if state is WebhookState.ENABLED:
                m = webhook_messages.c
                waiting = (m.webhook == number, m.state == MessageState.WAITING.value)
                connection.execute(sa.update(webhook_messages).where(*waiting).values(due_ms=0))
            return _locked(connection, number)

    def remove(self, number: str) -> None:
        """With its messages and their attempts; and what nobody is told now, nobody is told who comes later."""
        with translated_errors(), self._engine.begin() as connection:
            removed = sa.delete(webhooks).where(webhooks.c.id == number).returning(webhooks.c.tenant)
            for tenant in connection.execute(removed).scalars().all():
                if not listening(connection, tenant):
                    connection.execute(sa.delete(events).where(events.c.tenant == tenant))
            mine = sa.select(webhook_messages.c.id).where(webhook_messages.c.webhook == number)
            connection.execute(sa.delete(webhook_attempts).where(webhook_attempts.c.message.in_(mine)))
            for table in (webhook_messages, webhook_cursors):
                connection.execute(sa.delete(table).where(table.c.webhook == number))


def listening(connection: Connection, tenant: str) -> list[Webhook]:
    """Those of a tenant that are told, or will be when they are resumed."""
    mine = (webhooks.c.tenant == tenant, webhooks.c.state != WebhookState.DISABLED.value)
    return [webhook_of(row) for row in connection.execute(sa.select(webhooks).where(*mine)).mappings()]


def _check_free(name: str, taken: set[str]) -> None:
    if name in taken:
        raise Conflict(f"there is a webhook {name!r} already; give this one another name")


def _locked(connection: Connection, number: str) -> Webhook:
    row = connection.execute(sa.select(webhooks).where(webhooks.c.id == number)).mappings().first()
    if row is None:
        raise NotFound(f"there is no webhook {number[:80]!r} any more")
    return webhook_of(row)


def _words(settings: WebhookSettings, secrets: Sequence[Secret]) -> dict[str, str]:
    return {
        "name": settings.name,
        "settings": settings.model_dump_json(),
        "secrets": orjson.dumps([asdict(each) for each in secrets]).decode(),
    }


def _stored_settings(text: str) -> WebhookSettings:
    """They were checked when they were set. Those of another version must not stand before all other endpoints."""
    saved: dict[str, Any] = orjson.loads(text)
    known: dict[str, Any] = {name: saved[name] for name in WebhookSettings.model_fields if name in saved}
    known |= {name: tuple(known[name]) for name in ("events", "jobs", "labels") if name in known}
    return WebhookSettings.model_construct(None, **known)


def webhook_of(row: RowMapping) -> Webhook:
    """From columns."""
    return Webhook(
        row["id"],
        row["tenant"],
        _stored_settings(row["settings"]),
        tuple(Secret(**each) for each in orjson.loads(row["secrets"])),
        WebhookState(row["state"]),
        row["reason"],
        row["created_ms"],
        row["by_api"],
        row["failures"],
        row["failing_since_ms"],
        row["given_up"],
        row["hold_ms"],
        row["delivered_ms"],
    )
