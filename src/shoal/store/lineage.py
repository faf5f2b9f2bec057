"""Where an item comes from: when its page was fetched, by which try, where its bytes lie, which extractor took it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shoal.core.frozen import frozen
from shoal.store.export import Record, iso, item_record
from shoal.store.items import ItemRow
from shoal.store.page_rows import ArchiveRef, PageRow
from shoal.store.pages import PageStore

LINEAGE_COLUMNS = (
    *("_fetched_at", "_attempt", "_archive_key", "_archive_offset", "_archive_length"),
    "_version",
)
"""In exports, beside the item's `url`; with an underscore, to be told from its fields."""


@frozen
class Lineage:
    """Of one item."""

    version: str
    fetched_ms: int | None = None
    """None when its page is not there any more."""
    attempt: int | None = None
    """Counted from 0."""
    archive: ArchiveRef | None = None
    """The record that it was read from; None when it was not kept."""

    @classmethod
    def of(cls, item: ItemRow, page: PageRow | None) -> Lineage:
        if page is None:
            return cls(item.version)
        return cls(item.version, page.fetched_ms, page.attempt, source_of(page))

    @property
    def columns(self) -> dict[str, Any]:
        """As an export has it."""
        at = self.archive
        values = (
            None if self.fetched_ms is None else iso(self.fetched_ms),
            self.attempt,
            *((at.key, at.offset, at.length) if at else (None, None, None)),
            self.version,
        )
        return dict(zip(LINEAGE_COLUMNS, values, strict=True))


def source_of(page: PageRow) -> ArchiveRef | None:
    """What items are read from: the document of a rendered page, the response of others."""
    document = page.capture("document") if page.engine == "browser" else None
    return document.archive if document else page.archive


def lineages(store: PageStore, job: str, rows: Sequence[ItemRow]) -> Iterator[Lineage]:
    """Of each of these items; their pages are looked up together."""
    found = store.pages_of(job, list({row.fingerprint for row in rows})) if rows else {}
    return (Lineage.of(row, found.get(row.fingerprint)) for row in rows)


def records(store: PageStore, job: str, rows: Sequence[ItemRow], *, lineage: bool) -> Iterator[Record]:
    """Items for an export, with where they come from or without."""
    if not lineage:
        return map(item_record, rows)
    return ({**item_record(row), **each.columns} for row, each in zip(rows, lineages(store, job, rows), strict=True))
