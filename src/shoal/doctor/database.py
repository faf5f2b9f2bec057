"""The database: is it there, free, ours, of this version's schema, and the one that the others use?"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from shoal import __version__
from shoal.core.redact import without_login
from shoal.core.trouble import gist
from shoal.doctor.finding import Area, Finding, Kind, Level, note, well
from shoal.doctor.ground import Ground, NotLooked
from shoal.doctor.machine import NETWORK_SYSTEMS, file_system_of
from shoal.errors import InputError, StoreUnavailable
from shoal.store.database import HEAD, is_ours
from shoal.store.inspection import Inspection, Sight, inspected, sqlite_file

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

WAIT_S = 2.0
"""For a lock; who works with SQLite holds it for a fraction of a second."""
SETTLED_MS = 60_000
"""A job that is younger may be on its way from the database to Redis."""
SHOWN = 5

AWAY = Kind(
    "database_unreachable", Area.DATABASE, Level.ERROR,
    "Nothing can be submitted; workers keep what they have fetched and wait.",
    "systemctl start postgresql",
)  # fmt: skip
DRIVER = Kind(
    "database_driver", Area.DATABASE, Level.ERROR,
    "SHOAL_DATABASE_URL names a kind of database whose driver is not installed.",
    "pip install 'shoal[postgres]'",
)  # fmt: skip
BAD_URL = Kind(
    "database_url", Area.DATABASE, Level.ERROR,
    "No command starts with this URL.",
    "export SHOAL_DATABASE_URL=postgresql://user:password@HOST/DATABASE",
)  # fmt: skip
DAMAGED = Kind(
    "database_damaged", Area.DATABASE, Level.ERROR,
    "The file is no SQLite database, or its pages do not fit together: copies of a file in use are often so.",
    "sqlite3 {path} .recover | sqlite3 {path}.recovered",
)  # fmt: skip
LOCKED = Kind(
    "database_locked", Area.DATABASE, Level.ERROR,
    "Somebody keeps the lock, and nobody else can write: a program that has the file open, a backup, a frozen process.",
    "fuser -v {path}",
)  # fmt: skip
OLDER = Kind(
    "schema_older", Area.DATABASE, Level.WARNING,
    "An earlier Shoal has made it. A command that starts brings it up to date, unless others of another version work.",
    "shoal db upgrade",
)  # fmt: skip
NEWER = Kind(
    "schema_newer", Area.DATABASE, Level.ERROR,
    "A newer Shoal has made it: this one does not know its tables, and unless it can work with them no command starts. "
    "The newer one can also take it back (`shoal db downgrade`).",
    "pip install --upgrade shoal",
)  # fmt: skip
NOT_OURS = Kind(
    "database_not_ours", Area.DATABASE, Level.ERROR,
    "Another program's tables are there, and none of Shoal's: this is the wrong database.",
    "export SHOAL_DATABASE_URL=postgresql://user:password@HOST/shoal",
)  # fmt: skip
ON_NETWORK = Kind(
    "sqlite_on_network", Area.DATABASE, Level.WARNING,
    "SQLite's locks do not hold over a network: the file is damaged sooner or later.",
    "export SHOAL_DATABASE_URL=postgresql://user:password@HOST/DATABASE",
)  # fmt: skip
OTHER = Kind(
    "other_database", Area.DATABASE, Level.ERROR,
    "Redis has jobs that this database does not have: somebody uses this Redis with another database.",
    "export SHOAL_DATABASE_URL=URL SHOAL_PREFIX=OTHER",
)  # fmt: skip
LOST = Kind(
    "lost_jobs", Area.DATABASE, Level.WARNING,
    "Redis has forgotten jobs that have not ended: it was emptied, or is another one.",
    "shoal recover",
)  # fmt: skip


def schema(ground: Ground) -> Iterator[Finding]:
    """Can it be opened, and is its schema ours?"""
    try:
        path = _existing_file(ground)
        yield from _network(path)
        with inspected(ground.settings.sql_url, WAIT_S) as database:
            sight = database.see()
            database.lock()
    except NotLooked as why:
        yield note(Area.DATABASE, str(why))
    except InputError as exc:
        yield BAD_URL.found(gist(exc))
    except StoreUnavailable as exc:
        yield _trouble(ground, str(exc))
    else:
        yield judge(sight, without_login(ground.settings.sql_url))


def judge(sight: Sight, shown: str) -> Finding:
    """What its schema tells."""
    if sight.revision is not None and not is_ours(sight.revision):
        return NOT_OURS.found(f"{shown} belongs to another program: its alembic_version is {sight.revision!r}")
    if sight.revision is None:
        if sight.tables:
            return NOT_OURS.found(f"{shown} has {sight.tables} tables, and none of Shoal's")
        return note(Area.DATABASE, f"{shown} is empty; the first command makes its tables")
    if sight.revision < HEAD:
        return OLDER.found(f"{shown} has the schema {sight.revision}, and this Shoal has {HEAD}")
    if sight.revision > HEAD:
        by = f", made by Shoal {sight.made_by}" if sight.made_by else ""
        what = f"{shown} has the schema {sight.revision}{by}, and this Shoal, {__version__}, knows those up to {HEAD}"
        return _newer(sight, what)
    return well(Area.DATABASE, f"{shown} answers; schema {HEAD}")


def _newer(sight: Sight, what: str) -> Finding:
    if sight.usable_from and sight.usable_from <= HEAD:
        return NEWER.found(f"{what}, and can work with it all the same", level=Level.WARNING)
    told = sight.made_by not in (None, __version__)  # else it is a newer build of the same version
    return NEWER.found(what, mend=shlex.join(["pip", "install", f"shoal>={sight.made_by}"]) if told else "")


def _existing_file(ground: Ground) -> Path | None:
    path = sqlite_file(ground.settings.sql_url)
    if path and not path.exists():
        raise NotLooked(f"{path} is not there yet; the first command makes it")
    return path


def _network(path: Path | None) -> Iterator[Finding]:
    kind = file_system_of(path) if path else ""
    if kind in NETWORK_SYSTEMS:
        yield ON_NETWORK.found(f"{path} is on a network file system ({kind})")


def _trouble(ground: Ground, told: str) -> Finding:
    path = sqlite_file(ground.settings.sql_url) if "driver" not in told else None
    if "pip install" in told:
        return DRIVER.found(told)
    if path and "locked" in told:
        return LOCKED.found(f"{path} is locked, and was so for {WAIT_S:g} s", path=path)
    if path and ("not a database" in told or "malformed" in told):
        return DAMAGED.found(f"{path}: {told}", path=path)
    mend = shlex.join(["ls", "-l", str(path)]) if path else ""
    return AWAY.found(f"{without_login(ground.settings.sql_url)}: {gist(Exception(told))}", mend=mend)


def same_jobs(ground: Ground) -> Iterator[Finding]:
    """Do Redis and the database know the same jobs?"""
    with ground.frontier() as client:
        listed = f"{ground.jobs_prefix}:jobs"
        in_redis = {str(job) for job in cast("list[str]", client.srandmember(listed, 100) or [])}
        with opened(ground) as database:
            strange = sorted(in_redis - database.known(list(in_redis)))
            living = database.living_jobs(time.time_ns() // 1_000_000 - SETTLED_MS)
        lost = [job for job in living if not client.sismember(listed, job)]
    if strange:
        yield OTHER.found(f"unknown to this database: {', '.join(strange[:SHOWN])}")
    if lost:
        yield LOST.found(f"unknown to Redis: {', '.join(lost[:SHOWN])}")


@contextmanager
def opened(ground: Ground) -> Generator[Inspection]:
    """The database for questions about what is in it; who cannot ask has nothing to look at."""
    try:
        _existing_file(ground)
        with inspected(ground.settings.sql_url, WAIT_S) as database:
            if not _is_ours(database.see()):
                raise NotLooked("the database has not this version's tables")
            yield database
    except (InputError, StoreUnavailable) as exc:
        raise NotLooked(f"the database cannot be asked: {gist(exc)}") from exc


def _is_ours(sight: Sight) -> bool:
    return sight.revision is not None and sight.revision >= HEAD >= (sight.usable_from or sight.revision)


CHECKS = (schema, same_jobs)
