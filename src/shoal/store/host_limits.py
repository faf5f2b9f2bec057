"""Operators' words on hosts, kept for good: the frontier can lose its own and have them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen, names_of
from shoal.store.host_tables import host_limits
from shoal.store.trouble import translated_errors

Mark = tuple[int, int, int]
"""Another one whenever a limit is another one."""


@frozen
class HostLimit:
    """What an operator has said about a host."""

    host: str
    """A host, or `@domain` for the bucket that the hosts of a domain share."""
    rate: float | None = None
    """Requests a second; 0 is unlimited, None leaves it to the others."""
    parallel: int | None = None
    """Requests at once; likewise."""
    paused: bool = False
    note: str = ""
    """For people: who agreed to this, and when."""
    set_ms: int = 0

    @property
    def says_nothing(self) -> bool:
        return self.rate is None and self.parallel is None and not self.paused and not self.note


class HostLimits:
    """The table of operators' words."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(self, limit: HostLimit) -> None:
        """This is the word on the host now, whatever it was before."""
        given = asdict(limit)
        with translated_errors(), self._engine.begin() as connection:
            self._upsert(connection, given)

    def change(self, host: str, given: Mapping[str, object], set_ms: int) -> HostLimit | None:
        """Change some columns and leave the others; a word that then says nothing goes, and is None."""
        with translated_errors(), self._engine.begin() as connection:
            self._upsert(connection, {**given, "host": host, "set_ms": set_ms})
            limit = _limit(connection.execute(_of(host)).mappings().one())
            if limit.says_nothing:
                connection.execute(sa.delete(host_limits).where(host_limits.c.host == host))
        return None if limit.says_nothing else limit

    def get(self, host: str) -> HostLimit | None:
        """The word on a host."""
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(_of(host)).mappings().first()
        return None if row is None else _limit(row)

    def some(self, hosts: Sequence[str]) -> dict[str, HostLimit]:
        """Those of these hosts that have a word."""
        if not hosts:
            return {}
        query = sa.select(host_limits).where(host_limits.c.host.in_(hosts))
        with translated_errors(), self._engine.connect() as connection:
            return {row["host"]: _limit(row) for row in connection.execute(query).mappings()}

    def all(self) -> list[HostLimit]:
        """Every word, by host."""
        query = sa.select(host_limits).order_by(host_limits.c.host)
        with translated_errors(), self._engine.connect() as connection:
            return [_limit(row) for row in connection.execute(query).mappings()]

    def mark(self) -> Mark:
        """Cheaper to compare than all of them."""
        at = host_limits.c.set_ms
        query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(at), 0), sa.func.coalesce(sa.func.sum(at), 0))
        with translated_errors(), self._engine.connect() as connection:
            count, newest, total = connection.execute(query).one()
        return int(count), int(newest), int(total)

    def remove(self, host: str) -> bool:
        """Take the word back; False when there was none."""
        with translated_errors(), self._engine.begin() as connection:
            return connection.execute(sa.delete(host_limits).where(host_limits.c.host == host)).rowcount > 0

    def _upsert(self, connection: Connection, given: Mapping[str, object]) -> None:
        if self._engine.dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert
        else:
            from sqlalchemy.dialects.sqlite import insert
        changed = {name: value for name, value in given.items() if name != "host"}
        statement = insert(host_limits).values(given)
        connection.execute(statement.on_conflict_do_update(index_elements=["host"], set_=changed))


def _of(host: str) -> sa.Select[tuple[object, ...]]:
    return sa.select(host_limits).where(host_limits.c.host == host)


def _limit(row: sa.RowMapping) -> HostLimit:
    return HostLimit(**{name: row[name] for name in names_of(HostLimit)})
