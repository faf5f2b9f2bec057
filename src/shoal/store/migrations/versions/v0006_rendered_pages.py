"""Pages that a browser has rendered: what was kept of them, and what was seen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    op.add_column("pages", sa.Column("engine", sa.String(10), nullable=False, server_default="http"))
    op.add_column("pages", sa.Column("captures", sa.Text))
    op.add_column("pages", sa.Column("notes", sa.Text))


def downgrade() -> None:
    for name in ("notes", "captures", "engine"):
        op.drop_column("pages", name)
