"""Has the frontier lost anything? Lost jobs are found out, and set on their way back.

Each look raises a number in the frontier, and writes it down in the database. A number that is not larger than the one
written down says that the frontier is not the one that was there. Nothing is leased from a server that was started anew
before it was looked at: it would hand out what is stored already.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import structlog

from shoal.core.url import parse
from shoal.errors import RedisUnavailable, ShoalError, StoreUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.rebuild import Overtaken, Rebuild
from shoal.frontier.spread_rebuild import SpreadRebuild
from shoal.intake.intake import heed
from shoal.intake.replay import untried
from shoal.recovery.losses import DOUBT, LATELY
from shoal.recovery.shards import ShardRecovery
from shoal.recovery.way_back import WayBack
from shoal.store.dead import requests_of
from shoal.store.epochs import Epochs
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore
from shoal.store.submissions import REPLAY, Submission

log = structlog.get_logger()

PATIENCE = timedelta(seconds=10)
"""A job that was submitted within this time may still be on its way into the frontier."""
STEP = timedelta(seconds=2)
"""So long works one call at the most, give or take a batch."""


class Recovery:
    """Finds lost jobs, and sees to it that they are brought back."""

    def __init__(
        self, frontier: Frontier, rebuild: Rebuild, epochs: Epochs, jobs: JobStore, pages: PageStore, way: WayBack
    ) -> None:
        self._shards = ShardRecovery(rebuild, epochs, jobs, way) if isinstance(rebuild, SpreadRebuild) else None
        self._frontier = frontier
        self._finalise = way.finalise
        self._rebuild = rebuild
        self._epochs = epochs
        self._jobs = jobs
        self._pages = pages
        self.way = way
        """On which lost jobs are brought back."""

    def tick(self, length: timedelta = STEP) -> bool:
        """Look for lost jobs, and go on with what is under way for so long; True when there is more to do."""
        self.look()
        deadline = time.monotonic() + length.total_seconds()
        for job in self.under_way():
            try:
                while time.monotonic() < deadline and not self.way.step(job).complete:
                    pass
            except ShoalError as exc:
                log.warning("rebuild_failed", job=job, error=str(exc))
        return bool(self.under_way())

    def look(self) -> None:
        """Find out whether the frontier is the one that was there, and begin with the jobs that it has lost."""
        if self._shards is None:
            self._look()
            return
        self._shards.look_at_servers(self._catch_up)  # first: nobody works with those that nobody has looked at
        try:
            self._look()
        except RedisUnavailable as exc:
            self._rebuild.server()  # the control Redis itself?
            log.warning("look_failed", error=str(exc))  # some server is away; until it is back no job ends
        self._shards.look_at_list()

    def _look(self) -> None:
        run, before = self._rebuild.server(), self._rebuild.trusted()
        last = self._epochs.last()  # first: whoever looks at the same time only raises both
        epoch = self._rebuild.next_epoch()
        if epoch > last:
            self._epochs.note(epoch)
            if before not in ("", run):
                self._rebuild.skip_leases(run, LATELY)
                self._catch_up()
                self._rebuild.cast_doubt(DOUBT)
            self._rebuild.trust(run)
            self._begin_unknown(self._rebuild.now_ms() - _ms(PATIENCE))
        elif claim := self._rebuild.claim():
            log.warning("frontier_lost", epoch=epoch, last=last)
            try:
                self._rebuild.skip_leases(run, LATELY)
                self._begin_all(claim)
                self._rebuild.cast_doubt(DOUBT)
                if self._rebuild.conclude(claim, last, run):  # last: who is cut short before is followed by another
                    self._epochs.note(self._rebuild.next_epoch())
            except Overtaken:
                pass  # whoever has the claim now decides
            finally:
                self._rebuild.unclaim(claim)

    def under_way(self) -> list[str]:
        """Jobs that are being rebuilt."""
        known = self._frontier.known_jobs()
        return [job for job, place in zip(known, self._rebuild.places(known), strict=True) if place]

    def _begin_all(self, claim: str) -> None:
        """Everything that the frontier knows is older than the database, or nothing is left of it."""
        for job in self._jobs.gone(self._frontier.known_jobs()):
            self._rebuild.drop(job, claim)
        for job in self._jobs.living():
            try:
                self.way.begin(job, claim=claim)
            except StoreUnavailable as exc:  # of this one? It is dropped, so that the next look finds it missing
                self._jobs.ping()
                self._rebuild.drop(job, claim)
                log.warning("rebuild_failed", job=job, error=str(exc))

    def _catch_up(self) -> None:
        """A server that was started anew may have lost what came after the last look.

        Requests that it has again are looked up by workers, and lead on as before; but not what it never heard of, nor
        more pages than were leased, nor jobs that have ended, were cancelled or rest.
        """
        for job in self._jobs.gone(self._frontier.known_jobs()):
            self._each(job, self._end_again)
        self._submit_again()
        for job in self._jobs.living():
            self._each(job, self._compare)

    def _submit_again(self) -> None:
        """The last submissions. The frontier knows a replay only until the job has ended: what has a row was tried."""
        replays: list[tuple[str, Submission]] = []
        for job, submission in self._jobs.submissions.latest(_ms(LATELY)):
            if submission.kind == REPLAY:
                replays.append((job, submission))
            else:
                self._frontier.admit_submitted(job, [parse(line) for line in submission.lines], again=True)
        later: set[tuple[str, int]] = set()
        for job, submission in reversed(replays):
            dead = untried(self._pages, job, requests_of(submission.lines))
            keys = [(job, request.url.fingerprint) for request, _ in dead]
            fresh = [each for each, key in zip(dead, keys, strict=True) if key not in later]
            self._frontier.replay(job, str(submission.id), fresh)
            later.update(keys)

    def _each(self, job: str, do: Callable[[str], None]) -> None:
        """A job whose row cannot be read holds up no other."""
        try:
            do(job)
        except StoreUnavailable as exc:
            self._jobs.ping()
            log.warning("rebuild_failed", job=job, error=str(exc))

    def _end_again(self, job: str) -> None:
        """One that has ended or has no row is dropped; of one that was cancelled, leases may still be settled."""
        row = self._jobs.get(job)
        if row is None or (row.status and row.status.ended_ms is not None):
            self._rebuild.drop(job)
        elif self._frontier.cancel(job)[1]:
            self._finalise(job)

    def _compare(self, job: str) -> None:
        row, status = self._jobs.get(job), self._frontier.status(job)
        if row is None or row.state.ended or status is None or status.partial:
            return
        heed(self._frontier, row)
        if self._pages.count(job) > status.counters.done + status.counters.leased:
            self.way.begin(job, force=True)

    def _begin_unknown(self, before_ms: int) -> None:
        living = self._jobs.living(before_ms)
        for job, place in zip(living, self._rebuild.places(living), strict=True):
            if place is None and not self._is_cut_short(job):
                self.way.begin(job)

    def _is_cut_short(self, job: str) -> bool:
        """The frontier has never had it: its submission will be completed."""
        waits = next(self._jobs.submissions.waiting(job), None) is not None
        return waits and not self._jobs.submissions.was_admitted(job)


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
