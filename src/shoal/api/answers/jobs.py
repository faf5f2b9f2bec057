"""Jobs: what was submitted, and how they stand."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from shoal.api.answers.listing import Listing
from shoal.api.answers.quality import DriftView
from shoal.core.model import Engine, JobState, Lane


class Links(BaseModel):
    self: str
    urls: str
    pages: str
    items: str
    fields: str
    quarantine: str
    errors: str
    dead: str
    export: str
    events: str


class AcceptedJob(BaseModel):
    id: str
    state: JobState
    accepted: int
    seen: int
    filtered: int
    repeated: bool
    request_id: str
    links: Links


class LineProblem(BaseModel):
    line: int
    detail: str


class AddedUrls(BaseModel):
    """What became of the lines."""

    lines: int
    accepted: int
    seen: int
    filtered: int
    invalid: int
    problems: list[LineProblem]


class CountersView(BaseModel):
    seen: int
    admitted: int
    filtered: int
    duplicates: int
    queued: int
    delayed: int
    leased: int
    done: int
    dead: int
    dropped: int
    retries: int
    lost: int
    received: int
    saved: int = Field(description="Bytes of pages that were carried over, and did not have to come.")


class TotalsView(BaseModel):
    discovered: int
    fetched: int
    failed: int
    filtered: int
    robots: int
    duplicates: int
    pending: int


class SlowHost(BaseModel):
    host: str
    latency_ms: int


class JobView(BaseModel):
    id: str
    name: str
    labels: list[str]
    state: JobState
    open: bool
    lane: Lane
    engine: Engine
    request_id: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    elapsed_seconds: float
    pages: int
    redirects: int
    pending: int
    rate: float = Field(description="Pages a second, over the last five to ten seconds.")
    eta_seconds: float | None = Field(description="Until what waits now is done, at this rate.")
    waiting_for: str | None = Field(description="Why nothing happens although there is something to do.")
    carried: dict[str, int] = Field(
        description="Pages that were carried over from earlier jobs: not_modified, not_due, fresh."
    )
    counters: CountersView | None = Field(description="Null when Redis has lost the job.")
    totals: TotalsView | None = Field(
        description="discovered = fetched + failed + filtered + robots + duplicates + pending. Null like counters."
    )
    reconciles: bool = Field(description="Do totals and counters add up? They always should.")
    errors: dict[str, int] = Field(description="Requests given up, by reason.")
    reasons: dict[str, int] = Field(description="Every outcome with a reason, retries included.")
    slowest_hosts: list[SlowHost]
    drift: list[DriftView] = Field(description="In what it differs from earlier jobs of its name; after its end.")
    spec: dict[str, Any]
    links: Links


class JobList(Listing):
    data: list[JobView]


class Replayed(BaseModel):
    replayed: int
