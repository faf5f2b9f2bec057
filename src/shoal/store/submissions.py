"""What was submitted to jobs, batch by batch: what Redis can be rebuilt from.

A submission is written before the frontier sees it and marked `admitted` afterwards. One that stays unmarked was cut
short, and can be carried out again: the frontier takes nothing twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen
from shoal.core.model import JobState
from shoal.store.tables import jobs, submissions
from shoal.store.trouble import translated_errors

URLS, REPLAY = "urls", "replay"
"""Kinds of submissions: URLs, or dead letters to be tried again."""
LIVING = (JobState.RUNNING.value, JobState.PAUSED.value)
"""States of jobs that have not ended."""
REMOVE_AT_ONCE = 100
"""Submissions, each of thousands of URLs."""


@frozen
class Submission:
    """A batch of lines that was submitted."""

    id: int
    kind: str
    lines: list[str]


class Submissions:
    """The submissions of all jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- on their way into the frontier --------------------------------------------------------------------------

    def keep(
        self, job: str, lines: Sequence[str], created_ms: int, *, kind: str = URLS, done: Iterable[int] = ()
    ) -> int:
        """Keep a batch durably before the frontier sees it; `done` are earlier ones that it has seen."""
        with translated_errors(), self._engine.begin() as connection:
            _mark_admitted(connection, done)
            return insert_submission(connection, job, kind, lines, created_ms)

    def mark_admitted(self, ids: Iterable[int]) -> None:
        """These submissions are in the frontier."""
        with translated_errors(), self._engine.begin() as connection:
            _mark_admitted(connection, ids)

    def waiting(self, job: str) -> Iterator[Submission]:
        """Submissions that may not have reached the frontier, one at a time."""
        last = 0
        while row := self._next(job, last, ~submissions.c.admitted):
            last = row["id"]
            yield _submission(row)

    def cut_short(self, before_ms: int, limit: int = 100) -> list[str]:
        """Jobs with submissions from before this time that were not carried out."""
        query = (
            sa.select(submissions.c.job)
            .where(~submissions.c.admitted, submissions.c.created_ms < before_ms)
            .group_by(submissions.c.job)
            .limit(limit)
        )
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def was_admitted(self, job: str) -> bool:
        """Is the frontier known to have had anything of the job?"""
        query = sa.select(submissions.c.id).where(submissions.c.job == job, submissions.c.admitted).limit(1)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).first() is not None

    # --- read again ----------------------------------------------------------------------------------------------

    def after(self, job: str, last_id: int) -> tuple[Submission, bool] | None:
        """The job's next submission, and whether the frontier is known to have had it."""
        row = self._next(job, last_id)
        return None if row is None else (_submission(row), row["admitted"])

    def latest(self, within_ms: int) -> Iterator[tuple[str, Submission]]:
        """What the frontier was last given: (job, submission) of living jobs, not older than this before the newest."""
        newest = sa.select(sa.func.max(submissions.c.created_ms)).scalar_subquery()
        query = sa.select(submissions).join(jobs, jobs.c.id == submissions.c.job)
        query = query.where(jobs.c.state.in_(LIVING), jobs.c.deleted_ms.is_(None), submissions.c.admitted)
        query = query.where(submissions.c.created_ms >= newest - within_ms).order_by(submissions.c.id)
        with translated_errors(), self._engine.connect() as connection:
            for row in connection.execute(query).mappings():
                yield row["job"], _submission(row)

    def urls(self, job: str) -> Iterator[list[str]]:
        """The submitted URLs, batch by batch."""
        query = sa.select(submissions.c.urls).where(*_named(job)).order_by(submissions.c.id)
        with translated_errors(), self._engine.connect() as connection:
            for (body,) in connection.execute(query):
                yield _unpack(body)

    def count_urls(self, job: str) -> int:
        """How many URLs were submitted."""
        query = sa.select(sa.func.coalesce(sa.func.sum(submissions.c.count), 0)).where(*_named(job))
        with translated_errors(), self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def _next(self, job: str, last_id: int, *conditions: sa.ColumnElement[bool]) -> sa.RowMapping | None:
        query = sa.select(submissions).where(submissions.c.job == job, submissions.c.id > last_id, *conditions)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query.order_by(submissions.c.id).limit(1)).mappings().first()

    # --- removed -------------------------------------------------------------------------------------------------

    def remove(self, job: str) -> None:
        """All of a job's, in batches, so that nobody waits for long."""
        mine = sa.select(submissions.c.id).where(submissions.c.job == job).order_by(submissions.c.id)
        batch = sa.delete(submissions).where(submissions.c.id.in_(mine.limit(REMOVE_AT_ONCE)))
        with translated_errors():
            while True:
                with self._engine.begin() as connection:
                    if connection.execute(batch).rowcount < REMOVE_AT_ONCE:
                        return


def insert_submission(connection: Connection, job: str, kind: str, lines: Sequence[str], created_ms: int) -> int:
    """Within a transaction: a batch that is not in the frontier yet. Returns its id."""
    values = {
        "job": job,
        "kind": kind,
        "count": len(lines),
        "urls": zlib.compress("\n".join(lines).encode(), 1),
        "created_ms": created_ms,
        "admitted": False,
    }
    key = connection.execute(sa.insert(submissions).values(values)).inserted_primary_key
    return int(key[0]) if key else 0


def remove_submissions(connection: Connection, job: str) -> None:
    """Within a transaction: those that came while the others were removed."""
    connection.execute(sa.delete(submissions).where(submissions.c.job == job))


def _mark_admitted(connection: Connection, ids: Iterable[int]) -> None:
    wanted = list(ids)
    if wanted:
        connection.execute(sa.update(submissions).where(submissions.c.id.in_(wanted)).values(admitted=True))


def _named(job: str) -> tuple[sa.ColumnElement[bool], ...]:
    return submissions.c.job == job, submissions.c.kind == URLS


def _submission(row: sa.RowMapping) -> Submission:
    return Submission(row["id"], row["kind"], _unpack(row["urls"]))


def _unpack(body: bytes) -> list[str]:
    text = zlib.decompress(body).decode()
    return text.split("\n") if text else []
