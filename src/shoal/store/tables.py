"""The tables. Times are integers, milliseconds since 1970; fingerprints are signed 64-bit integers.

A page, a dead letter and an item belong to (job, fingerprint): writing one again replaces it, so a fetch that is
repeated after a crash leaves no second row.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

_Id = BigInteger().with_variant(Integer, "sqlite")

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("queue", String(40), nullable=False),
    Column("state", String(20), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger),
    Column("status", JSON),
    Index("jobs_by_creation", "created_ms"),
)

submissions = Table(
    "submissions",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("count", Integer, nullable=False),
    Column("urls", LargeBinary, nullable=False),
    Index("submissions_by_job", "job"),
)

pages = Table(
    "pages",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("charset", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("elapsed_ms", Float, nullable=False),
    Column("fetched_ms", BigInteger, nullable=False),
    Column("redirect", Text),
    Column("canonical", Text),
    Column("archive_key", Text),
    Column("archive_offset", BigInteger),
    Column("archive_length", BigInteger),
    UniqueConstraint("job", "fingerprint", name="pages_by_fingerprint"),
)

items = Table(
    "items",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("url", Text, nullable=False),
    Column("data", Text, nullable=False),
    UniqueConstraint("job", "fingerprint", "number", name="items_by_fingerprint"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("outcome", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    UniqueConstraint("job", "fingerprint", name="dead_letters_by_fingerprint"),
)
