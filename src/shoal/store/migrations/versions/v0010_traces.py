"""The trace of a job's submission."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    op.add_column("jobs", sa.Column("trace", sa.String(60), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("jobs", "trace")
