"""What the database has about one URL of a job, found by indexes: page, dead letter, items, requests, submissions.

Two things have no index, and are looked through up to a bound: the last requests to a host, in the ledger, and the URLs
of submissions, which are kept packed, some thousands a row.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen
from shoal.core.ledger import Ask, plain_url
from shoal.core.url import Url
from shoal.store.ledger import ask_of
from shoal.store.page_rows import DeadLetter, PageRow, letter_of, page_of
from shoal.store.submissions import REPLAY, URLS
from shoal.store.tables import dead_letters, items, ledger, pages, quarantine, submissions
from shoal.store.trouble import translated_errors

MOST_ASKS = 20_000
"""Entries of a host in the ledger that are looked at, before the time that is asked about."""
SHOWN_ASKS = 50
MOST_SUBMISSIONS = 400
"""Each of up to 5,000 URLs; the first ones."""


@frozen
class ItemCount:
    """What a page gave in one version of the extraction."""

    version: str
    items: int
    quarantined: int


@frozen
class Naming:
    """A submission that names a URL."""

    id: int
    created_ms: int
    count: int
    """URLs that came with it."""
    admitted: bool


class Traces:
    """Rows about single URLs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def page(self, job: str, fingerprint: int) -> PageRow | None:
        """The page, if it was stored."""
        row = self._row(pages, job, fingerprint)
        return None if row is None else page_of(row)

    def letter(self, job: str, fingerprint: int) -> DeadLetter | None:
        """Why there is none, if it was given up or refused."""
        row = self._row(dead_letters, job, fingerprint)
        return None if row is None else letter_of(row)

    def item_counts(self, job: str, fingerprint: int, versions: Sequence[str]) -> list[ItemCount]:
        """What a page gave, in each version that has anything of it."""
        with translated_errors(), self._engine.connect() as connection:
            good = _counts(connection, items, job, fingerprint, versions)
            broken = _counts(connection, quarantine, job, fingerprint, versions)
        names = [name for name in versions if name in good or name in broken]
        return [ItemCount(name, good.get(name, 0), broken.get(name, 0)) for name in names]

    def asks(self, job: str, url: Url, until_ms: int) -> list[Ask]:
        """When its host was asked for it, up to this time, as far back as is looked; in order of time."""
        mine = sa.select(ledger).where(ledger.c.host == url.host, ledger.c.at_ms <= until_ms)
        last = mine.order_by(ledger.c.at_ms.desc()).limit(MOST_ASKS).subquery()
        query = sa.select(last).where(last.c.job == job, last.c.url == plain_url(str(url)))
        with translated_errors(), self._engine.connect() as connection:
            rows = connection.execute(query.order_by(last.c.at_ms.desc()).limit(SHOWN_ASKS)).mappings().all()
        return [ask_of(row) for row in reversed(rows)]

    def named(self, job: str, url: Url) -> Naming | None:
        """The first submission that has it."""
        line = str(url).encode()
        return self._naming(job, URLS, b"\n" + line + b"\n")

    def names_all(self, job: str) -> bool:
        """Are there no more submissions than are looked through?"""
        query = sa.select(sa.func.count()).where(submissions.c.job == job, submissions.c.kind == URLS)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).scalar_one() <= MOST_SUBMISSIONS

    def replayed(self, job: str, url: Url) -> Naming | None:
        """The last replay of its dead letter."""
        line = str(url).encode()
        ends = (b"\n", b"\t", b" ")  # behind it may stand what a spider sent along, or its level
        return self._naming(job, REPLAY, *(b" " + line + end for end in ends), newest=True)

    def _naming(self, job: str, kind: str, *wanted: bytes, newest: bool = False) -> Naming | None:
        """The first submission, or the newest, whose lines have one of these; one at a time is in memory."""
        number = submissions.c.id
        query = sa.select(submissions).where(submissions.c.job == job, submissions.c.kind == kind)
        query = query.order_by(number.desc() if newest else number).limit(1)
        last: int | None = None
        with translated_errors(), self._engine.connect() as connection:
            for _ in range(MOST_SUBMISSIONS):
                behind = () if last is None else (number < last if newest else number > last,)
                row = connection.execute(query.where(*behind)).mappings().first()
                if row is None:
                    break
                last, lines = row["id"], b"\n" + zlib.decompress(row["urls"]) + b"\n"
                if any(each in lines for each in wanted):
                    return Naming(row["id"], row["created_ms"], row["count"], row["admitted"])
        return None

    def _row(self, table: sa.Table, job: str, fingerprint: int) -> sa.RowMapping | None:
        query = sa.select(table).where(table.c.job == job, table.c.fingerprint == fingerprint)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).mappings().first()


def _counts(
    connection: Connection, table: sa.Table, job: str, fingerprint: int, versions: Sequence[str]
) -> dict[str, int]:
    """Version → how many."""
    mine = (table.c.job == job, table.c.version.in_(versions), table.c.fingerprint == fingerprint)
    query = sa.select(table.c.version, sa.func.count()).where(*mine).group_by(table.c.version)
    return {row[0]: row[1] for row in connection.execute(query)}
