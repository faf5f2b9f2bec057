"""What a page can be asked with again, where it leads to, and whose archive it lies in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None
additive = True

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for column in (
        sa.Column("etag", sa.Text),
        sa.Column("last_modified", sa.Text),
        sa.Column("checked_ms", sa.BigInteger),
        sa.Column("interval_ms", sa.BigInteger),
        sa.Column("reused", sa.String(20)),
        sa.Column("unverified", sa.Integer, nullable=False, server_default="0"),
        sa.Column("body_hash", sa.BigInteger),
    ):
        op.add_column("pages", column)
    op.add_column("jobs", sa.Column("manner", sa.String(16), nullable=False, server_default=""))
    op.create_index("jobs_by_manner", "jobs", ["tenant", "manner", "created_ms"])
    op.create_table(
        "outlinks",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("fingerprint", sa.BigInteger, nullable=False),
        sa.Column("found", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("job", "fingerprint", name="outlinks_by_fingerprint"),
    )
    op.create_table(
        "borrowed",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("lender", sa.String(40), nullable=False),
        sa.UniqueConstraint("job", "lender", name="borrowed_by_job"),
    )
    op.create_index("borrowed_by_lender", "borrowed", ["lender"])


def downgrade() -> None:
    op.drop_table("borrowed")
    op.drop_table("outlinks")
    op.drop_index("jobs_by_manner", "jobs")
    op.drop_column("jobs", "manner")
    for name in ("body_hash", "unverified", "reused", "interval_ms", "checked_ms", "last_modified", "etag"):
        op.drop_column("pages", name)
