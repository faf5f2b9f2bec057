"""Samples of jobs and of the fleet, for charts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("job", sa.String(40), primary_key=True),
        sa.Column("at_ms", sa.BigInteger, primary_key=True),
        sa.Column("step_ms", sa.Integer, nullable=False),
        sa.Column("last_item", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("sample", sa.Text, nullable=False),
    )
    op.create_index("history_by_age", "history", ["step_ms", "at_ms"])


def downgrade() -> None:
    op.drop_table("history")
