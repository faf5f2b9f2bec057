"""Items as rows. What a page has of them is what it gave when it was last read: more of before does not stay.

Whoever reads on after an id must miss none, so a row that is there is replaced and keeps its id, and ids are never used
again. Items that break their job's contract are in quarantine under the same numbers: each is in one of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from shoal.core.frozen import frozen
from shoal.store.bulk import Bulk
from shoal.store.tables import FIRST_VERSION, items, quarantine

KEY = ("job", "version", "fingerprint", "number")


@frozen
class ItemRow:
    """One extracted record of a page."""

    job: str
    fingerprint: int
    number: int
    url: str
    data: Mapping[str, Any]
    version: str = FIRST_VERSION
    """Of the extractor."""


@frozen
class Quarantined:
    """An item that breaks its job's contract, and why."""

    item: ItemRow
    reasons: tuple[str, ...]


@frozen
class PageKey:
    """A page as items know it."""

    job: str
    fingerprint: int
    version: str = FIRST_VERSION


def rows_of(
    job: str,
    fingerprint: int,
    url: str,
    found: Sequence[Mapping[str, Any]],
    flaws: Iterable[tuple[int, tuple[str, ...]]] = (),
    version: str = FIRST_VERSION,
) -> tuple[tuple[ItemRow, ...], tuple[Quarantined, ...]]:
    """(items of a page, those that break the contract): numbers are places on the page, over both."""
    rows = [ItemRow(job, fingerprint, place, url, item, version) for place, item in enumerate(found)]
    broken = dict(flaws)
    kept = tuple(row for row in rows if row.number not in broken)
    return kept, tuple(Quarantined(rows[place], tuple(reasons)) for place, reasons in broken.items())


class ItemWriter:
    """Writes items of whole pages, within a transaction of the caller's."""

    def __init__(self, dialect: str) -> None:
        self._put_items = Bulk(dialect, items, KEY, long="data")
        self._put_quarantined = Bulk(dialect, quarantine, KEY, long="data")
        self._cut_items, self._cut_quarantine = _cut(dialect, items), _cut(dialect, quarantine)
        self._listed: Callable[[Sequence[int]], object] = list if dialect == "postgresql" else orjson.dumps

    def add(self, connection: Connection, rows: Sequence[ItemRow], refused: Sequence[Quarantined] = ()) -> None:
        """Rows that are there are replaced."""
        if rows:
            self._put_items.write(connection, [item_values(row) for row in rows])
        if refused:
            self._put_quarantined.write(connection, [_quarantined_values(row) for row in refused])

    def write(
        self,
        connection: Connection,
        read: Iterable[PageKey],
        rows: Sequence[ItemRow],
        refused: Sequence[Quarantined] = (),
    ) -> None:
        """Likewise, and of the pages that were read no other items stay."""
        self.add(connection, rows, refused)
        counts: dict[PageKey, int] = dict.fromkeys(read, 0)
        broken: dict[PageKey, list[int]] = defaultdict(list)
        for each in refused:
            broken[_page_of(each.item)].append(each.item.number)
        for page in map(_page_of, (*rows, *(each.item for each in refused))):
            if page in counts:
                counts[page] += 1
        self._remove_surplus(connection, counts, broken)

    def _remove_surplus(
        self, connection: Connection, counts: Mapping[PageKey, int], broken: Mapping[PageKey, Sequence[int]]
    ) -> None:
        """Numbers are places on the page, from 0 on: those that it has not, and those that are in the other table."""
        alike: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        sound: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        for page, count in counts.items():
            alike[page.job, page.version, count].append(page.fingerprint)
            if page not in broken:
                sound[page.job, page.version, 0].append(page.fingerprint)
                continue
            moved, stayed = items.c.number.in_(broken[page]), quarantine.c.number.not_in(broken[page])
            connection.execute(sa.delete(items).where(*_of_page(items, page), moved))
            connection.execute(sa.delete(quarantine).where(*_of_page(quarantine, page), stayed))
        for statement, groups in ((self._cut_items, alike), (self._cut_quarantine, sound)):
            for (job, version, count), fingerprints in groups.items():
                some = {"job": job, "version": version, "count": count, "pages": self._listed(fingerprints)}
                connection.execute(statement, some)


def _cut(dialect: str, table: sa.Table) -> sa.TextClause:
    """Those of some pages from this number on; written out, as to put it together would take longer than to do it."""
    chosen = "= ANY(:pages)" if dialect == "postgresql" else "IN (SELECT value FROM json_each(:pages))"
    known = "job = :job AND version = :version"
    return sa.text(f"DELETE FROM {table.name} WHERE {known} AND fingerprint {chosen} AND number >= :count")


def _of_page(table: sa.Table, page: PageKey) -> tuple[sa.ColumnElement[bool], ...]:
    c = table.c
    return c.job == page.job, c.version == page.version, c.fingerprint == page.fingerprint


def _page_of(row: ItemRow) -> PageKey:
    return PageKey(row.job, row.fingerprint, row.version)


def item_values(row: ItemRow) -> dict[str, object]:
    """As columns."""
    return {
        "job": row.job,
        "fingerprint": row.fingerprint,
        "number": row.number,
        "url": row.url,
        "data": orjson.dumps(row.data).decode(),
        "version": row.version,
    }


def _quarantined_values(row: Quarantined) -> dict[str, object]:
    return {**item_values(row.item), "reasons": orjson.dumps(list(row.reasons)).decode()}


def item_of(row: sa.RowMapping) -> ItemRow:
    """From columns."""
    data = orjson.loads(row["data"])
    return ItemRow(row["job"], row["fingerprint"], row["number"], row["url"], data, row["version"])


def quarantined_of(row: sa.RowMapping) -> Quarantined:
    """Likewise."""
    return Quarantined(item_of(row), tuple(orjson.loads(row["reasons"])))
