"""A new file of SQLite, made at once: the tables as all migrations leave them, without Alembic, which is slow.

`new.sql` has them in SQLite's own words. A test holds that they are those of a file that went through all migrations,
and writes them anew when it is asked to.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal import __version__
from shoal.store.database import file_to_oneself, revision_of
from shoal.store.tables import database_name, schema_log

TABLES = Path(__file__).with_name("new.sql")
END = ";\n\n"
"""Behind each statement there."""
WORKS_FROM = "0007"
"""The oldest version whose processes can work with these tables; a test keeps it true."""


def make_tables(engine: Engine, revision: str) -> bool:
    """In a file that has no tables; False when it has others by now, or is not SQLite's."""
    if engine.dialect.name != "sqlite":
        return False
    with file_to_oneself(engine), engine.begin() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar():
            return revision_of(connection) == revision  # somebody was faster
        _make(connection, revision)
        return True


def _make(connection: Connection, revision: str) -> None:
    for statement in TABLES.read_text(encoding="utf-8").split(END):
        if statement:
            connection.exec_driver_sql(statement)
    connection.execute(sa.text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
    connection.execute(sa.insert(database_name).values(id=1, name=secrets.token_hex(16)))
    now_ms = time.time_ns() // 1_000_000
    word = {"revision": revision, "works_from": WORKS_FROM, "version": __version__, "at_ms": now_ms}
    connection.execute(sa.insert(schema_log).values(word))
