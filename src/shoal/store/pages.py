"""Pages, items, links and dead letters: written in batches, one transaction each; read in order of arrival."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.ledger import Ask
from shoal.core.likeness import Likeness
from shoal.store.items import ItemRow as ItemRow
from shoal.store.items import ItemWriter, PageKey, Quarantined, item_of, quarantined_of
from shoal.store.ledger import Ledger
from shoal.store.tables import FIRST_VERSION, dead_letters, items, links, pages, quarantine
from shoal.store.trouble import translated_errors
from shoal.store.upsert import upsert


@dataclass(frozen=True, slots=True)
class ArchiveRef:
    """Where a raw response lies."""

    key: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Capture:
    """What was kept of a rendered page besides its response."""

    kind: str
    """`document`, `screenshot` or `pdf`."""
    media_type: str
    size: int
    archive: ArchiveRef


@dataclass(frozen=True, slots=True)
class PageRow:
    """What is known about one fetched URL."""

    job: str
    fingerprint: int
    url: str
    host: str
    status: int
    depth: int
    attempt: int
    content_type: str
    charset: str
    size: int
    elapsed_ms: float
    fetched_ms: int
    redirect: str | None = None
    canonical: str | None = None
    archive: ArchiveRef | None = None
    request_id: str = ""
    """Of the submission."""
    hops: int = 0
    """Redirects that led here."""
    received: int = 0
    """Bytes of the body on the wire."""
    engine: str = "http"
    """What fetched it: http or browser."""
    captures: tuple[Capture, ...] = ()
    notes: Mapping[str, Any] | None = None
    """What was seen while it was rendered."""
    callback: str = ""
    """Of the job's spider, which got the page."""
    meta: str | None = None
    """What was sent along to it, as JSON."""

    content_hash: int | None = None
    """Of all words of its content; None when nobody looks for duplicates, or there are too few."""
    simhash: int | None = None
    duplicate_of: int | None = None
    """Fingerprint of an earlier page of the job that says the same."""

    @property
    def likeness(self) -> Likeness | None:
        """By which it is known again."""
        if self.content_hash is None or self.simhash is None:
            return None
        return Likeness(self.content_hash, self.simhash)

    @property
    def tells_links(self) -> bool:
        """Can its links be read from its body again? Not when it is not kept, nor when scripts have written them."""
        return self.archive is not None and self.engine == "http"

    def capture(self, kind: str) -> Capture | None:
        return next((each for each in self.captures if each.kind == kind), None)


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """Links of a page whose body is not kept."""

    job: str
    depth: int
    """Of the links, not of the page."""
    urls: tuple[str, ...]
    """Each a line of `core.tail`: what a spider sends along stands behind it."""
    fingerprint: int | None = None
    """Of the page."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request given up on, and why."""

    job: str
    fingerprint: int
    url: str
    host: str
    outcome: str
    reason: str
    detail: str
    depth: int
    attempts: int
    at_ms: int
    callback: str = ""
    """Of the job's spider, which would have got the page."""
    meta: str | None = None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to read; None is any."""

    status: int | None = None
    host: str | None = None
    outcome: str | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    version: str = FIRST_VERSION
    """Of items: there is always one version to read."""


EVERYTHING = RowFilter()
_VERSIONED = (items, quarantine)


class PageStore:
    """Rows about pages, of all jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        dialect = engine.dialect.name
        self._put_page = upsert(dialect, pages, ("job", "fingerprint"))
        self._put_dead = upsert(dialect, dead_letters, ("job", "fingerprint"))
        self._items = ItemWriter(dialect)
        self._ledger = Ledger(engine)

    def write(
        self,
        page_rows: Sequence[PageRow],
        item_rows: Sequence[ItemRow],
        letters: Sequence[DeadLetter],
        asks: Sequence[Ask] = (),
        found: Sequence[FoundLinks] = (),
        quarantined: Sequence[Quarantined] = (),
    ) -> None:
        """Store a batch, all or nothing; rows that are there are replaced, but what was asked and found is added.

        Of a page that is among them, only these items stay.
        """
        with self._transaction() as connection:
            if self._engine.dialect.name == "postgresql":
                in_turn(connection, {row.job for row in (*page_rows, *item_rows, *letters, *found)})
            if page_rows:
                connection.execute(self._put_page, [_page_values(row) for row in page_rows])
            if page_rows or item_rows or quarantined:
                read = (PageKey(row.job, row.fingerprint) for row in page_rows)
                self._items.write(connection, read, item_rows, quarantined)
            if letters:
                connection.execute(self._put_dead, [_dead_values(letter) for letter in letters])
            if found:
                connection.execute(sa.insert(links), [_links_values(row) for row in found])
            if asks:
                self._ledger.write(connection, asks)

    def page(self, job: str, fingerprint: int) -> PageRow | None:
        """One page of a job."""
        query = sa.select(pages).where(pages.c.job == job, pages.c.fingerprint == fingerprint)
        with self._transaction() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _page_of(row)

    def stored(self, wanted: Mapping[str, Sequence[int]]) -> list[tuple[PageRow, tuple[FoundLinks, ...]]]:
        """Which of these fingerprints of each job are pages; with the links of those whose bodies are not kept."""
        found: list[tuple[PageRow, tuple[FoundLinks, ...]]] = []
        with self._transaction() as connection:
            for job, fingerprints in wanted.items():
                rows = [_page_of(row) for row in _those(connection, pages, job, fingerprints)]
                bare = [row.fingerprint for row in rows if row.redirect is None and not row.tells_links]
                theirs = [_links_of(row) for row in _those(connection, links, job, bare)] if bare else []
                found += [(row, tuple(each for each in theirs if each.fingerprint == row.fingerprint)) for row in rows]
        return found

    def pages_of(self, job: str, fingerprints: Sequence[int]) -> dict[int, PageRow]:
        """Those of these fingerprints that are pages of the job."""
        with self._transaction() as connection:
            return {row["fingerprint"]: _page_of(row) for row in _those(connection, pages, job, fingerprints)}

    def page_by_id(self, page: int) -> PageRow | None:
        """One page by the number of its row."""
        with self._transaction() as connection:
            row = connection.execute(sa.select(pages).where(pages.c.id == page)).mappings().first()
        return None if row is None else _page_of(row)

    def pages_after(
        self, job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> list[tuple[int, PageRow]]:
        """Pages written after the one with this id."""
        return [(row["id"], _page_of(row)) for row in self._after(pages, job, last_id, limit, wanted)]

    def pages(self, job: str) -> Iterator[PageRow]:
        """All pages of a job in order of arrival."""
        yield from map(_page_of, self._walk(pages, job))

    def items_after(
        self, job: str, last_id: int, limit: int = 1000, wanted: RowFilter = EVERYTHING
    ) -> list[tuple[int, ItemRow]]:
        """Items written after the one with this id; filters, but for the version, are about their pages."""
        return [(row["id"], item_of(row)) for row in self._after(items, job, last_id, limit, wanted)]

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

    def items_by_page(self, job: str, version: str) -> Iterator[ItemRow]:
        """All items of a version, in order of their pages' fingerprints and of their places there."""
        c, last = items.c, (-(2**63), -1)
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
        return [(row["id"], _letter_of(row)) for row in self._after(dead_letters, job, last_id, limit, wanted)]

    def dead_letters(self, job: str, wanted: RowFilter = EVERYTHING) -> Iterator[DeadLetter]:
        """All requests that the job gave up on."""
        yield from map(_letter_of, self._walk(dead_letters, job, wanted))

    def links_after(self, job: str, last_id: int, limit: int = 1000) -> list[tuple[int, FoundLinks]]:
        """Links of pages whose bodies are not kept, written after those with this id."""
        return [(row["id"], _links_of(row)) for row in self._after(links, job, last_id, limit)]

    def newest(self, job: str) -> tuple[int, int]:
        """The ids of the job's last page and of its last links; 0 when there are none."""
        with self._transaction() as connection:
            page, found = (
                connection.execute(sa.select(sa.func.max(table.c.id)).where(table.c.job == job)).scalar() or 0
                for table in (pages, links)
            )
        return page, found

    def count_known(self, job: str) -> int:
        """How many URLs the job has a row about."""
        with self._transaction() as connection:
            return sum(
                connection.execute(sa.select(sa.func.count()).where(table.c.job == job)).scalar_one()
                for table in (pages, dead_letters)
            )

    def fingerprints(self, job: str) -> Iterator[list[int]]:
        """Of everything that the job has a row about, batch by batch."""
        for table in (pages, dead_letters):
            last = 0
            while rows := self._fingerprints_after(table, job, last):
                last = rows[-1][0]
                yield [fingerprint for _, fingerprint in rows]

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
            tables = (pages, items, quarantine, links, dead_letters)
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
        query = sa.select(table).where(table.c.job == job, table.c.id > last_id).order_by(table.c.id).limit(limit)
        if table in _VERSIONED:
            query = query.where(table.c.version == wanted.version)
        if wanted is not EVERYTHING:
            query = _narrowed(query, table, wanted)
        with self._transaction() as connection:
            return connection.execute(query).mappings().all()

    def _fingerprints_after(self, table: sa.Table, job: str, last_id: int) -> list[tuple[int, int]]:
        query = sa.select(table.c.id, table.c.fingerprint).where(table.c.job == job, table.c.id > last_id)
        with self._transaction() as connection:
            found = connection.execute(query.order_by(table.c.id).limit(10_000))
            return [(number, fingerprint) for number, fingerprint in found]

    @contextmanager
    def _transaction(self) -> Generator[Connection]:
        with translated_errors(), self._engine.begin() as connection:
            yield connection


def _those(connection: Connection, table: sa.Table, job: str, fingerprints: Sequence[int]) -> Sequence[sa.RowMapping]:
    query = sa.select(table).where(table.c.job == job, table.c.fingerprint.in_(fingerprints)).order_by(table.c.id)
    return connection.execute(query).mappings().all()


def in_turn(connection: Connection, jobs: set[str]) -> None:
    """Ids of a job become visible in their order, as in SQLite: who reads on after an id misses no row."""
    for job in sorted(jobs):
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(job))))


def conditions(table: sa.Table, wanted: RowFilter) -> list[sa.ColumnElement[bool]]:
    """A filter in terms of a table's columns; one about a column that it has not is no condition."""
    at = table.c.get("fetched_ms", table.c.get("at_ms"))
    found: list[sa.ColumnElement[bool]] = []
    for name in ("status", "host", "outcome", "reason"):
        value = getattr(wanted, name)
        if value is not None and name in table.c:
            found.append(table.c[name] == value)
    if at is not None and wanted.since_ms is not None:
        found.append(at >= wanted.since_ms)
    if at is not None and wanted.until_ms is not None:
        found.append(at < wanted.until_ms)
    return found


def _narrowed(query: sa.Select[Any], table: sa.Table, wanted: RowFilter) -> sa.Select[Any]:
    if table not in _VERSIONED:
        return query.where(*conditions(table, wanted))
    about_pages = conditions(pages, wanted)
    page = sa.select(pages.c.id).where(
        pages.c.job == table.c.job, pages.c.fingerprint == table.c.fingerprint, *about_pages
    )
    return query.where(page.exists()) if about_pages else query


def _remove(connection: Connection, table: sa.Table, job: str, at_most: int) -> int:
    first = sa.select(table.c.id).where(table.c.job == job).order_by(table.c.id).limit(at_most)
    return connection.execute(sa.delete(table).where(table.c.id.in_(first))).rowcount


def _page_values(row: PageRow) -> dict[str, object]:
    archive = row.archive
    return {
        "job": row.job,
        "fingerprint": row.fingerprint,
        "url": row.url,
        "host": row.host,
        "status": row.status,
        "depth": row.depth,
        "attempt": row.attempt,
        "content_type": row.content_type,
        "charset": row.charset,
        "size": row.size,
        "elapsed_ms": row.elapsed_ms,
        "fetched_ms": row.fetched_ms,
        "redirect": row.redirect,
        "canonical": row.canonical,
        "archive_key": archive.key if archive else None,
        "archive_offset": archive.offset if archive else None,
        "archive_length": archive.length if archive else None,
        "request_id": row.request_id,
        "hops": row.hops,
        "received": row.received,
        "engine": row.engine,
        "captures": _json([_capture_values(each) for each in row.captures]) if row.captures else None,
        "notes": _json(row.notes) if row.notes else None,
        "content_hash": row.content_hash,
        "simhash": row.simhash,
        "duplicate_of": row.duplicate_of,
        "callback": row.callback,
        "meta": row.meta,
    }


def _page_of(row: sa.RowMapping) -> PageRow:
    plain = {name: row[name] for name in PageRow.__slots__ if name not in ("archive", "captures", "notes")}
    key = row["archive_key"]
    archive = None if key is None else ArchiveRef(key, row["archive_offset"], row["archive_length"])
    captures = tuple(map(_capture_of, orjson.loads(row["captures"]))) if row["captures"] else ()
    notes = orjson.loads(row["notes"]) if row["notes"] else None
    return PageRow(**plain, archive=archive, captures=captures, notes=notes)


def _capture_values(capture: Capture) -> list[object]:
    at = capture.archive
    return [capture.kind, capture.media_type, capture.size, at.key, at.offset, at.length]


def _capture_of(values: list[Any]) -> Capture:
    kind, media_type, size, *place = values
    return Capture(kind, media_type, size, ArchiveRef(*place))


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _links_values(row: FoundLinks) -> dict[str, object]:
    urls = zlib.compress("\n".join(row.urls).encode(), 1)
    return {"job": row.job, "depth": row.depth, "urls": urls, "fingerprint": row.fingerprint}


def _links_of(row: sa.RowMapping) -> FoundLinks:
    urls = tuple(zlib.decompress(row["urls"]).decode().split("\n"))
    return FoundLinks(row["job"], row["depth"], urls, row["fingerprint"])


def _letter_of(row: sa.RowMapping) -> DeadLetter:
    return DeadLetter(**{name: row[name] for name in DeadLetter.__slots__})


def _dead_values(letter: DeadLetter) -> dict[str, object]:
    return {name: getattr(letter, name) for name in DeadLetter.__slots__}
