"""What nobody points to any more: rows of jobs that there are not, and which folders and segments rows still need."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.store.extractions import remove_extractions
from shoal.store.in_order import some_ids
from shoal.store.page_rows import segments_of
from shoal.store.tables import (
    borrowed,
    dead_letters,
    extractions,
    idempotency,
    items,
    jobs,
    links,
    outlinks,
    pages,
    quarantine,
    submissions,
)
from shoal.store.trouble import translated_errors

ASK_AT_ONCE = 500
_OF_JOBS = (extractions, pages, items, quarantine, links, outlinks, dead_letters, submissions, borrowed)


class Orphans:
    """Questions to the database about what has lost its owner."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Those of the jobs that the database does not have; one that is being removed is known."""
        known: set[str] = set()
        with translated_errors(), self._engine.connect() as connection:
            for start in range(0, len(names), ASK_AT_ONCE):
                query = sa.select(jobs.c.id).where(jobs.c.id.in_(names[start : start + ASK_AT_ONCE]))
                known.update(connection.execute(query).scalars())
        return [name for name in names if name not in known]

    def segments_in_use(self, job: str) -> set[str]:
        """Segments that a row of the job points to; looks at all its pages."""
        with translated_errors(), self._engine.connect() as connection:
            return segments_of(connection, pages.c.job == job)

    def jobs_with_rows(self, after: str, at_most: int) -> list[str]:
        """Names of jobs that rows bear, from behind this one on; each is found by one look into an index."""
        found: list[str] = []
        with translated_errors(), self._engine.connect() as connection:
            while len(found) < at_most:
                firsts = [
                    connection.execute(sa.select(sa.func.min(table.c.job)).where(table.c.job > after)).scalar()
                    for table in _OF_JOBS
                ]
                names = [name for name in firsts if name is not None]
                if not names:
                    break
                after = min(names)
                found.append(after)
        return found

    def remove_rows(self, job: str, at_most: int) -> int:
        """Delete rows of a job that there is not, at most so many of each table; returns how many went."""
        gone = 0
        with translated_errors(), self._engine.begin() as connection:
            if connection.execute(sa.select(jobs.c.id).where(jobs.c.id == job)).first():
                return 0
            gone += remove_extractions(connection, job)
            for table in _OF_JOBS:
                some = some_ids(connection.dialect.name, table, job, at_most)
                gone += connection.execute(sa.delete(table).where(table.c.id.in_(some))).rowcount
            connection.execute(sa.delete(idempotency).where(idempotency.c.job == job))
        return gone
