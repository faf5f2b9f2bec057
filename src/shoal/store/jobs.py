"""Job rows and the URLs that were submitted with them: what Redis can be rebuilt from."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.model import Counters, HostSpeed, JobState, JobStatus
from shoal.core.spec import JobSpec
from shoal.store.pages import translated_errors
from shoal.store.tables import jobs, submissions


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the database knows it."""

    id: str
    name: str
    spec: JobSpec
    """Without its URLs: these are among the submissions."""
    state: JobState
    created_ms: int
    status: JobStatus | None
    """The sums at the last change of state."""


class JobStore:
    """Jobs and their submitted URLs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, job: str, spec: JobSpec, created_ms: int) -> None:
        """Record a job; its URLs follow with `submit`."""
        values = {
            "id": job,
            "name": spec.name,
            "spec": spec.model_dump(mode="json", exclude={"urls"}, exclude_defaults=True),
            "queue": spec.queue,
            "state": JobState.RUNNING.value,
            "created_ms": created_ms,
        }
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.insert(jobs).values(values))

    def submit(self, job: str, urls: Sequence[str]) -> None:
        """Keep submitted URLs durably before the frontier sees them."""
        body = zlib.compress("\n".join(urls).encode(), 1)
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.insert(submissions).values(job=job, count=len(urls), urls=body))

    def submitted(self, job: str) -> Iterator[list[str]]:
        """The submitted URLs, batch by batch."""
        query = sa.select(submissions.c.urls).where(submissions.c.job == job).order_by(submissions.c.id)
        with translated_errors(), self._engine.connect() as connection:
            for (body,) in connection.execute(query):
                yield zlib.decompress(body).decode().split("\n")

    def get(self, job: str) -> JobRow | None:
        """One job."""
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(sa.select(jobs).where(jobs.c.id == job)).mappings().first()
        return None if row is None else _row(row)

    def find(self, start: str, limit: int = 20) -> list[str]:
        """Ids that start like this, so that people can type the first letters."""
        pattern = start.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        query = sa.select(jobs.c.id).where(jobs.c.id.like(pattern, escape="\\")).limit(limit)
        with translated_errors(), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def newest(self, limit: int = 50) -> list[JobRow]:
        """The last jobs, newest first."""
        query = sa.select(jobs).order_by(jobs.c.created_ms.desc(), jobs.c.id.desc()).limit(limit)
        with translated_errors(), self._engine.connect() as connection:
            return [_row(row) for row in connection.execute(query).mappings()]

    def record(self, status: JobStatus) -> None:
        """Write down a job's state and sums."""
        values = {
            "state": status.state.value,
            "started_ms": status.started_ms,
            "ended_ms": status.ended_ms,
            "status": _status_json(status),
        }
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(jobs).where(jobs.c.id == status.job).values(values))


def _row(row: sa.RowMapping) -> JobRow:
    status = None if row["status"] is None else _status(row["id"], row["status"])
    spec = JobSpec.model_validate(row["spec"])
    return JobRow(row["id"], row["name"], spec, JobState(row["state"]), row["created_ms"], status)


def _status_json(status: JobStatus) -> dict[str, Any]:
    return {**asdict(status), "state": status.state.value}


def _status(job: str, saved: dict[str, Any]) -> JobStatus:
    return JobStatus(
        job=job,
        state=JobState(saved["state"]),
        counters=Counters(**saved["counters"]),
        reasons=saved["reasons"],
        slowest=tuple(HostSpeed(**speed) for speed in saved["slowest"]),
        started_ms=saved["started_ms"],
        ended_ms=saved["ended_ms"],
        now_ms=saved["now_ms"],
    )
