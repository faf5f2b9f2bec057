"""What nobody waits for, done a little at a time: submissions that were cut short, ends that were missed, data that was
given up, jobs and limits that the frontier has lost, lists that grow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from shoal.control import Ending
from shoal.errors import ShoalError
from shoal.frontier.frontier import Frontier
from shoal.hosts import Hosts
from shoal.intake import Intake
from shoal.recovery import Recovery
from shoal.store.archive import ArchiveReader
from shoal.store.jobs import JobStore
from shoal.store.ledger import TRIM_AT_ONCE, Ledger
from shoal.store.pages import PageStore

log = structlog.get_logger()

PATIENCE = timedelta(seconds=10)
"""A submission that took longer than this is taken to be cut short; carrying it out twice does no harm."""
CLAIMS_KEPT = timedelta(days=1)
REMOVE_BATCHES = 20
TRIM_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Keeping:
    """How much of the ledger is kept."""

    age: timedelta
    rows: int


@dataclass(frozen=True, slots=True)
class Housekeeper:
    """Called every few seconds; each call is short, and safe to repeat or to miss."""

    frontier: Frontier
    jobs: JobStore
    pages: PageStore
    archive: ArchiveReader
    intake: Intake
    ending: Ending
    hosts: Hosts
    ledger: Ledger
    keeping: Keeping
    recovery: Recovery

    def tick(self) -> None:
        """One round; what fails is logged and tried again in the next, and holds up nothing else."""
        for chore in (self._sync, self._complete, self._recover, self._finalise, self._remove, self._trim, self._tidy):
            self._try(chore)

    def _try(self, chore: Callable[..., None], *job: str) -> None:
        try:
            chore(*job)
        except ShoalError as exc:
            log.warning("chore_failed", chore=chore.__name__.strip("_"), job="".join(job), error=str(exc))

    def _sync(self) -> None:
        """Operators' words on hosts, where the frontier has others."""
        self.hosts.sync()

    def _complete(self) -> None:
        """Submissions that a crash cut short."""
        for job in self.jobs.cut_short(_now_ms() - _ms(PATIENCE)):
            self._try(self._complete_job, job)

    def _complete_job(self, job: str) -> None:
        if self.intake.complete(job):
            log.info("submission_completed", job=job, request_id=self.jobs.request_id(job))

    def _recover(self) -> None:
        """Jobs that the frontier has lost."""
        self.recovery.tick()

    def _finalise(self) -> None:
        """Jobs whose end nobody lived to write down."""
        for job in self.frontier.ended_jobs(PATIENCE):
            self._try(self._finalise_job, job)

    def _finalise_job(self, job: str) -> None:
        self.ending.finalise(job)
        log.info("end_recorded", job=job, request_id=self.jobs.request_id(job))

    def _remove(self) -> None:
        """Data of deleted jobs, once no worker holds a lease of theirs."""
        for job in self.jobs.given_up():
            self._try(self._remove_job, job)

    def _remove_job(self, job: str) -> None:
        self.ending.finalise(job)
        if self.frontier.status(job) is not None:
            return
        self.archive.remove(job)
        if any(self.pages.remove(job) for _ in range(REMOVE_BATCHES)):
            log.info("job_removed", job=job, request_id=self.jobs.request_id(job))
            self.jobs.remove(job)

    def _trim(self) -> None:
        """Entries of the ledger that are too old or too many."""
        for _ in range(TRIM_BATCHES):
            if self.ledger.trim(_now_ms() - _ms(self.keeping.age), self.keeping.rows) < TRIM_AT_ONCE:
                return

    def _tidy(self) -> None:
        self.frontier.sweep()
        self.jobs.forget_claims(_now_ms() - _ms(CLAIMS_KEPT))


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
