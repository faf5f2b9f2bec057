"""Copies of robots.txt, which all workers share: one row an origin, and every text once, however many hosts have it."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import names_of
from shoal.core.robots import RobotsCopy
from shoal.store.host_tables import ledger, robots, robots_texts
from shoal.store.pages import translated_errors

FORGET_AT_ONCE = 1_000

_COLUMNS = (*robots.c, robots_texts.c.body)
_WITH_TEXT = robots.outerjoin(robots_texts, robots_texts.c.version == robots.c.version)


class RobotsStore:
    """What every origin's robots.txt was when it was last read, and the texts that requests were judged by."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        dialect = engine.dialect.name
        self._put_copy = _upsert(dialect, robots, "origin", ("status", "version", "fetched_ms", "until_ms"))
        self._put_text = _upsert(dialect, robots_texts, "version", ("seen_ms",))

    def load(self, origin: str) -> RobotsCopy | None:
        """The last copy, however old; None when there is none, or when its text is gone."""
        query = sa.select(*_COLUMNS).select_from(_WITH_TEXT).where(robots.c.origin == origin)
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(query).mappings().first()
        if row is None or (row["version"] and row["body"] is None):
            return None
        plain = {name: row[name] for name in names_of(RobotsCopy) if name != "body"}
        return RobotsCopy(**plain, body=row["body"] or b"")

    def save(self, copy: RobotsCopy) -> None:
        """Keep a copy in place of the last one. A text that is known is not written again."""
        row = {column.name: getattr(copy, column.name) for column in robots.c}
        with translated_errors(), self._engine.begin() as connection:
            if copy.body:
                text = {"version": copy.version, "body": copy.body, "seen_ms": copy.fetched_ms}
                connection.execute(self._put_text, text)
            connection.execute(self._put_copy, row)

    def text(self, version: str) -> bytes | None:
        """A text by its version; None when it is not known, or forgotten."""
        query = sa.select(robots_texts.c.body).where(robots_texts.c.version == version)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def forget(self, before_ms: int, at_most: int = FORGET_AT_ONCE) -> int:
        """Remove copies that ended before this, and texts that were last seen before it and that nobody refers to.

        A batch of each; how many were removed. `before_ms` must be further back than a copy may live in a worker.
        """
        with translated_errors():
            with self._engine.begin() as connection:
                removed = _forget_copies(connection, before_ms, at_most)
            # looked up apart: going through the ledger takes a while, and SQLite has one writer at a time
            with self._engine.connect() as connection:
                unused = _unused_texts(connection, before_ms, at_most)
            with self._engine.begin() as connection:
                return removed + _forget_texts(connection, before_ms, unused)


def _forget_copies(connection: Connection, before_ms: int, at_most: int) -> int:
    ended = robots.c.until_ms < before_ms
    first = sa.select(robots.c.origin).where(ended).order_by(robots.c.until_ms).limit(at_most)
    return connection.execute(sa.delete(robots).where(robots.c.origin.in_(first), ended)).rowcount


def _unused_texts(connection: Connection, before_ms: int, at_most: int) -> Sequence[str]:
    version = robots_texts.c.version
    query = sa.select(version).where(
        robots_texts.c.seen_ms < before_ms,
        version.not_in(sa.select(robots.c.version).distinct()),
        version.not_in(sa.select(ledger.c.robots).distinct()),
    )
    return connection.execute(query.order_by(robots_texts.c.seen_ms).limit(at_most)).scalars().all()


def _forget_texts(connection: Connection, before_ms: int, versions: Sequence[str]) -> int:
    """Unless one was seen again in the meantime."""
    still = (robots_texts.c.version.in_(versions), robots_texts.c.seen_ms < before_ms)
    return connection.execute(sa.delete(robots_texts).where(*still)).rowcount if versions else 0


def _upsert(dialect: str, table: sa.Table, key: str, changed: Sequence[str]) -> sa.Insert:
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    statement = insert(table)
    return statement.on_conflict_do_update(
        index_elements=[key], set_={name: statement.excluded[name] for name in changed}
    )
