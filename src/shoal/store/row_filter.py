"""Which rows somebody wants to read, in terms of the tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from shoal.core.frozen import frozen
from shoal.store.tables import FIRST_VERSION, items, pages, quarantine


@frozen
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
VERSIONED = (items, quarantine)
"""What has a version."""


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


def narrowed(query: sa.Select[Any], table: sa.Table, wanted: RowFilter) -> sa.Select[Any]:
    """Only the rows that are wanted; filters of items are about their pages."""
    if table not in VERSIONED:
        return query.where(*conditions(table, wanted))
    about_pages = conditions(pages, wanted)
    if not about_pages:
        return query
    # Of each item by itself: asked whether there is one, PostgreSQL would look at all pages first, of all jobs.
    page = sa.select(sa.true()).where(
        pages.c.job == table.c.job, pages.c.fingerprint == table.c.fingerprint, *about_pages
    )
    return query.where(page.scalar_subquery())
