"""First tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
additive = True

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _id() -> sa.Column[int]:
    return sa.Column("id", _ID, primary_key=True, autoincrement=True)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _small(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _string(name: str, length: int) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False)


def upgrade() -> None:
    _create_jobs()
    _create_pages()
    _create_items()
    _create_dead_letters()


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(40), primary_key=True),
        _string("name", 200),
        sa.Column("spec", sa.JSON, nullable=False),
        _string("queue", 40),
        _string("state", 20),
        _number("created_ms"),
        _number("started_ms", nullable=True),
        _number("ended_ms", nullable=True),
        sa.Column("status", sa.JSON),
    )
    op.create_index("jobs_by_creation", "jobs", ["created_ms"])
    op.create_table(
        "submissions",
        _id(),
        _string("job", 40),
        _small("count"),
        sa.Column("urls", sa.LargeBinary, nullable=False),
    )
    op.create_index("submissions_by_job", "submissions", ["job"])


def _create_pages() -> None:
    op.create_table(
        "pages",
        _id(),
        _string("job", 40),
        _number("fingerprint"),
        _text("url"),
        _text("host"),
        _small("status"),
        _small("depth"),
        _small("attempt"),
        _text("content_type"),
        _text("charset"),
        _small("size"),
        sa.Column("elapsed_ms", sa.Float, nullable=False),
        _number("fetched_ms"),
        _text("redirect", nullable=True),
        _text("canonical", nullable=True),
        _text("archive_key", nullable=True),
        _number("archive_offset", nullable=True),
        _number("archive_length", nullable=True),
        sa.UniqueConstraint("job", "fingerprint", name="pages_by_fingerprint"),
    )


def _create_items() -> None:
    op.create_table(
        "items",
        _id(),
        _string("job", 40),
        _number("fingerprint"),
        _small("number"),
        _text("url"),
        _text("data"),
        sa.UniqueConstraint("job", "fingerprint", "number", name="items_by_fingerprint"),
    )


def _create_dead_letters() -> None:
    op.create_table(
        "dead_letters",
        _id(),
        _string("job", 40),
        _number("fingerprint"),
        _text("url"),
        _text("host"),
        _string("outcome", 20),
        _text("reason"),
        _text("detail"),
        _small("depth"),
        _small("attempts"),
        _number("at_ms"),
        sa.UniqueConstraint("job", "fingerprint", name="dead_letters_by_fingerprint"),
    )


def downgrade() -> None:
    for table in ("dead_letters", "items", "pages", "submissions", "jobs"):
        op.drop_table(table)
