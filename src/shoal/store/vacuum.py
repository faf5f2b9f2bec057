"""Giving the disk back what deleted rows took: SQLite keeps it until it is asked, PostgreSQL sees to it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.frozen import frozen
from shoal.store.trouble import translated_errors

_CHECKPOINT = sa.text("PRAGMA wal_checkpoint(TRUNCATE)")


@frozen
class Reclaimed:
    """The size of the database file, in bytes."""

    before: int
    after: int


def file_size(engine: Engine) -> int | None:
    """Of the database file; None where there is none."""
    file = engine.url.database
    return Path(file).stat().st_size if engine.dialect.name == "sqlite" and file else None


def vacuum(engine: Engine) -> Reclaimed | None:
    """Write the database anew without its holes; None where the server does so by itself.

    Writers wait meanwhile, and the disk needs room for a second copy.
    """
    if file_size(engine) is None:
        return None
    file = str(engine.url.database)
    with translated_errors(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(_CHECKPOINT)  # else much of it stands in the journal beside the file
        before = Path(file).stat().st_size
        connection.execute(sa.text("VACUUM"))
        connection.execute(_CHECKPOINT)
    return Reclaimed(before, Path(file).stat().st_size)
