"""The pages of a run in the order of their fingerprints, so that two runs can be merged; and what it says of others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.store.items import Quarantined, quarantined_of
from shoal.store.tables import dead_letters, pages, quarantine
from shoal.store.trouble import translated_errors

FIRST = -(2**63)
"""No fingerprint is smaller."""


class Seen(NamedTuple):
    """A page of a run, as far as it is compared."""

    fingerprint: int
    url: str
    host: str
    status: int
    redirect: str | None
    fetched_ms: int
    found_on: int | None
    digest: int | None
    archive_key: str | None = None
    archive_offset: int | None = None
    engine: str = "http"
    depth: int = 0
    duplicate_of: int | None = None

    def has_body_of(self, other: Seen) -> bool:
        """Are both the very same stored answer, since one was carried over? Of rendered pages it is not all."""
        if self.archive_key is None or "browser" in (self.engine, other.engine):
            return False
        return (self.archive_key, self.archive_offset) == (other.archive_key, other.archive_offset)


_COLUMNS = [pages.c[name] for name in Seen._fields]


class RunPages:
    """Reads the pages of runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def after(self, job: str, fingerprint: int, limit: int) -> list[Seen]:
        """Pages with larger fingerprints than this, redirects among them."""
        mine = sa.select(*_COLUMNS).where(pages.c.job == job, pages.c.fingerprint > fingerprint)
        return [Seen(*row) for row in self._rows(mine.order_by(pages.c.fingerprint).limit(limit))]

    def seen(self, job: str, fingerprints: Collection[int]) -> dict[int, Seen]:
        """Those of these fingerprints that are pages of the run."""
        mine = sa.select(*_COLUMNS).where(pages.c.job == job, pages.c.fingerprint.in_(fingerprints))
        return {row[0]: Seen(*row) for row in self._rows(mine)} if fingerprints else {}

    def unread_by_spider(self, job: str, fingerprints: Collection[int]) -> set[int]:
        """Those of these pages on which the run's spider failed."""
        failed = pages.c.notes.contains('"spider_failed"', autoescape=True)
        mine = sa.select(pages.c.fingerprint).where(pages.c.job == job, pages.c.fingerprint.in_(fingerprints), failed)
        return {row[0] for row in self._rows(mine)} if fingerprints else set()

    def given_up(self, job: str, fingerprints: Collection[int]) -> dict[int, str]:
        """Those that the run gave up on, each with the reason."""
        c = dead_letters.c
        mine = sa.select(c.fingerprint, c.reason).where(c.job == job, c.fingerprint.in_(fingerprints))
        return dict(self._rows(mine)) if fingerprints else {}

    def quarantined(self, job: str, version: str, fingerprints: Collection[int]) -> list[Quarantined]:
        """Items of these pages that break the contract."""
        c = quarantine.c
        mine = sa.select(quarantine).where(c.job == job, c.version == version, c.fingerprint.in_(fingerprints))
        if not fingerprints:
            return []
        with translated_errors(), self._engine.connect() as connection:
            return [quarantined_of(row) for row in connection.execute(mine).mappings()]

    def _rows(self, query: Any) -> Sequence[Any]:
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).all()
