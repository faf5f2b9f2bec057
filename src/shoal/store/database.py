"""Opening the database: pragmas, and the schema brought up to date before anything reads it."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from shoal.core.redact import without_parameters, without_secrets
from shoal.errors import InputError, StoreUnavailable

HEAD = "0014"
"""The newest migration. Known here so that the usual start does not import Alembic; a test keeps it true."""

BUSY_TIMEOUT_MS = 30_000
CACHE_KB = 4_000
"""Of each connection to SQLite. It is full after a few thousand pages, and a worker has as many as it has threads: with
more, workers would grow for as long as they run. The operating system has the file in memory anyway."""
_POOL = {
    True: {"pool_size": 64, "max_overflow": 448, "pool_timeout": 10},
    False: {"pool_size": 16, "max_overflow": 16, "pool_timeout": 10},
}
"""For many threads. In SQLite (True) a connection is an open file, and who reads must not wait for who writes."""
MIGRATION_LOCK = 5_440_015
"""PostgreSQL's advisory lock for those who start at once."""


def open_database(url: str, *, durable: bool = False) -> Engine:
    """An engine whose schema is current; `durable` waits for the disk at each commit, as PostgreSQL always does."""
    engine = make_engine(url, many=durable)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        if durable:
            event.listen(engine, "connect", _wait_for_the_disk)
    try:
        with engine.connect() as connection:
            current = revision_of(connection) == HEAD
        if not current:
            _migrate(engine)
    except StoreUnavailable:
        engine.dispose()
        raise
    except (SQLAlchemyError, sqlite3.Error, OSError) as exc:
        engine.dispose()
        raise StoreUnavailable(f"cannot open the database {_shown(engine)}: {cause_of(exc)}") from exc
    return engine


def make_engine(url: str, *, many: bool = False) -> Engine:
    """An engine that nothing was asked of yet; `many`: for many threads."""
    try:
        chosen = _read_url(url)
        local = chosen.drivername.startswith("sqlite")
        pool = _POOL[local] if many else {}
        if chosen.drivername.startswith("postgres"):
            return _postgresql(chosen, pool)
        return sa.create_engine(chosen, pool_pre_ping=not local, hide_parameters=True, **pool)
    except ModuleNotFoundError as exc:
        raise StoreUnavailable(
            f"the driver {exc.name!r} is missing; for PostgreSQL: pip install 'shoal[postgres]'"
        ) from exc
    except SQLAlchemyError as exc:
        raise InputError(f"SHOAL_DATABASE_URL is not a database URL: {exc}") from exc


def _read_url(url: str) -> sa.URL:
    """What is wrong is said without repeating any of it: it may be a password."""
    try:
        chosen = sa.make_url(url)
    except ValueError:
        raise InputError("SHOAL_DATABASE_URL: its port is not a number; percent-encode passwords") from None
    if "@" in (chosen.host or ""):
        raise InputError("SHOAL_DATABASE_URL has several @ in it; write %40 for one that belongs to the password")
    return chosen


def _postgresql(url: sa.URL, pool: Mapping[str, int]) -> Engine:
    from shoal.store.postgres import connect, driver_url

    engine = sa.create_engine(driver_url(url), pool_pre_ping=True, hide_parameters=True, **pool)
    if engine.dialect.driver == "psycopg":
        event.listen(engine, "do_connect", connect)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        f"cache_size=-{CACHE_KB}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _wait_for_the_disk(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous=FULL")


def revision_of(connection: Connection) -> str | None:
    """Of the schema; None: there is none of ours."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "shoal.store:migrations")
    with _one_at_a_time(engine), engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        found = revision_of(connection)
        if found != HEAD:
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as exc:
                raise StoreUnavailable(
                    f"the database {_shown(engine)} has the schema {found!r}, which this Shoal does not know "
                    f"(its own is {HEAD}); use the Shoal that made it, or a newer one"
                ) from exc


@contextmanager
def _one_at_a_time(engine: Engine) -> Generator[None]:
    """Two commands that start at once on a new folder must not both create the tables."""
    if engine.dialect.name != "sqlite" or engine.url.database in (None, "", ":memory:"):
        yield
        return
    with Path(f"{engine.url.database}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _shown(engine: Engine) -> str:
    return without_parameters(engine.url.render_as_string(hide_password=True))


def cause_of(exc: BaseException) -> str:
    """What the database has said, without secrets."""
    return without_secrets(str(getattr(exc, "orig", None) or exc))
