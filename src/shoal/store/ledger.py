"""The ledger: every time that a host was asked, by which job, and what held for it then.

Its rows belong to the host: removing a job leaves them. They are written with the pages, read by host in order of time,
and removed by age and number, the oldest first. Ids grow with time, as nearly as this needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen
from shoal.core.ledger import Ask, plain_rule, plain_url
from shoal.core.manners import LimitSource
from shoal.store.bulk import Bulk
from shoal.store.host_tables import ledger
from shoal.store.trouble import translated_errors

Place = tuple[int, int]
"""Where a reader stands: (ms, id) of the last entry seen."""

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
TRIM_AT_ONCE = 5_000
SHOWN_GROUPS = 50
"""Of jobs, limits and versions, the last used."""
SHOWN_HOURS = 24 * 31
_LOOKED_AT = 100
"""Entries at the old end among which one must be too old before anything is removed."""
_COLUMNS = tuple(str(column.name) for column in ledger.c if column.name != "id")


@frozen
class Entry:
    """One row of the ledger."""

    id: int
    ask: Ask

    @property
    def place(self) -> Place:
        return self.ask.at_ms, self.id


@frozen
class Span:
    """How often something was so, from when to when."""

    requests: int
    first_ms: int
    last_ms: int


@frozen
class JobShare:
    """What one job asked."""

    job: str
    span: Span


@frozen
class LimitInForce:
    """A limit that requests were made under."""

    rate: float
    parallel: int
    source: LimitSource
    span: Span


@frozen
class RobotsInForce:
    """A version of robots.txt that requests were made under; empty for none."""

    version: str
    span: Span


@frozen
class Summary:
    """A host's part of the ledger, added up."""

    requests: int
    first_ms: int | None
    last_ms: int | None
    busiest_second: int
    """The most requests within any 1,000 ms."""
    busiest_minute: int
    jobs: tuple[JobShare, ...]
    """The last active first, as are those below."""
    statuses: dict[int, int]
    """HTTP status → requests; 0 for no answer."""
    hours: dict[int, int]
    """The hour's first ms → requests."""
    limits: tuple[LimitInForce, ...]
    robots: tuple[RobotsInForce, ...]


class Ledger:
    """The ledger of all hosts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._put = Bulk(engine.dialect.name, ledger)

    def write(self, connection: Connection, asks: Sequence[Ask]) -> None:
        """Add entries, within somebody's transaction."""
        self._put.write_values(connection, [_values(ask) for ask in asks])  # this is done for every page

    def read(
        self,
        host: str,
        since_ms: int | None = None,
        until_ms: int | None = None,
        limit: int = 1_000,
        after: Place | None = None,
    ) -> list[Entry]:
        """Entries of a host in order of time, from `since_ms` to before `until_ms`, behind the place `after`."""
        query = sa.select(ledger).where(*_of(host, since_ms, until_ms)).order_by(ledger.c.at_ms, ledger.c.id)
        if after is not None:
            later = sa.or_(ledger.c.at_ms > after[0], ledger.c.id > after[1])
            query = query.where(ledger.c.at_ms >= after[0], later)
        return self._entries(query.limit(limit))

    def newest(
        self, host: str, since_ms: int | None = None, until_ms: int | None = None, limit: int = 20
    ) -> list[Entry]:
        """The last entries of a host, in order of time."""
        query = sa.select(ledger).where(*_of(host, since_ms, until_ms))
        return self._entries(query.order_by(ledger.c.at_ms.desc(), ledger.c.id.desc()).limit(limit))[::-1]

    def batches(self, host: str, since_ms: int | None = None, until_ms: int | None = None) -> Iterator[list[Entry]]:
        """All entries of a host in order of time, as many at once as are read at once."""
        after: Place | None = None
        while entries := self.read(host, since_ms, until_ms, after=after):
            after = entries[-1].place
            yield entries

    def summary(self, host: str, since_ms: int | None = None, until_ms: int | None = None) -> Summary:
        """A host's entries added up."""
        mine = sa.and_(*_of(host, since_ms, until_ms))
        with translated_errors(), self._engine.connect() as connection:
            ends = sa.select(sa.func.count(), sa.func.min(ledger.c.at_ms), sa.func.max(ledger.c.at_ms)).where(mine)
            requests, first_ms, last_ms = connection.execute(ends).one()
            jobs = _spans(connection, mine, ledger.c.job)
            limits = _spans(connection, mine, ledger.c.rate, ledger.c.parallel, ledger.c.source)
            versions = _spans(connection, mine, ledger.c.robots)
            return Summary(
                requests,
                first_ms,
                last_ms,
                _busiest(connection, mine, SECOND_MS),
                _busiest(connection, mine, MINUTE_MS),
                tuple(JobShare(job, span) for (job,), span in jobs),
                _counts(connection, mine, ledger.c.status, 1_000),
                _counts(connection, mine, ledger.c.at_ms // HOUR_MS * HOUR_MS, SHOWN_HOURS),
                tuple(LimitInForce(rate, cap, LimitSource(source), span) for (rate, cap, source), span in limits),
                tuple(RobotsInForce(version, span) for (version,), span in versions),
            )

    def trim(self, keep_since_ms: int, keep_rows: int, at_most: int = TRIM_AT_ONCE) -> int:
        """Remove entries that are too old or too many, the oldest first; how many went this time."""
        with translated_errors(), self._engine.begin() as connection:
            first, last = connection.execute(sa.select(sa.func.min(ledger.c.id), sa.func.max(ledger.c.id))).one()
            if first is None:
                return 0
            if last - first >= keep_rows:
                return _remove(connection, ledger.c.id <= last - keep_rows, at_most)
            if _oldest_ms(connection) < keep_since_ms:
                return _remove(connection, ledger.c.at_ms < keep_since_ms, at_most)
        return 0

    def _entries(self, query: sa.Select[tuple[object, ...]]) -> list[Entry]:
        with translated_errors(), self._engine.connect() as connection:
            return [_entry(row) for row in connection.execute(query).mappings()]


def _of(host: str, since_ms: int | None, until_ms: int | None) -> list[sa.ColumnElement[bool]]:
    wanted = [ledger.c.host == host]
    if since_ms is not None:
        wanted.append(ledger.c.at_ms >= since_ms)
    if until_ms is not None:
        wanted.append(ledger.c.at_ms < until_ms)
    return wanted


def _values(ask: Ask) -> tuple[object, ...]:
    """In the order of the columns."""
    return (
        ask.at_ms,
        ask.host,
        ask.job,
        plain_url(ask.url),
        ask.status,
        ask.reason,
        ask.rate,
        ask.parallel,
        ask.source.value,
        ask.robots,
        plain_rule(ask.rule) if ask.rule else "",
    )


def ask_of(row: sa.RowMapping) -> Ask:
    """What a row says."""
    plain = {name: row[name] for name in _COLUMNS if name != "source"}
    return Ask(**plain, source=LimitSource(row["source"]))


def _entry(row: sa.RowMapping) -> Entry:
    return Entry(row["id"], ask_of(row))


def _spans(
    connection: Connection, mine: sa.ColumnElement[bool], *columns: sa.ColumnElement[Any]
) -> list[tuple[tuple[Any, ...], Span]]:
    """What was so, the last first, with how often and when."""
    last = sa.func.max(ledger.c.at_ms)
    query = sa.select(sa.func.count(), sa.func.min(ledger.c.at_ms), last, *columns).where(mine)
    query = query.group_by(*columns).order_by(last.desc(), *columns).limit(SHOWN_GROUPS)
    rows = cast("list[tuple[Any, ...]]", connection.execute(query).all())
    return [(tuple(row[3:]), Span(row[0], row[1], row[2])) for row in rows]


def _counts(
    connection: Connection, mine: sa.ColumnElement[bool], column: sa.ColumnElement[int], most: int
) -> dict[int, int]:
    """Value → how often; of many, the highest values."""
    value = column.label("value")
    query = sa.select(value, sa.func.count()).where(mine).group_by(value).order_by(value.desc()).limit(most)
    return {int(key): count for key, count in reversed(connection.execute(query).all())}


def _busiest(connection: Connection, mine: sa.ColumnElement[bool], window_ms: int) -> int:
    """The most requests within any time of this length, wherever it begins."""
    within = sa.func.count().over(order_by=ledger.c.at_ms, range_=(0, window_ms - 1)).label("within")
    windows = sa.select(within).where(mine).subquery()
    return connection.execute(sa.select(sa.func.coalesce(sa.func.max(windows.c.within), 0))).scalar_one()


def _oldest_ms(connection: Connection) -> int:
    old_end = sa.select(ledger.c.at_ms).order_by(ledger.c.id).limit(_LOOKED_AT).subquery()
    return connection.execute(sa.select(sa.func.min(old_end.c.at_ms))).scalar_one()


def _remove(connection: Connection, condition: sa.ColumnElement[bool], at_most: int) -> int:
    """Of the entries at the old end, those that fit."""
    old_end = sa.select(ledger.c.id).order_by(ledger.c.id).limit(at_most)
    return connection.execute(sa.delete(ledger).where(ledger.c.id.in_(old_end), condition)).rowcount
