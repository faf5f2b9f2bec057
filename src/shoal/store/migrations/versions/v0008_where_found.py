"""On which page a URL was first found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
additive = True

_TABLES = ("pages", "dead_letters")


def upgrade() -> None:
    for name in _TABLES:
        op.add_column(name, sa.Column("found_on", sa.BigInteger))


def downgrade() -> None:
    for name in reversed(_TABLES):
        op.drop_column(name, "found_on")
