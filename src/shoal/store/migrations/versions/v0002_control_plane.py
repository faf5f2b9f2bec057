"""What the control plane needs: tenants, keys, submissions that can be completed, rows in order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None
additive = True

_IN_ORDER = ("pages", "items", "dead_letters")


def upgrade() -> None:
    _extend_jobs()
    _extend_submissions()
    _never_reuse_ids_of_dead_letters()
    op.add_column("pages", sa.Column("request_id", sa.String(100), nullable=False, server_default=""))
    for table in _IN_ORDER:
        op.create_index(f"{table}_in_order", table, ["job", "id"])
    _create_idempotency()
    _create_api_keys()


def _never_reuse_ids_of_dead_letters() -> None:
    """They come and go; who reads on behind an id must not miss one that took the number of another."""
    if op.get_bind().dialect.name == "sqlite":
        autoincrement = {"sqlite_autoincrement": True}
        with op.batch_alter_table("dead_letters", recreate="always", table_kwargs=autoincrement):
            pass


def _extend_jobs() -> None:
    for column in (
        sa.Column("tenant", sa.String(80), nullable=False, server_default="default"),
        sa.Column("request_id", sa.String(100), nullable=False, server_default=""),
        sa.Column("labels", sa.Text, nullable=False, server_default=""),
        sa.Column("open", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("deleted_ms", sa.BigInteger),
    ):
        op.add_column("jobs", column)
    op.create_index("jobs_by_tenant", "jobs", ["tenant", "created_ms"])


def _extend_submissions() -> None:
    for column in (
        sa.Column("kind", sa.String(10), nullable=False, server_default="urls"),
        sa.Column("created_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("admitted", sa.Boolean, nullable=False, server_default=sa.true()),
    ):
        op.add_column("submissions", column)
    waiting = sa.text("NOT admitted")
    op.create_index(
        "submissions_waiting", "submissions", ["created_ms"], sqlite_where=waiting, postgresql_where=waiting
    )


def _create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(80), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("idempotency_by_age", "idempotency", ["created_ms"])


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("prefix", sa.String(16), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("tenant", sa.String(80), nullable=False),
        sa.Column("scopes", sa.String(80), nullable=False),
        sa.Column("rate", sa.Float, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("revoked_ms", sa.BigInteger),
    )


def downgrade() -> None:
    op.drop_table("api_keys")
    op.drop_table("idempotency")
    for table in _IN_ORDER:
        op.drop_index(f"{table}_in_order", table)
    op.drop_column("pages", "request_id")
    op.drop_index("submissions_waiting", "submissions")
    for column in ("kind", "created_ms", "admitted"):
        op.drop_column("submissions", column)
    op.drop_index("jobs_by_tenant", "jobs")
    for column in ("tenant", "request_id", "labels", "open", "deleted_ms"):
        op.drop_column("jobs", column)
