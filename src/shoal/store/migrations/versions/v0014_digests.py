"""What pages say, as a digest: two runs are compared by it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    op.add_column("pages", sa.Column("digest", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("pages", "digest")
