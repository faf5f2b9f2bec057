"""What politeness remembers: robots.txt, operators' limits of hosts, and the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    _create_robots()
    _create_host_limits()
    _create_ledger()


def _create_robots() -> None:
    op.create_table(
        "robots",
        sa.Column("origin", sa.Text, primary_key=True),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("version", sa.String(16), nullable=False),
        sa.Column("fetched_ms", sa.BigInteger, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "robots_texts",
        sa.Column("version", sa.String(16), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
    )


def _create_host_limits() -> None:
    op.create_table(
        "host_limits",
        sa.Column("host", sa.Text, primary_key=True),
        sa.Column("rate", sa.Float),
        sa.Column("parallel", sa.Integer),
        sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("note", sa.Text, nullable=False, server_default=""),
        sa.Column("set_ms", sa.BigInteger, nullable=False),
    )


def _create_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("rate", sa.Float, nullable=False),
        sa.Column("parallel", sa.Integer, nullable=False),
        sa.Column("source", sa.String(10), nullable=False),
        sa.Column("robots", sa.String(16), nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
    )
    op.create_index("ledger_by_host", "ledger", ["host", "at_ms"])


def downgrade() -> None:
    for table in ("ledger", "host_limits", "robots_texts", "robots"):
        op.drop_table(table)
