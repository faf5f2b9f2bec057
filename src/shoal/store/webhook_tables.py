"""The tables of webhooks: what happened, who is told, the messages, and how they fared."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

from shoal.store.metadata import Id, metadata

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("key", String(200), nullable=False),
    Column("type", String(40), nullable=False),
    Column("tenant", String(80), nullable=False),
    Column("job", String(40), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("data", Text, nullable=False),
    UniqueConstraint("key", name="events_by_key"),
    sqlite_autoincrement=True,
)
"""What happened to jobs and is not handed out yet, written with the change itself; `data` is JSON."""

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("tenant", String(80), nullable=False),
    Column("name", String(80), nullable=False),
    Column("settings", Text, nullable=False),
    Column("secrets", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("created_ms", BigInteger, nullable=False),
    Column("by_api", Boolean, nullable=False, server_default=false()),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("failing_since_ms", BigInteger),
    Column("given_up", Integer, nullable=False, server_default="0"),
    Column("hold_ms", BigInteger, nullable=False, server_default="0"),
    Column("delivered_ms", BigInteger),
    UniqueConstraint("tenant", "name", name="webhooks_by_name"),
)
"""Endpoints that are told what happens. `settings` and `secrets` are JSON, with what nobody is shown: messages are
signed with the secrets, so their digests would not do."""

webhook_messages = Table(
    "webhook_messages",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("webhook", String(40), nullable=False),
    Column("type", String(40), nullable=False),
    Column("job", String(40), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("data", Text, nullable=False),
    Column("first_id", BigInteger),
    Column("last_id", BigInteger),
    Column("state", String(20), nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("error", Text, nullable=False, server_default=""),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("due_ms", BigInteger, nullable=False, server_default="0"),
    Column("owner", String(40), nullable=False, server_default=""),
    Column("owned_ms", BigInteger, nullable=False, server_default="0"),
    Index("webhook_messages_due", "webhook", "state", "due_ms"),
    Index("webhook_messages_by_age", "created_ms", "id"),
)
"""One event for one endpoint. Its id is made of both, so that none is there twice. One about items names them by the
first and the last id. Whoever sends it owns it until `owned_ms`."""

webhook_attempts = Table(
    "webhook_attempts",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("message", String(40), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("status", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("elapsed_ms", Float, nullable=False),
    Column("answer", Text, nullable=False),
    Index("webhook_attempts_by_message", "message", "id"),
)
"""Each time that a message was sent: the status, 0 when there was none, why it failed, how long it took, and the
beginning of the answer."""

webhook_cursors = Table(
    "webhook_cursors",
    metadata,
    Column("webhook", String(40), primary_key=True),
    Column("job", String(40), primary_key=True),
    Column("type", String(40), primary_key=True),
    Column("last_id", BigInteger, nullable=False, server_default="0"),
    Column("data", Text, nullable=False),
    Column("open", Boolean, nullable=False, server_default=true()),
    Column("ended", Boolean, nullable=False, server_default=false()),
    Column("updated_ms", BigInteger, nullable=False),
    Index("webhook_cursors_by_job", "job"),
)
"""How far a job's items, or the changes of its pages, are handed out to an endpoint: up to `last_id`, which is a
fingerprint for pages. One that is not `open` waits for the job to go on."""
