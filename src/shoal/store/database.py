"""Opening the database: pragmas, and the schema brought up to date before anything reads it."""

from __future__ import annotations

import fcntl
import re
import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import sqlalchemy as sa
import structlog
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from shoal import __version__
from shoal.core.frozen import frozen
from shoal.core.redact import without_parameters, without_secrets
from shoal.errors import InputError, ShoalError, StoreUnavailable

log = structlog.get_logger()

HEAD = "0016"
"""The newest migration. Known here so that the usual start does not import Alembic; a test keeps it true."""

BUSY_TIMEOUT_MS = 30_000
CACHE_KB = 4_000
"""Of each connection to SQLite. It is full after a few thousand pages, and a worker may have as many as it has threads:
with more, workers would grow for as long as they run. The operating system has the file in memory anyway. What one
connection writes the caches of all others lose: so the one that was used last is used first."""
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
        _open_first(engine)
        with engine.connect() as connection:
            found = revision_of(connection)
            usable = found == HEAD or is_usable(connection, found)
            if not usable and found is not None and (found > HEAD or not is_ours(found)):
                raise StoreUnavailable(not_known(shown(engine), found, word_of(connection)))
            if found is None or found < HEAD:
                before_upgrade(connection, found)
        if not usable and not (found is None and _make_tables(engine)):
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
        if local and chosen.database not in (None, "", ":memory:"):  # else it has a pool that knows no order
            pool = {**pool, "pool_use_lifo": True}
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


def _open_first(engine: Engine) -> None:
    """A new file is made by one process at a time: of two that give it its journal at once, one is refused at once."""
    if engine.dialect.name != "sqlite" or _has_journal(engine):
        return
    with file_to_oneself(engine), engine.connect():
        pass


def _has_journal(engine: Engine) -> bool:
    """Asked by a connection that changes nothing."""
    arguments, options = engine.dialect.create_connect_args(engine.url)
    connection = cast(sqlite3.Connection, engine.dialect.connect(*arguments, **options))
    try:
        return connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        connection.close()


@contextmanager
def file_to_oneself(engine: Engine) -> Generator[None]:
    """Two commands that start at once on a new folder must not both create the tables."""
    if engine.dialect.name != "sqlite" or engine.url.database in (None, "", ":memory:"):
        yield
        return
    with Path(f"{engine.url.database}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "synchronous=NORMAL",
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


@frozen
class SchemaWord:
    """What a schema says of itself."""

    works_from: str
    """The oldest version whose processes can work with it."""
    version: str
    """The Shoal that made it."""


def word_of(connection: Connection) -> SchemaWord | None:
    """None: it says nothing."""
    if not sa.inspect(connection).has_table("schema_log"):
        return None
    said = "SELECT works_from, version FROM schema_log WHERE revision IN (SELECT version_num FROM alembic_version)"
    row = connection.execute(sa.text(said)).first()
    return None if row is None else SchemaWord(*row)


def is_ours(revision: str) -> bool:
    """Is it a version of our schema? Other programs use Alembic too, whose own versions are longer."""
    return re.fullmatch(r"\d{4}", revision) is not None


def not_known(where: str, found: str, word: SchemaWord | None) -> str:
    """Why nothing can be done with a schema that is not among ours, and what can be done about it."""
    if not is_ours(found):
        return (
            f"the database {where} belongs to another program: its alembic_version is {found!r}. "
            "Name one of Shoal's own in SHOAL_DATABASE_URL; an empty one will do"
        )
    maker, made = (
        (f"Shoal {word.version}", f" (Shoal {word.version} made it)") if word else ("the Shoal that made it", "")
    )
    return (
        f"the database {where} has the schema {found!r}, which this Shoal does not know{made}: Shoal {__version__} "
        f"knows those up to {HEAD}, and cannot work with this one. Install {maker}, or a newer one, here; or take the "
        f"schema back with that one, which loses what only it has stored: shoal db downgrade {HEAD}"
    )


def is_usable(connection: Connection, found: str | None) -> bool:
    """Is it newer than what we know, and made so that we can work with it all the same?"""
    if found is None or found <= HEAD:
        return False
    word = word_of(connection)
    if word is None or word.works_from > HEAD:
        return False
    log.warning("schema_newer", found=found, known=HEAD, usable_from=word.works_from, made_by=word.version)
    return True


def _make_tables(engine: Engine) -> bool:
    from shoal.store.new_file import make_tables

    return make_tables(engine, HEAD)


def _upgrade(engine: Engine) -> None:
    from shoal.store.schema import upgrade

    upgrade(engine)


def shown(engine: Engine) -> str:
    """Its URL, without secrets."""
    return without_parameters(engine.url.render_as_string(hide_password=True))


def cause_of(exc: BaseException) -> str:
    """What the database has said, without secrets."""
    return without_secrets(str(getattr(exc, "orig", None) or exc))
