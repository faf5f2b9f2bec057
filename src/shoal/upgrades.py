"""Who may change the schema of a database that others may be working with, and when.

A database of SQLite has one machine, and is brought up to date by whoever opens it. One of PostgreSQL may have a fleet:
there a process that starts does so only when nobody of another version is at work, and not at all if it is told so
(SHOAL_DATABASE_UPGRADE=refuse). `shoal db upgrade` does so beside others as well, if they can live with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal import __version__
from shoal.core.fleet import WorkerBeat
from shoal.core.frozen import frozen
from shoal.embedded import running_url
from shoal.errors import StoreUnavailable
from shoal.settings import Settings
from shoal.store.database import HEAD, open_database

PROGRAM = "shoal "
"""What the names of our connections begin with; the build follows."""
BUILD = f"{__version__} schema {HEAD}"
"""This Shoal as its connections call it: two builds of one version may know different schemas."""
SHOWN = 5


@frozen
class AtWork:
    """Who works with the database."""

    workers: Sequence[WorkerBeat]
    """That live, by their signs of life in Redis."""
    connections: dict[str, int]
    """Build → connections to PostgreSQL that others have open."""

    @property
    def all(self) -> list[str]:
        """Everybody, in words."""
        workers = [f"{worker.name} ({build_of(worker)})" for worker in self.workers]
        return [*workers, *(_told_connections(each) for each in self.connections.items())]

    @property
    def strangers(self) -> list[str]:
        """Those of another version, or of a build of this one that knows another schema, in words."""
        builds = {worker.name: build_of(worker) for worker in self.workers}
        workers = [f"{name} ({build})" for name, build in builds.items() if build != BUILD]
        others = [each for each in self.connections.items() if each[0] not in (BUILD, *builds.values())]
        return [*workers, *map(_told_connections, others)]


def build_of(worker: WorkerBeat) -> str:
    """As its connections call it; one from before schema 0016 does not say what it knows."""
    return f"{worker.version} schema {worker.schema}" if worker.schema else worker.version


def open_store(settings: Settings, *, durable: bool = False) -> Engine:
    """The database that settings name, for who may be one of many."""
    return open_database(settings.sql_url, durable=durable, before_upgrade=partial(_check, settings))


def who_works(settings: Settings, connection: Connection) -> AtWork:
    """Raises RedisUnavailable when there is a Redis and it cannot be asked."""
    return AtWork(living_workers(settings), _connections(connection))


def living_workers(settings: Settings) -> list[WorkerBeat]:
    """By their signs of life; none when no Redis is named or runs here."""
    from shoal.frontier.watch import Watch
    from shoal.redis_url import RedisUrls

    url = settings.redis_url or running_url(settings.home)
    if url is None:
        return []
    watch = Watch.at(RedisUrls.of(url, settings.broker_url).frontier, settings.prefix)
    try:
        return watch.workers()
    finally:
        watch.close_connections()


def told(names: Sequence[str]) -> str:
    """Some of them."""
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest


def _told_connections(each: tuple[str, int]) -> str:
    version, count = each
    return f"{count} {'connection' if count == 1 else 'connections'} of Shoal {version}"


def _check(settings: Settings, connection: Connection, found: str | None) -> None:
    """At the start of a process; raises StoreUnavailable with what to do."""
    if connection.dialect.name != "postgresql":
        return
    gap = (
        f"the database has {f'the schema {found}' if found else 'no tables yet'}, and Shoal {__version__} needs {HEAD}"
    )
    if settings.database_upgrade == "refuse":
        raise StoreUnavailable(
            f"{gap}; as SHOAL_DATABASE_UPGRADE=refuse says, it is not changed by a process that starts: "
            "run `shoal db upgrade`"
        )
    if found is None:
        return
    if strangers := who_works(settings, connection).strangers:
        raise StoreUnavailable(
            f"{gap}, but others of another version are at work: {told(strangers)}. It is not changed under their hands "
            "by a process that starts: run `shoal db upgrade`, which says whether they can go on meanwhile"
        )


def _connections(connection: Connection) -> dict[str, int]:
    if connection.dialect.name != "postgresql":
        return {}
    query = sa.text(
        "SELECT substr(application_name, :after), count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE :ours AND pid <> pg_backend_pid() GROUP BY 1 ORDER BY 1"
    )
    rows = connection.execute(query, {"after": len(PROGRAM) + 1, "ours": f"{PROGRAM}%"})
    return {str(version): int(count) for version, count in rows}
