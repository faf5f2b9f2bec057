"""Links that were written down say of which page they are: it need not be fetched again to know where it leads to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    op.add_column("links", sa.Column("fingerprint", sa.BigInteger))
    op.create_index("links_by_fingerprint", "links", ["job", "fingerprint"])


def downgrade() -> None:
    op.drop_index("links_by_fingerprint", "links")
    op.drop_column("links", "fingerprint")
