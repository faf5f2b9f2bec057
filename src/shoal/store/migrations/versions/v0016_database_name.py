"""A name of its own for each database."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    table = op.create_table(
        "database_name",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(32), nullable=False),
    )
    op.bulk_insert(table, [{"id": 1, "name": secrets.token_hex(16)}])


def downgrade() -> None:
    op.drop_table("database_name")
