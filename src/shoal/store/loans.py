"""Who lies in whose archive: a lender's folder stays for as long as a job borrows from it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.store.page_rows import segments_of
from shoal.store.tables import borrowed, pages
from shoal.store.trouble import translated_errors


class Loans:
    """Questions about borrowed bodies."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def lends(self, job: str) -> bool:
        """Do pages of others lie in this job's archive?"""
        query = sa.select(borrowed.c.id).where(borrowed.c.lender == job).limit(1)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).first() is not None

    def lenders_of(self, job: str) -> list[str]:
        """Jobs in whose archive pages of this one lie."""
        query = sa.select(borrowed.c.lender).where(borrowed.c.job == job).order_by(borrowed.c.lender)
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def segments_lent(self, job: str) -> set[str]:
        """Segments of this job that pages of others lie in; looks at all pages of these."""
        borrowers = sa.select(borrowed.c.job).where(borrowed.c.lender == job)
        with translated_errors(), self._engine.connect() as connection:
            found = segments_of(connection, pages.c.job.in_(borrowers))
        return {key for key in found if key.startswith(f"{job}/")}
