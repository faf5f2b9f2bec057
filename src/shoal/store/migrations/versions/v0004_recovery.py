"""What the frontier is rebuilt from when it is lost: links without a body, hops and bytes of pages, the last epoch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
additive = True


def upgrade() -> None:
    op.add_column("pages", sa.Column("hops", sa.Integer, nullable=False, server_default="0"))
    op.add_column("pages", sa.Column("received", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "links",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("urls", sa.LargeBinary, nullable=False),
    )
    op.create_index("links_in_order", "links", ["job", "id"])
    op.create_table(
        "epochs",
        sa.Column("frontier", sa.String(200), primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
    living = sa.text("ended_ms IS NULL")
    op.create_index("jobs_living", "jobs", ["created_ms"], sqlite_where=living, postgresql_where=living)


def downgrade() -> None:
    op.drop_index("jobs_living", "jobs")
    op.drop_table("epochs")
    op.drop_table("links")
    op.drop_column("pages", "received")
    op.drop_column("pages", "hops")
