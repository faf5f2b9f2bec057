"""Pages, items, links and dead letters: written in batches, one transaction each; read in order of arrival."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.ledger import Ask
from shoal.store.bulk import Bulk
from shoal.store.carrying import Carrier
from shoal.store.in_order import after, newest_id, some_ids
from shoal.store.items import ItemRow, ItemWriter, PageKey, Quarantined, item_of, quarantined_of
from shoal.store.ledger import Ledger
from shoal.store.page_rows import (
    USUAL_COLUMNS,
    DeadLetter,
    FoundLinks,
    PageRow,
    Recrawled,
    is_usual,
    letter_of,
    letter_values,
    links_of,
    links_values,
    page_of,
    page_values,
    usual_values,
)
from shoal.store.row_filter import EVERYTHING, VERSIONED, RowFilter, narrowed
from shoal.store.tables import FIRST_VERSION, dead_letters, items, links, outlinks, pages, quarantine
from shoal.store.trouble import translated_errors

_LOCK_JOBS = sa.text(
    "SELECT pg_advisory_xact_lock(number) FROM ("
    "SELECT DISTINCT hashtext(job) AS number FROM unnest(CAST(:jobs AS text[])) AS given(job) ORDER BY number"
    ") AS numbers"
)
"""All take them in the same order, or two could wait for each other."""


class PageStore:
    """Rows about pages, of all jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._dialect = dialect = engine.dialect.name
        self._put_pages = Bulk(dialect, pages, ("job", "fingerprint"))
        self._put_usual = Bulk(dialect, pages, ("job", "fingerprint"), only=USUAL_COLUMNS)
        self._put_dead = Bulk(dialect, dead_letters, ("job", "fingerprint"))
        self._put_links = Bulk(dialect, links, long="urls")
        self._items = ItemWriter(dialect)
        self._ledger = Ledger(engine)
        self._carrier = Carrier(dialect)

    def write(
        self,
        page_rows: Sequence[PageRow],
        item_rows: Sequence[ItemRow],
        letters: Sequence[DeadLetter],
        asks: Sequence[Ask] = (),
        found: Sequence[FoundLinks] = (),
        quarantined: Sequence[Quarantined] = (),
        recrawled: Recrawled | None = None,
        itemless: Collection[str] = (),
    ) -> None:
        """Store a batch, all or nothing; rows that are there are replaced, but what was asked and found is added.

        Of a page that is among them, only these items stay, or those that are carried over with it (LenderGone).
        Jobs that never have any (`itemless`) are not looked through for others.
        """
        copied = {(row.job, row.fingerprint) for row in recrawled.carried if row.with_items} if recrawled else ()
        with self._transaction() as connection:
            in_turn(connection, {row.job for row in (*page_rows, *item_rows, *letters, *found)})
            if page_rows:
                self._write_pages(connection, page_rows)
            if page_rows or item_rows or quarantined:
                read = (
                    PageKey(row.job, row.fingerprint)
                    for row in page_rows
                    if row.job not in itemless and (not copied or (row.job, row.fingerprint) not in copied)
                )
                self._items.write(connection, read, item_rows, quarantined)
            if letters:
                self._put_dead.write(connection, [letter_values(letter) for letter in letters])
            if found:
                self._put_links.write(connection, [links_values(row) for row in found])
            if asks:
                self._ledger.write(connection, asks)
            if recrawled:
                self._carrier.write(connection, recrawled)

    def _write_pages(self, connection: Connection, rows: Sequence[PageRow]) -> None:
        if all(map(is_usual, rows)):
            self._put_usual.write_values(connection, list(map(usual_values, rows)))
        else:
            self._put_pages.write(connection, [page_values(row) for row in rows])

    def page(self, job: str, fingerprint: int) -> PageRow | None:
        """One page of a job."""
        query = sa.select(pages).where(pages.c.job == job, pages.c.fingerprint == fingerprint)
        with self._transaction() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else page_of(row)

    def stored(self, wanted: Mapping[str, Sequence[int]]) -> list[tuple[PageRow, tuple[FoundLinks, ...]]]:
        """Which of these fingerprints of each job are pages; with the links of those whose bodies are not kept."""
        found: list[tuple[PageRow, tuple[FoundLinks, ...]]] = []
        with self._transaction() as connection:
            for job, fingerprints in wanted.items():
                rows = [page_of(row) for row in _those(connection, pages, job, fingerprints)]
                bare = [row.fingerprint for row in rows if row.redirect is None and not row.tells_links]
                theirs = [links_of(row) for row in _those(connection, links, job, bare)] if bare else []
                found += [(row, tuple(each for each in theirs if each.fingerprint == row.fingerprint)) for row in rows]
        return found

    def links_beside(self, job: str, fingerprints: Sequence[int]) -> list[FoundLinks]:
        """Links that were written down of those that are no pages."""
        with self._transaction() as connection:
            stored = {row["fingerprint"] for row in _those(connection, pages, job, fingerprints)}
            bare = [fingerprint for fingerprint in fingerprints if fingerprint not in stored]
            return [links_of(row) for row in _those(connection, links, job, bare)] if bare else []

    def pages_of(self, job: str, fingerprints: Sequence[int]) -> dict[int, PageRow]:
        """Those of these fingerprints that are pages of the job."""
        with self._transaction() as connection:
            return {row["fingerprint"]: page_of(row) for row in _those(connection, pages, job, fingerprints)}

    def page_by_id(self, page: int) -> PageRow | None:
        """One page by the number of its row."""
        with self._transaction() as connection:
            row = connection.execute(sa.select(pages).where(pages.c.id == page)).mappings().first()
        return None if row is None else page_of(row)

    def pages_after(
        self, job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> list[tuple[int, PageRow]]:
        """Pages written after the one with this id."""
        return [(row["id"], page_of(row)) for row in self._after(pages, job, last_id, limit, wanted)]

    def page_columns_after(
        self, names: Sequence[str], job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> Sequence[Sequence[Any]]:
        """Of the same pages the id, and some columns as they are stored: for who wants a million of them."""
        return self._columns_after(pages, names, job, last_id, limit, wanted)

    def pages(self, job: str) -> Iterator[PageRow]:
        """All pages of a job in order of arrival."""
        yield from map(page_of, self._walk(pages, job))

    def items_after(
        self, job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> list[tuple[int, ItemRow]]:
        """Items written after the one with this id; filters, but for the version, are about their pages."""
        return [(row["id"], item_of(row)) for row in self._after(items, job, last_id, limit, wanted)]

    def item_columns_after(
        self, names: Sequence[str], job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> Sequence[Sequence[Any]]:
        """Of the same items the id, and some columns as they are stored."""
        return self._columns_after(items, names, job, last_id, limit, wanted)

    def items(self, job: str, wanted: RowFilter = EVERYTHING) -> Iterator[ItemRow]:
        """All items of a job in order of arrival."""
        for some in self.item_batches(job, wanted):
            yield from some

    def item_batches(self, job: str, wanted: RowFilter = EVERYTHING) -> Iterator[list[ItemRow]]:
        """Likewise, some at a time."""
        last = 0
        while rows := self.items_after(job, last, 1000, wanted):
            last = rows[-1][0]
            yield [row for _, row in rows]

    def items_by_page(self, job: str, version: str, last: tuple[int, int] = (-(2**63), -1)) -> Iterator[ItemRow]:
        """All items of a version behind one, in order of their pages' fingerprints and of their places there."""
        c = items.c
        while True:
            behind = sa.or_(c.fingerprint > last[0], sa.and_(c.fingerprint == last[0], c.number > last[1]))
            mine = sa.select(items).where(c.job == job, c.version == version, c.fingerprint >= last[0], behind)
            with self._transaction() as connection:
                rows = connection.execute(mine.order_by(c.fingerprint, c.number).limit(1000)).mappings().all()
            yield from map(item_of, rows)
            if not rows:
                return
            last = rows[-1]["fingerprint"], rows[-1]["number"]

    def quarantine_after(
        self, job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> list[tuple[int, Quarantined]]:
        """Items that break the contract, written after the one with this id."""
        return [(row["id"], quarantined_of(row)) for row in self._after(quarantine, job, last_id, limit, wanted)]

    def quarantined(self, job: str, wanted: RowFilter = EVERYTHING) -> Iterator[Quarantined]:
        """All items of a job that break its contract."""
        yield from map(quarantined_of, self._walk(quarantine, job, wanted))

    def count_items(self, job: str, version: str = FIRST_VERSION) -> int:
        """How many items there are that keep the contract."""
        return self._count_version(items, job, version)

    def count_quarantine(self, job: str, version: str = FIRST_VERSION) -> int:
        """How many there are that break it."""
        return self._count_version(quarantine, job, version)

    def _count_version(self, table: sa.Table, job: str, version: str) -> int:
        query = sa.select(sa.func.count()).where(table.c.job == job, table.c.version == version)
        with self._transaction() as connection:
            return connection.execute(query).scalar_one()

    def letters_after(
        self, job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> list[tuple[int, DeadLetter]]:
        """Dead letters written after the one with this id."""
        return [(row["id"], letter_of(row)) for row in self._after(dead_letters, job, last_id, limit, wanted)]

    def dead_letters(self, job: str, wanted: RowFilter = EVERYTHING) -> Iterator[DeadLetter]:
        """All requests that the job gave up on."""
        yield from map(letter_of, self._walk(dead_letters, job, wanted))

    def links_after(self, job: str, last_id: int, limit: int = 1000) -> list[tuple[int, FoundLinks]]:
        """Links of pages whose bodies are not kept, written after those with this id."""
        return [(row["id"], links_of(row)) for row in self._after(links, job, last_id, limit)]

    def newest(self, job: str) -> tuple[int, int]:
        """The ids of the job's last page and of its last links; 0 when there are none."""
        with self._transaction() as connection:
            page, found = (
                connection.execute(newest_id(self._dialect, table, job)).scalar() or 0 for table in (pages, links)
            )
        return page, found

    def count_known(self, job: str) -> int:
        """How many URLs the job has a row about."""
        with self._transaction() as connection:
            return sum(
                connection.execute(sa.select(sa.func.count()).where(table.c.job == job)).scalar_one()
                for table in (pages, dead_letters)
            )

    def seen(self, job: str) -> Iterator[list[tuple[int, str]]]:
        """Fingerprint and host of everything that the job has a row about, batch by batch."""
        for table in (pages, dead_letters):
            last = 0
            while rows := self._seen_after(table, job, last):
                last = rows[-1][0]
                yield [(fingerprint, host) for _, fingerprint, host in rows]

    def known(self, job: str, fingerprints: Sequence[int]) -> set[int]:
        """Which of these the job has a row about."""
        found: set[int] = set()
        with self._transaction() as connection:
            for table in (pages, dead_letters):
                query = sa.select(table.c.fingerprint).where(table.c.job == job, table.c.fingerprint.in_(fingerprints))
                found.update(connection.execute(query).scalars())
        return found

    def remove(self, job: str, at_most: int = 2_500) -> bool:
        """Delete rows of a job, a batch of each table, so that nobody waits for long; True when none is left."""
        with self._transaction() as connection:
            tables = (pages, items, quarantine, links, outlinks, dead_letters)
            return sum(_remove(connection, table, job, at_most) for table in tables) == 0

    def count(self, job: str, *, redirects: bool = True) -> int:
        """How many pages the job has stored; people do not take redirects for pages."""
        counted = [pages.c.job == job] if redirects else [pages.c.job == job, pages.c.redirect.is_(None)]
        with self._transaction() as connection:
            return connection.execute(sa.select(sa.func.count()).where(*counted)).scalar_one()

    def _walk(self, table: sa.Table, job: str, wanted: RowFilter = EVERYTHING) -> Iterator[sa.RowMapping]:
        last = 0
        while rows := self._after(table, job, last, 1000, wanted):
            last = rows[-1]["id"]
            yield from rows

    def _after(
        self, table: sa.Table, job: str, last_id: int, limit: int, wanted: RowFilter = EVERYTHING
    ) -> Sequence[sa.RowMapping]:
        with self._transaction() as connection:
            query = self._asked_after(sa.select(table), table, job, last_id, limit, wanted)
            return connection.execute(query).mappings().all()

    def _columns_after(
        self, table: sa.Table, names: Sequence[str], job: str, last_id: int, limit: int, wanted: RowFilter
    ) -> Sequence[Sequence[Any]]:
        some: sa.Select[Any] = sa.select(table.c.id, *(table.c[name] for name in names))
        with self._transaction() as connection:
            return connection.execute(self._asked_after(some, table, job, last_id, limit, wanted)).all()

    def _asked_after(
        self, query: sa.Select[Any], table: sa.Table, job: str, last_id: int, limit: int, wanted: RowFilter
    ) -> sa.Select[Any]:
        version = wanted.version if table in VERSIONED else None
        query = after(self._dialect, query, table, job, last_id, version).limit(limit)
        return query if wanted is EVERYTHING else narrowed(query, table, wanted)

    def _seen_after(self, table: sa.Table, job: str, last_id: int) -> list[tuple[int, int, str]]:
        seen = sa.select(table.c.id, table.c.fingerprint, table.c.host)
        query = after(self._dialect, seen, table, job, last_id)
        with self._transaction() as connection:
            found = connection.execute(query.limit(10_000))
            return [(number, fingerprint, host) for number, fingerprint, host in found]

    @contextmanager
    def _transaction(self) -> Generator[Connection]:
        with translated_errors(), self._engine.begin() as connection:
            yield connection


def _those(connection: Connection, table: sa.Table, job: str, fingerprints: Sequence[int]) -> Sequence[sa.RowMapping]:
    query = sa.select(table).where(table.c.job == job, table.c.fingerprint.in_(fingerprints)).order_by(table.c.id)
    return connection.execute(query).mappings().all()


def in_turn(connection: Connection, jobs: set[str]) -> None:
    """Ids of a job become visible in their order, as in SQLite: who reads on after an id misses no row."""
    if jobs and connection.dialect.name == "postgresql":
        connection.execute(_LOCK_JOBS, {"jobs": list(jobs)})


def _remove(connection: Connection, table: sa.Table, job: str, at_most: int) -> int:
    some = some_ids(connection.dialect.name, table, job, at_most)
    return connection.execute(sa.delete(table).where(table.c.id.in_(some))).rowcount
