"""Opening the database: pragmas, and the schema brought up to date before anything reads it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

import sqlalchemy as sa
import structlog
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from shoal.core.redact import without_parameters, without_secrets
from shoal.errors import InputError, ShoalError, StoreUnavailable

log = structlog.get_logger()

HEAD = "0016"
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
BeforeUpgrade = Callable[[Connection, str | None], None]
"""Told of the schema that is there (None: none); raises when it is not to be brought up to date now."""


def _just_upgrade(_connection: Connection, _found: str | None) -> None:
    pass


def open_database(url: str, *, durable: bool = False, before_upgrade: BeforeUpgrade = _just_upgrade) -> Engine:
    """An engine whose schema is current; `durable` waits for the disk at each commit, as PostgreSQL always does.

    A schema that is newer will do, if it says so itself.
    """
    engine = make_engine(url, many=durable)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        if durable:
            event.listen(engine, "connect", _wait_for_the_disk)
    try:
        with engine.connect() as connection:
            found = revision_of(connection)
            usable = found == HEAD or is_usable(connection, found)
            if found is None or found < HEAD:
                before_upgrade(connection, found)
        if not usable:
            _upgrade(engine)
    except ShoalError:
        engine.dispose()
        raise
    except (SQLAlchemyError, sqlite3.Error, OSError) as exc:
        engine.dispose()
        raise StoreUnavailable(f"cannot open the database {shown(engine)}: {cause_of(exc)}") from exc
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


def usable_from(connection: Connection) -> str | None:
    """The oldest version whose processes can work with this schema, as it says itself; None: it does not."""
    if not sa.inspect(connection).has_table("schema_log"):
        return None
    said = "SELECT works_from FROM schema_log WHERE revision IN (SELECT version_num FROM alembic_version)"
    return connection.execute(sa.text(said)).scalar()


def is_usable(connection: Connection, found: str | None) -> bool:
    """Is it newer than what we know, and made so that we can work with it all the same?"""
    if found is None or found <= HEAD:
        return False
    oldest = usable_from(connection)
    if oldest is None or oldest > HEAD:
        return False
    log.warning("schema_newer", found=found, known=HEAD, usable_from=oldest)
    return True


def _upgrade(engine: Engine) -> None:
    from shoal.store.schema import upgrade

    upgrade(engine)


def shown(engine: Engine) -> str:
    """Its URL, without secrets."""
    return without_parameters(engine.url.render_as_string(hide_password=True))


def cause_of(exc: BaseException) -> str:
    """What the database has said, without secrets."""
    return without_secrets(str(getattr(exc, "orig", None) or exc))
