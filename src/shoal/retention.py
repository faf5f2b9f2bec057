"""Retention: jobs whose time has come, and the one way in which a job's data is removed.

A job is given up first, which hides it from everybody; then its archive goes, its rows in batches, and last its own
row. Whoever is interrupted in between leaves a job that is given up, and the next one goes on with it. An archive that
later jobs borrow from stays, and goes with the last of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta

import structlog

from shoal.control import Ending
from shoal.core.frozen import frozen
from shoal.frontier.frontier import Frontier
from shoal.store.archive import ArchiveReader
from shoal.store.ended import EndedJob, EndedJobs, Outdated
from shoal.store.extractions import ExtractionStore
from shoal.store.folders import ArchiveFolders
from shoal.store.jobs import JobStore
from shoal.store.loans import Loans
from shoal.store.pages import PageStore

log = structlog.get_logger()

EXPIRE_AT_ONCE = 100


@frozen
class Stores:
    """Where a job has data."""

    jobs: JobStore
    ended: EndedJobs
    pages: PageStore
    extractions: ExtractionStore
    archive: ArchiveReader
    folders: ArchiveFolders
    loans: Loans


@frozen
class Weight:
    """A job that may go, and what goes with it."""

    job: EndedJob
    pages: int
    """Without redirects."""
    bytes: int
    """Of its archive."""


class Retention:
    """Finds jobs that are not wanted any more, and removes them."""

    def __init__(self, frontier: Frontier, ending: Ending, stores: Stores, keep: timedelta | None) -> None:
        self._frontier = frontier
        self._ending = ending
        self._stores = stores
        self._keep = keep
        """For jobs that do not say; None is for ever."""

    def expire(self) -> None:
        """Give up jobs that have been kept for as long as they, or else the operator, said."""
        now, keep = self._frontier.audit.now_ms(), None if self._keep is None else self._keep.total_seconds()
        for job in self._stores.ended.outlived(now, keep, EXPIRE_AT_ONCE):
            if self._stores.ended.give_up(job, now):
                log.info("job_expired", job=job.id, request_id=self._stores.jobs.request_id(job.id))

    def outdated(self, wanted: Outdated) -> list[EndedJob]:
        """Jobs that fit, the oldest first."""
        return self._stores.ended.outdated(wanted)

    def weigh(self, jobs: Iterable[EndedJob]) -> list[Weight]:
        """What would go with each."""
        pages, folders = self._stores.pages, self._stores.folders
        return [Weight(job, pages.count(job.id, redirects=False), folders.size(job.id)) for job in jobs]

    def give_up(self, job: EndedJob) -> bool:
        """The job is gone for everybody; False when it has come back to life meanwhile."""
        return self._stores.ended.give_up(job, _now_ms())

    def given_up(self) -> list[str]:
        """Jobs whose removal was begun, or is to begin."""
        return self._stores.jobs.given_up()

    def is_held(self, job: str) -> bool:
        """Does a worker still hold pages of the job?"""
        return self._frontier.status(job) is not None

    def remove(self, job: str, batches: int) -> bool:
        """Remove so much of a job that was given up; True when nothing is left. A worker may hold it up."""
        self._ending.finalise(job)
        status = self._frontier.status(job)
        if status is not None:
            if not status.state.ended:  # its dead letters were called back at the same moment
                self._frontier.cancel(job)
            return False
        self._stores.extractions.remove(job)  # who extracts from it writes nothing more
        if not self._stores.loans.lends(job):
            self._stores.archive.remove(job)
        if not any(self._stores.pages.remove(job) for _ in range(batches)):
            return False
        log.info("job_removed", job=job, request_id=self._stores.jobs.request_id(job))
        lenders = self._stores.loans.lenders_of(job)
        self._stores.jobs.remove(job)
        for lender in lenders:
            self._let_go(lender)
        return True

    def _let_go(self, lender: str) -> None:
        """The archive of a job that is gone goes with the last that has borrowed from it."""
        if self._stores.jobs.is_gone(lender) and not self._stores.loans.lends(lender):
            self._stores.archive.remove(lender)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
