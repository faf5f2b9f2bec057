"""Jobs that have ended: whose time has come, whose sums are to be held against the rows, whose end was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState, Outcome
from shoal.store.tables import dead_letters, idempotency, jobs, pages, submissions
from shoal.store.trouble import translated_errors

FOREVER = "forever"


@frozen
class EndedJob:
    """A job that has ended, as far as who removes it must know it."""

    id: str
    name: str
    state: JobState
    ended_ms: int


@frozen
class Outdated:
    """Which jobs to remove: those that ended before this time, in one of these states, with this label."""

    before_ms: int
    states: tuple[JobState, ...] = (JobState.FINISHED, JobState.CANCELLED)
    label: str | None = None


class EndedJobs:
    """Jobs after their end. One for which submissions wait is about to go on, and is left alone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- removing ------------------------------------------------------------------------------------------------

    def outdated(self, wanted: Outdated) -> list[EndedJob]:
        """Jobs that fit, the oldest first."""
        fits = [jobs.c.ended_ms <= wanted.before_ms, jobs.c.state.in_([state.value for state in wanted.states])]
        if wanted.label is not None:
            fits.append(jobs.c.labels.contains(f" {wanted.label} ", autoescape=True))
        return self._find(*fits)

    def outlived(self, now_ms: int, keep_s: float | None, at_most: int) -> list[EndedJob]:
        """Jobs that have been kept for as long as they say, or as this default says; None is for ever."""
        said = jobs.c.spec["keep"].as_string()
        default = sa.null() if keep_s is None else sa.literal(keep_s, sa.Float)
        keep = sa.case(
            (said.is_(None), default), (said == FOREVER, sa.null()), else_=sa.cast(said, sa.Float)
        )  # one that is NULL fits nothing
        return self._find(jobs.c.ended_ms + keep * 1000 <= now_ms, at_most=at_most)

    def _find(self, *conditions: sa.ColumnElement[bool], at_most: int | None = None) -> list[EndedJob]:
        query = (
            sa.select(jobs.c.id, jobs.c.name, jobs.c.state, jobs.c.ended_ms)
            .where(jobs.c.ended_ms.is_not(None), jobs.c.deleted_ms.is_(None), ~_goes_on(), *conditions)
            .order_by(jobs.c.ended_ms, jobs.c.id)
            .limit(at_most)
        )
        with translated_errors(), self._engine.connect() as connection:
            found = connection.execute(query).all()
        return [EndedJob(id_, name, JobState(state), ended_ms) for id_, name, state, ended_ms in found]

    def give_up(self, job: EndedJob, at_ms: int) -> bool:
        """The job is gone for everybody, unless it has come back to life since it was found."""
        mine = (jobs.c.id == job.id, jobs.c.ended_ms == job.ended_ms, jobs.c.deleted_ms.is_(None), ~_goes_on())
        with translated_errors(), self._engine.begin() as connection:
            if not connection.execute(sa.update(jobs).where(*mine).values(deleted_ms=at_ms)).rowcount:
                return False
            connection.execute(sa.delete(idempotency).where(idempotency.c.job == job.id))
            return True

    # --- sums ----------------------------------------------------------------------------------------------------

    def between(self, since_ms: int, until_ms: int, at_most: int) -> list[EndedJob]:
        """Jobs that ended in this time, the first first."""
        return self._find(jobs.c.ended_ms >= since_ms, jobs.c.ended_ms < until_ms, at_most=at_most)

    def correct(self, job: EndedJob) -> int:
        """Let the sums say what the rows say; returns by how many requests they were wrong.

        A request that has a page is done, whatever else was written about it: its dead letter goes.
        """
        mine = (jobs.c.id == job.id, jobs.c.ended_ms == job.ended_ms, jobs.c.deleted_ms.is_(None), ~_goes_on())
        with translated_errors(), self._engine.begin() as connection:
            saved: Any = connection.execute(sa.select(jobs.c.status).where(*mine)).scalar()
            if saved is None:
                return 0
            counters = Counters(**saved["counters"])
            answered, right = _held_against_rows(connection, job.id, counters)
            if right != counters:
                values = {"status": {**saved, "counters": asdict(right)}}
                if not connection.execute(sa.update(jobs).where(*mine).values(values)).rowcount:
                    return 0  # it goes on, just now
            return max(abs(right.done - counters.done), abs(right.dead - counters.dead), answered)

    # --- ends that were lost -------------------------------------------------------------------------------------

    def unended(self, at_most: int) -> list[str]:
        """Jobs that were cancelled and have not ended: somebody is to settle what was leased of them."""
        query = sa.select(jobs.c.id).where(*_UNENDED).order_by(jobs.c.created_ms).limit(at_most)
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def end(self, job: str, at_ms: int) -> bool:
        """A cancelled job that the frontier has lost ends at this time, with the sums that its rows say.

        False when it has ended meanwhile.
        """
        mine = (jobs.c.id == job, *_UNENDED)
        with translated_errors(), self._engine.begin() as connection:
            saved: Any = connection.execute(sa.select(jobs.c.status).where(*mine)).scalar()
            if saved is None:
                saved = {**asdict(JobStatus(job, JobState.CANCELLED, Counters())), "state": JobState.CANCELLED.value}
            _, right = _held_against_rows(connection, job, Counters(**saved["counters"]))
            last = {**saved, "counters": asdict(right), "ended_ms": at_ms, "now_ms": at_ms, "open": False}
            ended = sa.update(jobs).where(*mine).values(ended_ms=at_ms, status=last)
            return connection.execute(ended).rowcount > 0


_UNENDED = (jobs.c.state == JobState.CANCELLED.value, jobs.c.ended_ms.is_(None), jobs.c.deleted_ms.is_(None))


def _held_against_rows(connection: Connection, job: str, counters: Counters) -> tuple[int, Counters]:
    """(dead letters of pages, which are gone now; the sums that the rows say)"""
    answered = connection.execute(sa.delete(dead_letters).where(*_answered(job))).rowcount
    done = connection.execute(sa.select(sa.func.count()).where(pages.c.job == job)).scalar_one()
    dead = connection.execute(sa.select(sa.func.count()).where(*_dead(job))).scalar_one()
    return answered, corrected(counters, done, dead)


def corrected(counters: Counters, done: int, dead: int) -> Counters:
    """The sums of an ended job with so many pages and dead letters; the two equations hold."""
    rest = counters.admitted - done - dead
    more = max(0, -rest)
    return replace(
        counters,
        seen=counters.admitted + more + counters.filtered,
        admitted=counters.admitted + more,
        queued=0,
        delayed=0,
        leased=0,
        done=done,
        dead=dead,
        dropped=max(0, rest),
    )


def _goes_on() -> sa.ColumnElement[bool]:
    return sa.select(submissions.c.id).where(submissions.c.job == jobs.c.id, ~submissions.c.admitted).exists()


def _answered(job: str) -> Sequence[sa.ColumnElement[bool]]:
    page = sa.select(pages.c.id).where(pages.c.job == job, pages.c.fingerprint == dead_letters.c.fingerprint)
    return *_dead(job), page.exists()


def _dead(job: str) -> Sequence[sa.ColumnElement[bool]]:
    return dead_letters.c.job == job, dead_letters.c.outcome == Outcome.DEAD.value
