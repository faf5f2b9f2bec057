"""The versions of the schema, and the way from one to another. Imported only where one is gone: Alembic is slow.

A migration is `additive` when processes that know nothing of it go on working beside it: it adds tables, indexes, and
columns that may be left out, and changes and removes nothing. The database remembers from which version on processes
can work with it, so that one which is older than the schema knows whether it may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import OperationalError

from shoal import __version__
from shoal.core.frozen import frozen
from shoal.errors import InputError, StoreUnavailable
from shoal.store.database import HEAD, file_to_oneself, not_known, revision_of, shown, word_of
from shoal.store.tables import schema_log

MIGRATION_LOCK = 5_440_015
"""PostgreSQL's advisory lock for those who start at once."""
LOCK_WAIT_S = 3
"""Whoever wants a table for himself lets everybody queue up behind him: after so long he steps back."""
TRIES = 20
PAUSE_S = 1.0
_BUSY = ("55P03", "40P01")
"""SQLSTATE: a lock was not to be had, or two waited for each other."""


@frozen
class Migration:
    """One version of the schema."""

    revision: str
    about: str
    additive: bool
    """Can processes of the version before go on working?"""


def migrations() -> list[Migration]:
    """All that this Shoal knows, the oldest first."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    found = [
        Migration(script.revision, script.doc, bool(getattr(script.module, "additive", False))) for script in scripts
    ]
    return found[::-1]


def pending(found: str | None) -> list[Migration]:
    """What a database of this version lacks."""
    return [each for each in migrations() if found is None or each.revision > found]


def works_from(revision: str, known: Sequence[Migration] | None = None) -> str:
    """The oldest version whose processes can work with this one: that of the last migration which is not additive."""
    steps = [each for each in known or migrations() if each.revision <= revision]
    return next((each.revision for each in reversed(steps) if not each.additive), steps[0].revision)


def upgrade(engine: Engine, to: str = HEAD) -> None:
    """Bring it up to date, or to an older version; nothing when it is."""

    def run(connection: Connection) -> None:
        found = revision_of(connection)
        if found == to:
            return
        try:
            command.upgrade(_config(connection), to)
        except CommandError as exc:
            raise StoreUnavailable(not_known(shown(engine), str(found), word_of(connection))) from exc
        _note(connection, to)

    _alone(engine, run)


def downgrade(engine: Engine, revision: str) -> list[Migration]:
    """Go back to an older version; returns what was undone, the last first. What was stored there is lost."""
    if revision not in {each.revision for each in migrations()}:
        known = ", ".join(each.revision for each in migrations())
        raise InputError(f"there is no schema {revision!r}; this Shoal knows {known}")
    undone: list[Migration] = []

    def run(connection: Connection) -> None:
        found = revision_of(connection)
        undone[:] = [each for each in reversed(migrations()) if revision < each.revision <= (found or "")]
        if undone:
            command.downgrade(_config(connection), revision)
            _note(connection, revision)

    _alone(engine, run)
    return undone


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", "shoal.store:migrations")
    config.attributes["connection"] = connection
    return config


def _note(connection: Connection, revision: str) -> None:
    """For processes that do not know this version."""
    if not sa.inspect(connection).has_table(schema_log.name):
        return
    connection.execute(sa.delete(schema_log).where(schema_log.c.revision >= revision))
    values = {"revision": revision, "works_from": works_from(revision), "version": __version__, "at_ms": _now_ms()}
    connection.execute(sa.insert(schema_log).values(values))


def _alone(engine: Engine, run: Callable[[Connection], None]) -> None:
    """In one transaction, one process at a time; on PostgreSQL again and again while others are in the way."""
    for left in range(TRIES - 1, -1, -1):
        try:
            with file_to_oneself(engine), engine.begin() as connection:
                if engine.dialect.name == "postgresql":
                    connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'"))
                    connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
                else:  # or its driver would begin one with the first row that is written, behind all new tables
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                run(connection)
        except OperationalError as exc:
            if getattr(exc.orig, "sqlstate", None) not in _BUSY:
                raise
            if not left:
                raise StoreUnavailable(
                    f"the schema of {shown(engine)} could not be changed: somebody has held its tables for "
                    f"{TRIES * (LOCK_WAIT_S + PAUSE_S):.0f} s, such as a backup or a long query; nothing was changed, "
                    "try again when it has ended"
                ) from exc
        else:
            return
        time.sleep(PAUSE_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
