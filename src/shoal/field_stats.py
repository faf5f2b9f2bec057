"""What the fields of items look like, and whether a run looks like the earlier ones of its name.

Items are counted where they stand, from the last one that was counted on: nobody who stores them has to do anything for
it, and a crash loses nothing. The housekeeping counts a job's items when it has ended, and then holds it against the
runs before it; who wants to know earlier counts what is new.
"""

from __future__ import annotations

import time

import structlog

from shoal.chores import Chore
from shoal.core.drift import RUNS, Drift, Profile, find_drifts
from shoal.core.frozen import frozen
from shoal.core.model import JobState
from shoal.core.tally import Tally
from shoal.frontier.frontier import Frontier
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore
from shoal.store.row_filter import RowFilter
from shoal.store.tables import FIRST_VERSION
from shoal.store.tallies import Tallies

log = structlog.get_logger()

COUNT_AT_ONCE = 20_000
"""Items counted for who waits."""
BATCH = 2_000
ROUND_S = 2.0
"""For one round of the housekeeping."""
JUDGED_AT_ONCE = 20


@frozen
class Counted:
    """What is known of a job's fields."""

    tally: Tally
    complete: bool
    """Are all items in it that there were?"""


class FieldStats:
    """Counts items, and judges runs."""

    def __init__(self, frontier: Frontier, jobs: JobStore, pages: PageStore, tallies: Tallies) -> None:
        self._frontier = frontier
        self._jobs = jobs
        self._pages = pages
        self._tallies = tallies

    def chores(self) -> tuple[Chore, ...]:
        return (Chore("drift", self.judge_ended),)

    def count(self, job: str, version: str = FIRST_VERSION, most: int = COUNT_AT_ONCE) -> Counted:
        """The job's fields with the items that have come since, but no more than so many of them."""
        known = self._tallies.get(job, version)
        after, wanted = known.last_id, RowFilter(version=version)
        left = most
        while left > 0 and (rows := self._pages.items_after(job, known.last_id, min(BATCH, left), wanted)):
            for _, item in rows:
                known.tally.add(item.url, item.data)
            known.last_id = rows[-1][0]
            left -= len(rows)
        if known.last_id > after and not self._tallies.put(job, version, known, after):
            known = self._tallies.get(job, version)  # somebody else has counted as well
        return Counted(known.tally, complete=not self._pages.items_after(job, known.last_id, 1, wanted))

    def judge_ended(self) -> None:
        """Hold runs that have ended against the earlier ones of their name; a large one takes several rounds."""
        until = time.monotonic() + ROUND_S
        for row in self._jobs.unjudged(JUDGED_AT_ONCE):
            if time.monotonic() > until:
                return
            self._judge(row, until)

    def _judge(self, row: JobRow, until: float) -> None:
        if not row.spec.takes_items or row.state is not JobState.FINISHED:
            self._jobs.judge(row.id, ())
            return
        while not (counted := self.count(row.id)).complete:
            if time.monotonic() > until:
                return
        drifts = find_drifts(self._profile(row.id, counted.tally), self._earlier(row))
        if self._jobs.judge(row.id, drifts) and drifts:
            self._tell(row, drifts)

    def _earlier(self, row: JobRow) -> list[Profile]:
        if not row.name:
            return []
        runs = self._jobs.earlier_runs(row, RUNS)
        return [self._profile(job, self._tallies.get(job, FIRST_VERSION).tally) for job in runs]

    def _profile(self, job: str, tally: Tally) -> Profile:
        return Profile.of(job, tally, self._pages.count_quarantine(job))

    def _tell(self, row: JobRow, drifts: tuple[Drift, ...]) -> None:
        told = [drift.told for drift in drifts[:5]]
        log.warning("job_drifted", job=row.id, name=row.name, request_id=row.request_id, drifts=len(drifts), first=told)
        self._frontier.tell_drift(row.id, dict.fromkeys(drift.what for drift in drifts))
