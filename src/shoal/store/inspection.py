"""A look at a database that changes nothing in it: it is neither made nor brought up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from shoal.core.frozen import frozen
from shoal.errors import StoreUnavailable
from shoal.store.database import cause_of, make_engine, revision_of, word_of
from shoal.store.schedule_tables import schedules
from shoal.store.submissions import LIVING
from shoal.store.tables import api_keys, jobs, pages
from shoal.store.webhook_tables import webhooks

MOST_JOBS = 200


@frozen
class Sight:
    """What can be seen of a database."""

    revision: str | None
    """Of its schema; None: Shoal has made no tables there."""
    tables: int
    now_ms: int | None
    """By its own clock; None: it has none but this machine's."""
    usable_from: str | None = None
    """The oldest version whose processes can work with its schema; None: it does not say."""
    made_by: str | None = None
    """The Shoal that made its schema; None: it does not say."""


def sqlite_file(url: str) -> Path | None:
    """The file that an SQLite URL names; of a URL that is none, none."""
    try:
        parsed = sa.make_url(url)
    except (SQLAlchemyError, ValueError):
        return None
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(parsed.database or "")


class Inspection:
    """Questions to one database."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def connection(self) -> Connection:
        """For further questions."""
        return self._connection

    def see(self) -> Sight:
        tables = len(sa.inspect(self._connection).get_table_names())
        now = None
        if self._connection.dialect.name == "postgresql":
            now = int(
                self._connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp()) * 1000")).scalar_one()
            )
        revision = revision_of(self._connection)
        word = word_of(self._connection) if revision else None
        return Sight(revision, tables, now, *(word.works_from, word.version) if word else (None, None))

    def lock(self) -> None:
        """Take SQLite's lock for writers and give it back; raises StoreUnavailable when somebody else keeps it."""
        if self._connection.dialect.name == "sqlite":
            raw = self._connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            raw.rollback()
            raw.execute("BEGIN IMMEDIATE")
            raw.rollback()

    def has_archived_pages(self) -> bool:
        query = sa.select(pages.c.id).where(pages.c.archive_key.is_not(None)).limit(1)
        return self._connection.execute(query).first() is not None

    def has_keys(self) -> bool:
        """Is there an API key that is not revoked?"""
        query = sa.select(sa.exists().where(api_keys.c.revoked_ms.is_(None)))
        return bool(self._connection.execute(query).scalar())

    def counts_on_housekeeping(self) -> bool:
        """Is there a schedule or a webhook, which nothing happens to without it?"""
        found = (self._connection.execute(sa.select(table.c.id).limit(1)).first() for table in (schedules, webhooks))
        return any(row is not None for row in found)

    def living_jobs(self, before_ms: int) -> list[str]:
        """Some that have not ended and were created before this time."""
        lives = (jobs.c.ended_ms.is_(None), jobs.c.state.in_(LIVING), jobs.c.deleted_ms.is_(None))
        query = sa.select(jobs.c.id).where(*lives, jobs.c.created_ms < before_ms).limit(MOST_JOBS)
        return list(self._connection.execute(query).scalars())

    def known(self, ids: Sequence[str]) -> set[str]:
        """Those of these that have a row."""
        return set(self._connection.execute(sa.select(jobs.c.id).where(jobs.c.id.in_(ids))).scalars())


@contextmanager
def inspected(url: str, wait_s: float) -> Generator[Inspection]:
    """A connection for questions; raises StoreUnavailable, and InputError for a URL that is none."""
    engine = make_engine(url)
    options = {"timeout": wait_s} if engine.dialect.name == "sqlite" else {}
    try:
        if options:
            engine = sa.create_engine(_existing(engine.url), connect_args=options, hide_parameters=True)
        with engine.connect() as connection:
            yield Inspection(connection)
    except (SQLAlchemyError, sqlite3.Error, OSError) as exc:
        raise StoreUnavailable(cause_of(exc)) from exc
    finally:
        engine.dispose()


def _existing(url: sa.URL) -> sa.URL:
    """The same file, which is not made when it is missing."""
    place = f"file:{quote(str(url.database))}"
    return sa.URL.create(url.drivername, database=place, query={"mode": "rw", "uri": "true"})
