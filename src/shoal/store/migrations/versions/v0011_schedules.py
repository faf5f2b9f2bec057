"""Schedules, and what became of their slots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None
additive = True

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _create_schedules()
    _create_runs()


def _create_schedules() -> None:
    planned = sa.text("next_ms IS NOT NULL")
    op.create_table(
        "schedules",
        sa.Column("id", _Id, primary_key=True, autoincrement=True),
        sa.Column("tenant", sa.String(80), nullable=False),
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("timing", sa.Text, nullable=False),
        sa.Column("allowed", sa.Text, nullable=False, server_default=""),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("anchor_ms", sa.BigInteger, nullable=False),
        sa.Column("cursor_ms", sa.BigInteger, nullable=False),
        sa.Column("next_slot_ms", sa.BigInteger),
        sa.Column("next_ms", sa.BigInteger),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("changed_ms", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False, server_default="0"),
        sa.Column("spec", sa.Text, nullable=False),
        sa.UniqueConstraint("tenant", "name", name="schedules_by_name"),
        sqlite_autoincrement=True,
    )
    op.create_index("schedules_due", "schedules", ["next_ms"], sqlite_where=planned, postgresql_where=planned)


def _create_runs() -> None:
    under_way = sa.text("state IN ('waiting', 'starting', 'running')")
    op.create_table(
        "schedule_runs",
        sa.Column("id", _Id, primary_key=True, autoincrement=True),
        sa.Column("schedule", sa.BigInteger, nullable=False),
        sa.Column("slot_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("planned_ms", sa.BigInteger, nullable=False),
        sa.Column("last_ms", sa.BigInteger, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False, server_default="1"),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("reason", sa.String(20), nullable=False, server_default=""),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.Column("job", sa.String(40), nullable=False, server_default=""),
        sa.Column("other", sa.String(40), nullable=False, server_default=""),
        sa.Column("previous", sa.String(40), nullable=False, server_default=""),
        sa.Column("try_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("decided_ms", sa.BigInteger),
        sa.Column("started_ms", sa.BigInteger),
        sa.Column("ended_ms", sa.BigInteger),
        sa.Column("sums", sa.Text),
        sa.UniqueConstraint("schedule", "slot_ms", name="schedule_runs_by_slot"),
    )
    op.create_index("schedule_runs_by_start", "schedule_runs", ["started_ms"])
    op.create_index(
        "schedule_runs_open",
        "schedule_runs",
        ["schedule", "slot_ms"],
        sqlite_where=under_way,
        postgresql_where=under_way,
    )


def downgrade() -> None:
    op.drop_table("schedule_runs")
    op.drop_table("schedules")
