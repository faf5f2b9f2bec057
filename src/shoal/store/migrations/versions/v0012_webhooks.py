"""Events, and the webhooks that are told of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None
additive = True

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", _Id, primary_key=True, autoincrement=True),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("tenant", sa.String(80), nullable=False),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.UniqueConstraint("key", name="events_by_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("tenant", sa.String(80), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("secrets", sa.Text, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("by_api", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("failing_since_ms", sa.BigInteger),
        sa.Column("given_up", sa.Integer, nullable=False, server_default="0"),
        sa.Column("hold_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("delivered_ms", sa.BigInteger),
        sa.UniqueConstraint("tenant", "name", name="webhooks_by_name"),
    )
    _create_messages()


def _create_messages() -> None:
    op.create_table(
        "webhook_messages",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("webhook", sa.String(40), nullable=False),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("first_id", sa.BigInteger),
        sa.Column("last_id", sa.BigInteger),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("owner", sa.String(40), nullable=False, server_default=""),
        sa.Column("owned_ms", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("webhook_messages_due", "webhook_messages", ["webhook", "state", "due_ms"])
    op.create_index("webhook_messages_by_age", "webhook_messages", ["created_ms", "id"])
    op.create_table(
        "webhook_attempts",
        sa.Column("id", _Id, primary_key=True, autoincrement=True),
        sa.Column("message", sa.String(40), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("elapsed_ms", sa.Float, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
    )
    op.create_index("webhook_attempts_by_message", "webhook_attempts", ["message", "id"])
    op.create_table(
        "webhook_cursors",
        sa.Column("webhook", sa.String(40), primary_key=True),
        sa.Column("job", sa.String(40), primary_key=True),
        sa.Column("type", sa.String(40), primary_key=True),
        sa.Column("last_id", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("ended", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("webhook_cursors_by_job", "webhook_cursors", ["job"])


def downgrade() -> None:
    for table in ("webhook_cursors", "webhook_attempts", "webhook_messages", "webhooks", "events"):
        op.drop_table(table)
