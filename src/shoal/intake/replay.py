"""Another try for dead letters: taken out of the database as a submission, carried back into the frontier.

A job that has finished goes on for them. It comes back with its sums and all that it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from shoal.core.model import Request
from shoal.frontier.frontier import Frontier
from shoal.store.dead import DeadLetters, Selection, requests_of
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore
from shoal.store.submissions import REPLAY, Submission

REOPEN_TRIES = 3
"""A finished job that is brought back may end again, for others' dead letters, before ours are in."""

Dead = tuple[Request, str]
"""(request, the reason that it died of)"""


class Replays:
    """The way of dead letters back into the frontier."""

    def __init__(
        self,
        frontier: Frontier,
        jobs: JobStore,
        pages: PageStore,
        dead: DeadLetters,
        finalise: Callable[[str], None],
    ) -> None:
        self._frontier = frontier
        self._jobs = jobs
        self._pages = pages
        self._dead = dead
        self._finalise = finalise

    def take(self, job: str, chosen: Selection) -> Iterator[Submission]:
        """The chosen dead letters as submissions, batch by batch."""
        newest = self._dead.newest(job)  # those that die again meanwhile wait for another call
        while taken := self._dead.take(job, chosen, time.time_ns() // 1_000_000, newest):
            yield taken

    def carry_out(self, row: JobRow, submission: Submission) -> bool:
        """Bring dead letters into the frontier; False when that did not succeed this time."""
        dead = untried(self._pages, row.id, requests_of(submission.lines))
        for _ in range(REOPEN_TRIES if dead else 0):
            self._reopen(row)
            state = self._frontier.replay(row.id, str(submission.id), dead)
            if state is not None and not state.ended:
                return True
        return not dead

    def _reopen(self, row: JobRow) -> None:
        """Bring a job that has finished back into the frontier, with its sums and all that it has seen."""
        self._finalise(row.id)
        row = self._jobs.get(row.id) or row
        if not row.state.ended or row.status is None:
            return
        self._frontier.restore(row.id, row.spec, row.status, row.tenant)
        for seen in self._pages.seen(row.id):
            self._frontier.remember(row.id, seen)
        for dead in on_their_way(self._jobs, row.id):
            self._frontier.remember(row.id, [(request.url.fingerprint, request.url.host) for request, _ in dead])
        status = self._frontier.status(row.id)
        if status and row.status.ended_ms is not None:  # last: until then the job counts as ended, and this is repeated
            self._jobs.reopen(status, row.status.ended_ms)


def on_their_way(jobs: JobStore, job: str) -> Iterator[list[Dead]]:
    """Dead letters that were taken out and may not have reached the frontier: they have no row."""
    for submission in jobs.submissions.waiting(job):
        if submission.kind == REPLAY:
            yield requests_of(submission.lines)


def untried(pages: PageStore, job: str, dead: Sequence[Dead]) -> list[Dead]:
    """What was tried again has a row again; the frontier knows that only for as long as the job has not ended."""
    known = pages.known(job, [request.url.fingerprint for request, _ in dead])
    return [(request, reason) for request, reason in dead if request.url.fingerprint not in known]
