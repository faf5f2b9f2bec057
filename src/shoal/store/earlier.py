"""Earlier pages of the same URLs: of the job's previous run, or of any recent job that fetched in the same manner.

The second kind is looked for job by job, through the index by which every page is found: an index over the
fingerprints of all jobs would make each page that is ever written dearer, for the sake of the few jobs that ask.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.frozen import frozen
from shoal.store.page_rows import PageRow, page_of
from shoal.store.tables import jobs, outlinks, pages
from shoal.store.trouble import translated_errors

MOST_JOBS = 100
"""Of the same manner, the newest, that are looked through."""


@frozen
class StoredEarlier:
    """A page as an earlier job has it."""

    row: PageRow
    outlinks: bytes | None
    """Where it leads to; None when that was not written down."""


class EarlierPages:
    """Looks pages up in jobs that have not been given up."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of_job(self, job: str, fingerprints: Sequence[int]) -> list[StoredEarlier]:
        """Those of these URLs that are pages of a job."""
        return self._find([job], fingerprints)

    def of_jobs(self, names: Sequence[str], fingerprints: Sequence[int], since_ms: int) -> list[StoredEarlier]:
        """The newest of each URL in these jobs, if its host was asked at this time or later."""
        checked = sa.func.coalesce(pages.c.checked_ms, pages.c.fetched_ms)
        newest: dict[int, StoredEarlier] = {}
        for found in self._find(names, fingerprints, checked >= since_ms):
            before = newest.get(found.row.fingerprint)
            if before is None or found.row.known.checked_ms > before.row.known.checked_ms:
                newest[found.row.fingerprint] = found
        return list(newest.values())

    def in_manner(self, tenant: str, manner: str, since_ms: int, but: str) -> list[str]:
        """The newest jobs of a tenant that fetch in this manner and were not over at this time; not this one."""
        lately = sa.or_(jobs.c.ended_ms.is_(None), jobs.c.ended_ms >= since_ms)
        query = sa.select(jobs.c.id).where(
            jobs.c.tenant == tenant, jobs.c.manner == manner, jobs.c.deleted_ms.is_(None), jobs.c.id != but, lately
        )
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query.order_by(jobs.c.created_ms.desc()).limit(MOST_JOBS)).scalars())

    def _find(
        self, names: Sequence[str], fingerprints: Sequence[int], *conditions: sa.ColumnElement[bool]
    ) -> list[StoredEarlier]:
        if not names or not fingerprints:
            return []
        theirs = sa.and_(outlinks.c.job == pages.c.job, outlinks.c.fingerprint == pages.c.fingerprint)
        query = (
            sa.select(pages, outlinks.c.found)
            .join(jobs, jobs.c.id == pages.c.job)
            .outerjoin(outlinks, theirs)
            .where(
                pages.c.job.in_(names), pages.c.fingerprint.in_(fingerprints), jobs.c.deleted_ms.is_(None), *conditions
            )
        )
        with translated_errors(), self._engine.connect() as connection:
            rows = connection.execute(query).mappings().all()
        return [StoredEarlier(page_of(row), row["found"]) for row in rows]
