"""What nobody waits for, done a little at a time: submissions that were cut short, ends that were missed, data that was
given up, jobs and limits that the frontier has lost, lists that grow; slots of schedules; and what the reconciler and
the retention have to do.

A chore more is a line more in `chores`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta

import structlog

from shoal.again.again import Again
from shoal.chores import Chore, Repairs
from shoal.control import Ending
from shoal.core.frozen import frozen
from shoal.errors import ShoalError
from shoal.field_stats import FieldStats
from shoal.frontier.frontier import Frontier
from shoal.history import Sampler
from shoal.hosts import Hosts
from shoal.intake.intake import Intake
from shoal.leftovers import Leftovers
from shoal.output.delivery import Deliverer
from shoal.reconcile import Reconciler
from shoal.recovery.recovery import Recovery
from shoal.retention import Retention
from shoal.schedules.schedules import Schedules
from shoal.store.jobs import JobStore
from shoal.store.ledger import TRIM_AT_ONCE, Ledger
from shoal.webhooks.webhooks import Webhooks

log = structlog.get_logger()

PATIENCE = timedelta(seconds=10)
"""A submission that took longer than this is taken to be cut short; carrying it out twice does no harm."""
CLAIMS_KEPT = timedelta(days=1)
DROP_EVERY = timedelta(seconds=10)
TEND_EVERY = timedelta(seconds=5)
EXPIRE_EVERY = timedelta(minutes=1)
REMOVE_BATCHES = 40
TRIM_BATCHES = 4


@frozen
class Keeping:
    """How much of the ledger is kept."""

    age: timedelta
    rows: int


@frozen
class Housekeeper:
    """Called every few seconds; each call is short, and safe to repeat or to miss."""

    frontier: Frontier
    jobs: JobStore
    intake: Intake
    ending: Ending
    hosts: Hosts
    ledger: Ledger
    keeping: Keeping
    recovery: Recovery
    reconciler: Reconciler
    leftovers: Leftovers
    retention: Retention
    again: Again
    deliverer: Deliverer
    field_stats: FieldStats
    sampler: Sampler
    schedules: Schedules
    webhooks: Webhooks

    def chores(self) -> tuple[Chore, ...]:
        """All that is done, in this order."""
        return (
            Chore("sync", self._sync),
            Chore("complete", self._complete),
            Chore("recover", self._recover),
            *self.reconciler.chores(),
            Chore("unknown_jobs", self._drop_unknown, DROP_EVERY),
            Chore("finalise", self._finalise),
            *self.schedules.chores(),
            Chore("extractions", self.again.tend, TEND_EVERY),
            Chore("deliver", self.deliverer.start),
            Chore("expire", self.retention.expire, EXPIRE_EVERY),
            Chore("remove", self._remove),
            Chore("trim", self._trim),
            Chore("tidy", self._tidy),
            *self.leftovers.chores(),
            *self.field_stats.chores(),
            *self.sampler.chores(),
            *self.webhooks.chores(),
        )

    def tick(self) -> None:
        """One round; what fails is logged and tried again in the next, and holds up nothing else."""
        for chore in self.chores():
            self._try(chore.name, lambda chore=chore: self._do(chore))

    def sample(self) -> None:
        """Only what the history and the ends of jobs need, for who watches a job where nobody else keeps house."""
        for chore in (*self.sampler.chores(), *self.reconciler.slot_chores()):
            self._try(chore.name, lambda chore=chore: self._do(chore))

    def _do(self, chore: Chore) -> None:
        audit = self.frontier.audit
        if chore.every is not None and not audit.claim_chore(chore.name, chore.every):
            return
        try:
            chore.do()
        except ShoalError:
            if chore.every is not None:
                audit.unclaim_chore(chore.name)
            raise

    def _try(self, name: str, do: Callable[[], None], job: str = "") -> None:
        try:
            do()
        except ShoalError as exc:
            log.warning("chore_failed", chore=name, job=job, error=str(exc))

    def _each(self, name: str, do: Callable[[str], None], jobs: Iterable[str]) -> None:
        """One job that fails holds up no other."""
        for job in jobs:
            self._try(name, lambda job=job: do(job), job)

    def _sync(self) -> None:
        """Operators' words on hosts, where the frontier has others."""
        self.hosts.sync()

    def _complete(self) -> None:
        """Submissions that a crash cut short."""
        before_ms = self.frontier.audit.now_ms() - _ms(PATIENCE)
        self._each("complete_job", self._complete_job, self.jobs.submissions.cut_short(before_ms))

    def _complete_job(self, job: str) -> None:
        if self.intake.complete(job):
            log.info("submission_completed", job=job, request_id=self.jobs.request_id(job))
            self._count("submissions")

    def _recover(self) -> None:
        """Jobs that the frontier has lost."""
        self.recovery.tick()

    def _drop_unknown(self) -> None:
        """Jobs that the frontier knows and the database does not."""
        for job in self.leftovers.unknown_jobs(self.frontier.known_jobs()):
            self.frontier.audit.drop_job(job)
            Repairs(self.frontier.audit).note("unknown_jobs", 1, job)

    def _finalise(self) -> None:
        """Jobs whose end nobody lived to write down."""
        self._each("finalise_job", self._finalise_job, self.frontier.ended_jobs(PATIENCE))

    def _finalise_job(self, job: str) -> None:
        self.ending.finalise(job)
        log.info("end_recorded", job=job, request_id=self.jobs.request_id(job))
        self._count("ends")

    def _remove(self) -> None:
        """Data of deleted jobs, once no worker holds a lease of theirs."""
        self._each("remove_job", self._remove_job, self.jobs.given_up())

    def _remove_job(self, job: str) -> None:
        self.retention.remove(job, REMOVE_BATCHES)

    def _trim(self) -> None:
        """Entries of the ledger that are too old or too many."""
        for _ in range(TRIM_BATCHES):
            if self.ledger.trim(_now_ms() - _ms(self.keeping.age), self.keeping.rows) < TRIM_AT_ONCE:
                return

    def _tidy(self) -> None:
        self.frontier.sweep()
        self.jobs.forget_claims(_now_ms() - _ms(CLAIMS_KEPT))

    def _count(self, what: str) -> None:
        Repairs(self.frontier.audit).count(what)


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
