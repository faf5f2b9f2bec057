"""Where rows come from: a job's items, pages or errors, in order of arrival, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from shoal.core.frozen import frozen
from shoal.core.spec import EXTRACTION, JobSpec
from shoal.output.columns import Scalar, Shape, Type
from shoal.output.declared import declared_types
from shoal.store.export import (
    DEAD_COLUMNS,
    PAGE_COLUMNS,
    QUARANTINE_COLUMNS,
    STORED_OF_PAGE,
    Record,
    dead_record,
    item_columns,
    page_record,
    quarantine_record,
    stored_item_record,
)
from shoal.store.lineage import LINEAGE_COLUMNS, records
from shoal.store.pages import PageStore
from shoal.store.row_filter import EVERYTHING, RowFilter

What = Literal["items", "pages", "errors", "quarantine", "changes"]
FEWEST, MOST = 100, 1_000
"""Rows that are read at a time."""
SAMPLE = 50
"""Rows of a batch whose length is looked at."""
BATCH_CHARS = 2_000_000
"""About as much text is read at a time, however long the rows are."""
_PAGE_TYPES: dict[str, Type] = {
    "url": Scalar.TEXT,
    "status": Scalar.INTEGER,
    "depth": Scalar.INTEGER,
    "content_type": Scalar.TEXT,
    "size": Scalar.INTEGER,
    "elapsed_ms": Scalar.NUMBER,
    "fetched_at": Scalar.TIME,
    "redirect": Scalar.TEXT,
    "canonical": Scalar.TEXT,
    "fingerprint": Scalar.TEXT,
    "duplicate_of": Scalar.TEXT,
}
_LINEAGE_TYPES: dict[str, Type] = {
    "_fetched_at": Scalar.TIME,
    "_attempt": Scalar.INTEGER,
    "_archive_offset": Scalar.INTEGER,
    "_archive_length": Scalar.INTEGER,
}
_DEAD_TYPES: dict[str, Type] = {"attempts": Scalar.INTEGER, "depth": Scalar.INTEGER, "at": Scalar.TIME}

Batch = list[tuple[int, Record]]
"""(id of the row, the record)"""


@frozen
class Source:
    """Rows of one kind of one job."""

    what: What
    names: tuple[str, ...]
    """Columns that there are whatever the rows have, in their order."""
    types: Mapping[str, Type]
    """Of columns whose types are declared."""
    closed: bool
    """Can there be no other columns?"""
    read: Callable[[int, int], Batch] = field(repr=False)
    """Rows after an id, at most so many."""

    def batches(self, after: int = 0, until: int | None = None) -> Iterator[Batch]:
        """Rows after one id and up to another."""
        limit = FEWEST
        while batch := self.read(after, limit):
            full = len(batch) == limit
            if until is not None and batch[-1][0] > until:
                batch, full = [row for row in batch if row[0] <= until], False
            if batch:
                after, limit = batch[-1][0], _limit_for(batch, limit)
                yield batch
            if not full:
                return

    def shape(self) -> Shape:
        """What is known of the columns before any row is looked at."""
        return Shape(self.names, self.types)


def source_of(
    pages: PageStore,
    job: str,
    spec: JobSpec,
    what: What | None = None,
    wanted: RowFilter = EVERYTHING,
    *,
    lineage: bool = False,
    numbered: bool = False,
) -> Source:
    """A job's items (or pages, when it takes none), its pages, its errors or its quarantine.

    Items can have where they come from, and their number on the page, which together with the URL makes a key.
    """
    chosen: What = what or ("items" if spec.takes_items else "pages")

    def items(after: int, limit: int) -> Batch:
        if not (lineage or numbered):
            rows = pages.item_columns_after(("url", "data"), job, after, limit, wanted)
            return [(number, stored_item_record(url, data)) for number, url, data in rows]
        found = pages.items_after(job, after, limit, wanted)
        told = records(pages, job, [item for _, item in found], lineage=lineage)
        if numbered:
            told = (
                {"url": item.url, "number": item.number, **each} for (_, item), each in zip(found, told, strict=True)
            )
        return [(number, record) for (number, _), record in zip(found, told, strict=True)]

    def pages_(after: int, limit: int) -> Batch:
        rows = pages.page_columns_after(STORED_OF_PAGE, job, after, limit, wanted)
        return [(number, page_record(values)) for number, *values in rows]

    def errors(after: int, limit: int) -> Batch:
        return [(number, dead_record(letter)) for number, letter in pages.letters_after(job, after, limit, wanted)]

    def quarantine(after: int, limit: int) -> Batch:
        found = pages.quarantine_after(job, after, limit, wanted)
        return [(number, quarantine_record(row)) for number, row in found]

    if chosen == "items":
        names = (*item_columns(spec), *(("number",) if numbered else ()), *(LINEAGE_COLUMNS if lineage else ()))
        types = {**declared_types(spec), **(_LINEAGE_TYPES if lineage else {})}
        return Source(chosen, names, types, _are_closed(spec), items)
    if chosen == "pages":
        return Source(chosen, PAGE_COLUMNS, _PAGE_TYPES, True, pages_)
    if chosen == "quarantine":
        return Source(chosen, QUARANTINE_COLUMNS, {}, True, quarantine)
    return Source(chosen, DEAD_COLUMNS, _DEAD_TYPES, True, errors)


def _are_closed(spec: JobSpec) -> bool:
    """Fields and formats are all that there is; what else takes items names their parts as it likes."""
    return all(name in ("fields", "each", "formats") or not getattr(spec, name) for name in EXTRACTION)


def _limit_for(batch: Batch, limit: int) -> int:
    """So many of rows like these are about a batch's text."""
    some = batch[-SAMPLE:]
    chars = sum(_chars(value) for _, record in some for value in record.values())
    return max(FEWEST, min(MOST, limit * 4, BATCH_CHARS * len(some) // max(1, chars)))


def _chars(value: Any) -> int:
    return len(value) if isinstance(value, str) else 64 if isinstance(value, list | dict) else 8
