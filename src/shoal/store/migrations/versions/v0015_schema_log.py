"""Which processes can work with the schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    op.create_table(
        "schema_log",
        sa.Column("revision", sa.String(32), primary_key=True),
        sa.Column("works_from", sa.String(32), nullable=False),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("schema_log")
