"""Opening the database: pragmas, and the schema brought up to date before anything reads it."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from shoal.errors import StoreUnavailable

HEAD = "0001"
"""The newest migration. Known here so that the usual start does not import Alembic; a test keeps it true."""

BUSY_TIMEOUT_MS = 30_000


def open_database(url: str) -> Engine:
    """An engine whose schema is current."""
    engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    try:
        if _revision(engine) != HEAD:
            _migrate(engine)
    except (SQLAlchemyError, sqlite3.Error, OSError) as exc:
        engine.dispose()
        raise StoreUnavailable(f"cannot open the database {_shown(engine)}: {_cause(exc)}") from exc
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "cache_size=-16000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "shoal.store:migrations")
    with _one_at_a_time(engine):
        if _revision(engine) == HEAD:
            return
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


@contextmanager
def _one_at_a_time(engine: Engine) -> Generator[None]:
    """Two commands that start at once on a new folder must not both create the tables."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        yield
        return
    with Path(engine.url.database + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _shown(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)


def _cause(exc: BaseException) -> str:
    return str(getattr(exc, "orig", None) or exc)
