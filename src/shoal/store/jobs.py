"""Job rows: what a job is, how it stands, and when it goes. What was submitted to it stands in submissions.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.drift import Drift
from shoal.core.frozen import frozen
from shoal.core.happening import Whose
from shoal.core.job_order import JobOrder, Place
from shoal.core.job_status import JobStatus
from shoal.core.manner import manner_of
from shoal.core.model import JobState
from shoal.core.spec import JobSpec
from shoal.errors import StoreUnavailable
from shoal.store.claims import OWN, Claim, insert_claim
from shoal.store.deliveries import await_deliveries, insert_delivery
from shoal.store.job_ranks import ENDED, in_order, rank
from shoal.store.job_rows import JobRow, NewJob, job_of, labels_of, spec_values, stored_spec, sums_values
from shoal.store.outbox import note_drift, note_end, note_start
from shoal.store.submissions import LIVING, URLS, Submissions, insert_submission, remove_submissions
from shoal.store.tables import borrowed, deliveries, field_tallies, history, idempotency, jobs
from shoal.store.trouble import translated_errors
from shoal.store.webhook_tables import webhook_cursors

IDS_AT_ONCE = 500
_NAMES = (jobs.c.name, jobs.c.id, jobs.c.labels)


@frozen
class JobFilter:
    """Which jobs to list; None is any."""

    tenant: str | None = None
    state: JobState | None = None
    lane: str | None = None
    label: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    find: str | None = None
    """Part of a name, an id or a label, in capitals or not."""
    before: tuple[int, str] | None = None
    """(created_ms, id) of the last job of the page before."""


class JobStore:
    """Jobs, and their submissions beside them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.submissions = Submissions(engine)

    # --- submitting ----------------------------------------------------------------------------------------------

    def create(self, new: NewJob, batches: Iterable[Sequence[str]] = (), claim: Claim | None = None) -> list[int]:
        """Record a job and its URLs, all or nothing; returns the submissions' ids. Raises Claimed."""
        spec = new.spec
        values = {
            "id": new.id,
            "name": spec.name,
            "spec": spec_values(spec),
            "queue": spec.queue,
            "state": JobState.RUNNING.value,
            "created_ms": new.created_ms,
            "tenant": new.tenant,
            "request_id": new.request_id,
            "labels": labels_of(spec),
            "open": spec.open,
            "trace": new.trace,
            "manner": manner_of(spec),
        }
        with translated_errors(), self._engine.begin() as connection:
            if claim:
                insert_claim(connection, claim, new.tenant, new.id, new.created_ms)
            connection.execute(sa.insert(jobs).values(values))
            if spec.output:
                insert_delivery(connection, new.id, spec.output, new.allowed, new.created_ms)
            note_start(connection, Whose(new.id, spec.name, spec.labels, new.tenant, new.request_id, new.created_ms))
            return [insert_submission(connection, new.id, URLS, batch, new.created_ms) for batch in batches]

    def claimed(self, tenant: str, key: str) -> str | None:
        """The job that this key has made, if there is one."""
        mine = (idempotency.c.tenant == tenant, idempotency.c.key == key)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(sa.select(idempotency.c.job).where(*mine)).scalar()

    def request_id(self, job: str) -> str:
        """Of the submission that made the job, also of one that was deleted."""
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(sa.select(jobs.c.request_id).where(jobs.c.id == job)).scalar() or ""

    # --- looking -------------------------------------------------------------------------------------------------

    def get(self, job: str) -> JobRow | None:
        """One job."""
        query = sa.select(jobs).where(jobs.c.id == job, jobs.c.deleted_ms.is_(None))
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else job_of(row)

    def find(self, start: str, limit: int = 20) -> list[str]:
        """Ids that start like this, so that people can type the first letters."""
        pattern = start.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        query = (
            sa.select(jobs.c.id).where(jobs.c.id.like(pattern, escape="\\"), jobs.c.deleted_ms.is_(None)).limit(limit)
        )
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def newest(self, limit: int = 50, wanted: JobFilter | None = None) -> list[JobRow]:
        """The last jobs, newest first."""
        query = sa.select(jobs).where(jobs.c.deleted_ms.is_(None), *_conditions(wanted or JobFilter()))
        query = query.order_by(jobs.c.created_ms.desc(), jobs.c.id.desc()).limit(limit)
        with translated_errors(), self._engine.connect() as connection:
            return [job_of(row) for row in connection.execute(query).mappings()]

    def ranked(self, limit: int, wanted: JobFilter, order: JobOrder) -> list[tuple[Place, JobRow]]:
        """Jobs in some order, each with its place; by sums only those that have ended."""
        ranked = rank(order, self._engine.dialect.name)
        query = sa.select(jobs, ranked.label("ranked")).where(jobs.c.deleted_ms.is_(None), *_conditions(wanted))
        query = query.where(ENDED) if order.by.by_sums else query
        with translated_errors(), self._engine.connect() as connection:
            found = connection.execute(in_order(query, order, ranked).limit(limit)).mappings()
            return [((row["ranked"], row["created_ms"], row["id"]), job_of(row)) for row in found]

    def unended(self, wanted: JobFilter) -> list[tuple[int, str]]:
        """(created_ms, id) of all jobs that have not ended."""
        query = sa.select(jobs.c.created_ms, jobs.c.id).where(
            jobs.c.ended_ms.is_(None), jobs.c.deleted_ms.is_(None), *_conditions(wanted)
        )
        with translated_errors(), self._engine.connect() as connection:
            return [(created_ms, name) for created_ms, name in connection.execute(query)]

    def some(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Those of these that are there."""
        found: dict[str, JobRow] = {}
        with translated_errors(), self._engine.connect() as connection:
            for start in range(0, len(ids), IDS_AT_ONCE):
                query = sa.select(jobs).where(jobs.c.id.in_(ids[start : start + IDS_AT_ONCE]))
                found |= {row["id"]: job_of(row) for row in connection.execute(query).mappings()}
        return found

    def living(self, before_ms: int | None = None) -> list[str]:
        """Jobs that have not ended, the oldest first; only those that were created before this time."""
        query = sa.select(jobs.c.id).where(
            jobs.c.ended_ms.is_(None), jobs.c.state.in_(LIVING), jobs.c.deleted_ms.is_(None)
        )
        if before_ms is not None:
            query = query.where(jobs.c.created_ms < before_ms)
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query.order_by(jobs.c.created_ms)).scalars())

    def gone(self, ids: Sequence[str]) -> list[str]:
        """Which of these have ended, were deleted, or have no row at all: a row is there before its job is anywhere."""
        lives = (jobs.c.state.in_(LIVING), jobs.c.deleted_ms.is_(None))
        living: set[str] = set()
        with translated_errors(), self._engine.connect() as connection:
            for start in range(0, len(ids), IDS_AT_ONCE):
                some = jobs.c.id.in_(ids[start : start + IDS_AT_ONCE])
                living.update(connection.execute(sa.select(jobs.c.id).where(some, *lives)).scalars())
        return [name for name in ids if name not in living]

    def count_by_state(self, tenant: str | None = None) -> dict[JobState, int]:
        """How many jobs there are."""
        query = sa.select(jobs.c.state, sa.func.count()).where(jobs.c.deleted_ms.is_(None)).group_by(jobs.c.state)
        if tenant is not None:
            query = query.where(jobs.c.tenant == tenant)
        with translated_errors(), self._engine.connect() as connection:
            return {JobState(state): count for state, count in connection.execute(query)}

    def ping(self) -> None:
        """Raises StoreUnavailable when the database cannot be read, or its file is gone: who has that open reads on."""
        with translated_errors(), self._engine.connect() as connection:
            connection.execute(sa.select(jobs.c.id).limit(1)).first()
        file = self._engine.url.database
        if self._engine.dialect.name == "sqlite" and file and not Path(file).exists():
            raise StoreUnavailable(f"the database {file} is gone")

    def unjudged(self, limit: int) -> list[JobRow]:
        """Jobs that have ended and were not held against earlier runs, those that ended first first."""
        query = sa.select(jobs).where(jobs.c.drift.is_(None), jobs.c.ended_ms.is_not(None), jobs.c.deleted_ms.is_(None))
        with translated_errors(), self._engine.connect() as connection:
            return [job_of(row) for row in connection.execute(query.order_by(jobs.c.ended_ms).limit(limit)).mappings()]

    def newest_named(self, name: str) -> str | None:
        """The last job of a name."""
        query = sa.select(jobs.c.id).where(jobs.c.name == name, jobs.c.deleted_ms.is_(None))
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query.order_by(jobs.c.created_ms.desc()).limit(1)).scalar()

    def earlier_runs(self, row: JobRow, limit: int) -> list[str]:
        """Finished jobs of the same name that were created before this one, the latest first."""
        return self.finished(row.tenant, row.name, limit, row.created_ms)

    def finished(self, tenant: str, name: str, limit: int, before_ms: int | None = None) -> list[str]:
        """Finished jobs of this name, the latest first; only those that were created before this time."""
        query = sa.select(jobs.c.id).where(
            jobs.c.tenant == tenant,
            jobs.c.name == name,
            jobs.c.state == JobState.FINISHED.value,
            jobs.c.deleted_ms.is_(None),
            *(() if before_ms is None else (jobs.c.created_ms < before_ms,)),
        )
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query.order_by(jobs.c.created_ms.desc()).limit(limit)).scalars())

    # --- changing ------------------------------------------------------------------------------------------------

    def record(self, status: JobStatus) -> None:
        """Write down a job's state and sums; who has looked before its end does not undo it."""
        if status.ended_ms is None:
            self._update(status.job, sums_values(status), jobs.c.ended_ms.is_(None))
            return
        mine = jobs.c.id == status.job
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(jobs).where(mine).values(id=status.job))  # takes the lock, in every database
            note_end(connection, status)
            connection.execute(sa.update(jobs).where(mine).values(sums_values(status)))

    def reopen(self, status: JobStatus, ended_ms: int) -> None:
        """The job that ended at this time goes on, unless it has ended once more by now."""
        with translated_errors(), self._engine.begin() as connection:
            mine = (jobs.c.id == status.job, jobs.c.ended_ms == ended_ms)
            if connection.execute(sa.update(jobs).where(*mine).values({**sums_values(status), "drift": None})).rowcount:
                await_deliveries(connection, status.job)

    def edit(self, job: str, change: Callable[[JobSpec], JobSpec]) -> None:
        """Change a job's spec; who does so at the same time waits."""
        mine = jobs.c.id == job
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(jobs).where(mine).values(id=job))  # takes the lock, in every database
            spec = change(stored_spec(job, connection.execute(sa.select(jobs.c.spec).where(mine)).scalar_one()))
            values = {"spec": spec_values(spec), "queue": spec.queue, "name": spec.name, "labels": labels_of(spec)}
            connection.execute(sa.update(jobs).where(mine).values(values))

    def judge(self, job: str, drift: Sequence[Drift]) -> bool:
        """Write down in what an ended job differs from earlier runs; False when somebody else has done so."""
        text = orjson.dumps([asdict(each) for each in drift]).decode()
        mine = sa.and_(jobs.c.id == job, jobs.c.drift.is_(None), jobs.c.ended_ms.is_not(None))
        with translated_errors(), self._engine.begin() as connection:
            if not connection.execute(sa.update(jobs).where(mine).values(drift=text)).rowcount:
                return False
            note_drift(connection, job, drift)
            return True

    def close(self, job: str) -> None:
        """No more URLs will be submitted."""
        self._update(job, {"open": False})

    def _update(self, job: str, values: dict[str, Any], *conditions: sa.ColumnElement[bool]) -> None:
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(jobs).where(jobs.c.id == job, *conditions).values(values))

    # --- removing ------------------------------------------------------------------------------------------------

    def give_up(self, job: str, at_ms: int) -> None:
        """The job is gone for everybody; its data is removed later."""
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(jobs).where(jobs.c.id == job).values(deleted_ms=at_ms))
            connection.execute(sa.delete(idempotency).where(idempotency.c.job == job))

    def given_up(self, limit: int = 100) -> list[str]:
        """Jobs whose data waits to be removed."""
        query = sa.select(jobs.c.id).where(jobs.c.deleted_ms.is_not(None)).limit(limit)
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def is_gone(self, job: str) -> bool:
        """Is there no trace of it, not even of one that is being removed?"""
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(sa.select(jobs.c.id).where(jobs.c.id == job)).first() is None

    def remove(self, job: str) -> None:
        """The last traces of a job: its submissions, in batches, and its row."""
        self.submissions.remove(job)
        with translated_errors(), self._engine.begin() as connection:
            remove_submissions(connection, job)
            for table in (deliveries, idempotency, field_tallies, history, webhook_cursors, borrowed):
                connection.execute(sa.delete(table).where(table.c.job == job))
            connection.execute(sa.delete(jobs).where(jobs.c.id == job))

    def forget_claims(self, before_ms: int) -> None:
        """Clients' idempotency keys older than this may be used again."""
        old = (idempotency.c.created_ms < before_ms, sa.not_(idempotency.c.key.startswith(OWN)))
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.delete(idempotency).where(*old))


def _conditions(wanted: JobFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.tenant is not None:
        found.append(jobs.c.tenant == wanted.tenant)
    if wanted.state is not None:
        found.append(jobs.c.state == wanted.state.value)
    if wanted.lane is not None:
        found.append(jobs.c.queue.like(f"%.{wanted.lane}"))
    if wanted.label is not None:
        found.append(jobs.c.labels.contains(f" {wanted.label} ", autoescape=True))
    if wanted.find is not None:
        found.append(sa.or_(*(each.icontains(wanted.find, autoescape=True) for each in _NAMES)))
    if wanted.since_ms is not None:
        found.append(jobs.c.created_ms >= wanted.since_ms)
    if wanted.until_ms is not None:
        found.append(jobs.c.created_ms < wanted.until_ms)
    if wanted.before is not None:
        found.append(sa.tuple_(jobs.c.created_ms, jobs.c.id) < sa.tuple_(*map(sa.literal, wanted.before)))
    return found
