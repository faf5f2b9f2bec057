"""Tables about hosts: what their robots.txt said, operators' words on them, and every time that they were asked."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, Text, false

from shoal.store.metadata import Id as _Id
from shoal.store.metadata import metadata

robots = Table(
    "robots",
    metadata,
    Column("origin", Text, primary_key=True),
    Column("status", Integer, nullable=False),
    Column("version", String(16), nullable=False),
    Column("fetched_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
"""What an origin's robots.txt was when it was last read; `status` 0 is one that could not be had."""

robots_texts = Table(
    "robots_texts",
    metadata,
    Column("version", String(16), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
)
"""Every robots.txt that was read, by the first half of its SHA-256 in hex; many hosts have the same."""

host_limits = Table(
    "host_limits",
    metadata,
    Column("host", Text, primary_key=True),
    Column("rate", Float),
    Column("parallel", Integer),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("note", Text, nullable=False, server_default=""),
    Column("set_ms", BigInteger, nullable=False),
)
"""Operators' words on hosts; a rate or cap of 0 is unlimited, NULL leaves it to the others."""

ledger = Table(
    "ledger",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("host", Text, nullable=False),
    Column("job", String(40), nullable=False),
    Column("url", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("rate", Float, nullable=False),
    Column("parallel", Integer, nullable=False),
    Column("source", String(10), nullable=False),
    Column("robots", String(16), nullable=False),
    Column("rule", Text, nullable=False),
    Index("ledger_by_host", "host", "at_ms"),
)
"""Every time that a host was asked: when, by which job, under which limit and version of robots.txt."""
