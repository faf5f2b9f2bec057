"""What is known about jobs, as values and as rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
import sqlalchemy as sa
from pydantic import ValidationError

from shoal.core.access import DEFAULT_TENANT
from shoal.core.drift import Drift
from shoal.core.frozen import frozen
from shoal.core.host_status import HostSpeed
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState
from shoal.core.spec import STORED, JobSpec
from shoal.errors import StoreUnavailable


@frozen
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
    tenant: str = DEFAULT_TENANT
    request_id: str = ""
    open: bool = False
    """More URLs may be submitted."""
    drift: tuple[Drift, ...] | None = None
    """In what it differs from earlier runs; None before that was looked at."""
    trace: str = ""
    """The `traceparent` of its submission."""


@frozen
class NewJob:
    """A job about to be recorded."""

    id: str
    spec: JobSpec
    created_ms: int
    tenant: str = DEFAULT_TENANT
    request_id: str = ""
    allowed: str = ""
    """The operator's word that allows its output, for one that came over the API."""
    trace: str = ""
    """The `traceparent` of its submission; empty when nothing is traced."""


def labels_of(spec: JobSpec) -> str:
    """As they are looked for: each between blanks."""
    return f" {' '.join(spec.labels)} " if spec.labels else ""


def spec_values(spec: JobSpec) -> dict[str, Any]:
    """A spec as it is stored."""
    return spec.model_dump(mode="json", exclude={"urls", "open"}, exclude_defaults=True)


def stored_spec(job: str, saved: dict[str, Any]) -> JobSpec:
    """A spec that was checked when it was submitted; settings of a newer version are left out."""
    known = {name: value for name, value in saved.items() if name in JobSpec.model_fields}
    try:
        return JobSpec.model_validate(known, context=STORED)
    except ValidationError as exc:
        raise StoreUnavailable(f"the settings of job {job} in the database cannot be read: {exc}") from exc


def job_of(row: sa.RowMapping) -> JobRow:
    """The job that a row is about."""
    status = None if row["status"] is None else _status(row["id"], row["status"])
    spec = stored_spec(row["id"], row["spec"])
    return JobRow(
        row["id"],
        row["name"],
        spec,
        JobState(row["state"]),
        row["created_ms"],
        status,
        row["tenant"],
        row["request_id"],
        row["open"],
        None if row["drift"] is None else tuple(Drift(**drift) for drift in orjson.loads(row["drift"])),
        row["trace"],
    )


def sums_values(status: JobStatus) -> dict[str, Any]:
    """State and sums as columns of a job's row."""
    return {
        "state": status.state.value,
        "started_ms": status.started_ms,
        "ended_ms": status.ended_ms,
        "status": _status_json(status),
    }


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
        open=saved.get("open", False),
        rested_ms=saved.get("rested_ms", 0),
    )
