"""The shapes of answers, for the OpenAPI document; `present` makes them."""

from __future__ import annotations

from typing import Any, Literal

from flask_openapi3.models.media_type import MediaType
from pydantic import BaseModel, ConfigDict, Field

from shoal.api.schemas import HostState
from shoal.core.host_status import Breaker
from shoal.core.manners import LimitSource
from shoal.core.model import Engine, JobState, Lane
from shoal.core.trouble import Need
from shoal.store.extractions import ExtractionState


class Problem(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    errors: list[FieldProblem] = Field(default_factory=list["FieldProblem"])


class FieldProblem(BaseModel):
    field: str
    detail: str


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


class SlowHost(BaseModel):
    host: str
    latency_ms: int


class DriftView(BaseModel):
    what: Literal["volume", "quarantine", "fill", "type"]
    field: str
    value: str
    expected: str
    runs: int = Field(description="Earlier runs that were looked at.")
    detail: str


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
    counters: CountersView | None = Field(description="Null when Redis has lost the job.")
    reconciles: bool = Field(description="admitted = queued + delayed + leased + done + dead + dropped")
    errors: dict[str, int] = Field(description="Requests given up, by reason.")
    reasons: dict[str, int] = Field(description="Every outcome with a reason, retries included.")
    slowest_hosts: list[SlowHost]
    drift: list[DriftView] = Field(description="In what it differs from earlier jobs of its name; after its end.")
    spec: dict[str, Any]
    links: Links


class Listing(BaseModel):
    cursor: str | None = Field(description="Go on behind the last row with ?cursor=…; also later, for what comes then.")
    more: bool = Field(description="Is there more at this moment?")


class JobList(Listing):
    data: list[JobView]


class PageView(BaseModel):
    id: int
    job: str
    url: str
    host: str
    status: int
    depth: int
    attempt: int
    content_type: str
    charset: str
    size: int
    elapsed_ms: float
    fetched_at: str
    redirect: str | None
    canonical: str | None
    fingerprint: str = Field(description="Of its URL: 16 hex digits.")
    duplicate_of: str | None = Field(description="Fingerprint of an earlier page that says the same.")
    request_id: str
    engine: str = Field(description="What fetched it: http or browser.")
    notes: dict[str, Any] | None = Field(
        description="What was seen while it was rendered: console errors and the like."
    )
    body: str | None = Field(description="Where the stored body is.")
    captures: dict[str, str] = Field(
        description="Where the document after all scripts, the screenshot and the PDF of a rendered page are."
    )


class PageList(Listing):
    data: list[PageView]


class LineageView(BaseModel):
    """Where an item comes from."""

    fetched_at: str | None
    attempt: int | None = Field(description="Counted from 0.")
    archive_key: str | None = Field(description="The segment with the record that it was read from.")
    archive_offset: int | None
    archive_length: int | None
    version: str


class ItemView(BaseModel):
    id: int
    url: str
    number: int
    data: dict[str, Any]
    version: str = Field(description="Of the extraction.")
    lineage: LineageView | None = Field(default=None, description="With ?lineage=true.")


class ItemList(Listing):
    data: list[ItemView]


class ExtractionView(BaseModel):
    job: str
    version: str
    state: ExtractionState
    total: int = Field(description="Stored pages when it began, without redirects.")
    pages: int = Field(description="Of these, done.")
    items: int
    failed: int = Field(description="Pages that could not be read.")
    reasons: dict[str, int] = Field(description="Why not.")
    error: str
    created_at: str
    ended_at: str | None
    spec: dict[str, Any]


class ExtractionList(BaseModel):
    data: list[ExtractionView]


class QuarantineView(ItemView):
    reasons: list[str]


class QuarantineList(Listing):
    data: list[QuarantineView]


class FieldView(BaseModel):
    filled: int
    fill_rate: float
    type: str
    types: dict[str, int]
    distinct: int
    distinct_is_exact: bool
    low: float | str | None = Field(description="Of numbers and dates; of texts and lists their length.")
    high: float | str | None


class FieldGroup(BaseModel):
    items: int
    fields: dict[str, FieldView]


class FieldsView(FieldGroup):
    complete: bool = Field(description="Are all items counted?")
    quarantined: int
    drift: list[DriftView]
    hosts: dict[str, FieldGroup]


class ErrorView(BaseModel):
    id: int
    url: str
    host: str
    outcome: str
    reason: str
    detail: str
    depth: int
    attempts: int
    at: str


class ErrorList(Listing):
    data: list[ErrorView]


class DeliveryView(BaseModel):
    id: int
    version: str
    output: dict[str, Any]
    state: str
    rows: int
    parts: int
    tries: int
    message: str
    updated_at: str


class DeliveryList(BaseModel):
    data: list[DeliveryView]


class Replayed(BaseModel):
    replayed: int


class ScrapeError(BaseModel):
    url: str
    reason: str
    detail: str
    attempts: int


class Scraped(BaseModel):
    """The one page, or why there is none."""

    id: str = Field(description="The job that fetches it.")
    state: JobState
    request_id: str
    page: PageView | None
    item: dict[str, Any] | None = Field(description="The first of its items.")
    items: list[dict[str, Any]] = Field(description="All of them, up to a cap; the job's results have the rest.")
    more: bool = Field(description="Are there more items than these?")
    error: ScrapeError | None
    links: Links


class DecisionView(BaseModel):
    at: str
    what: str
    reason: str


class HostWord(BaseModel):
    """What an operator has said, in one place."""

    rate: float | Literal["unlimited"] | None
    parallel: int | Literal["unlimited"] | None
    paused: bool
    note: str
    set_at: str


class HostView(BaseModel):
    host: str
    state: HostState
    reason: str = Field(description="Of the newest decision about it.")
    rate: float | Literal["unlimited"] | None = Field(description="By an operator's word; null: as the others say.")
    parallel: int | Literal["unlimited"] | None
    paused: bool
    note: str
    rate_source: Literal["operator", "file", "robots", ""] = Field(description="Empty: each job's own, or the default.")
    parallel_source: Literal["operator", "file", ""]
    pace: float | None = Field(description="Requests a second that it is asked at the most, because it takes no more.")
    crawl_delay_seconds: float | None = Field(description="From its robots.txt.")
    hold_seconds: float
    next_slot_seconds: float
    in_flight: int
    latency_ms: int | None
    waiting_jobs: int
    lane: Lane | None = Field(description="`slow` when it has proved slow; null: as the jobs say.")
    breaker: Breaker
    probe_seconds: float = Field(description="With an open breaker: until the next probe.")
    group: str
    address: str
    decisions: list[DecisionView] = Field(description="The newest first.")
    operator: HostWord | None = Field(description="Said by `shoal hosts set` or here.")
    file: HostWord | None = Field(description="Said in the file of hosts.")
    last_used_at: str | None


class HostList(Listing):
    data: list[HostView]


class AuditEntry(BaseModel):
    """One time that the host was asked."""

    id: int
    at: str
    job: str
    url: str
    status: int = Field(description="0 when it did not answer.")
    reason: str
    rate: float | Literal["unlimited"] = Field(description="The limit at that moment, in requests a second.")
    parallel: int | Literal["unlimited"]
    source: LimitSource
    robots: str = Field(description="The version of robots.txt that held.")
    rule: str = Field(description="Its line that decided.")


class AuditList(Listing):
    model_config = ConfigDict(openapi_extra={"content": {"text/csv": MediaType()}})  # type: ignore[typeddict-unknown-key]

    data: list[AuditEntry]


class ProxyView(BaseModel):
    pool: str
    proxy: str = Field(description="Its URL, or the template that makes them, without credentials.")
    id: str
    rotate: Literal["request", "host", "session"]
    score: float = Field(description="0 to 1: how well it has done lately.")
    in_flight: int
    failures: int = Field(description="In a row.")
    rest_seconds: float = Field(description="It is not used for so long.")


class ProxyList(Listing):
    data: list[ProxyView]


class WorkerView(BaseModel):
    name: str
    queues: list[str]
    processes: int
    active: int
    slices: int
    memory_mb: int
    started_at: str
    version: str


class WorkerList(BaseModel):
    data: list[WorkerView]


class QueueView(BaseModel):
    queue: str
    queued: int
    delayed: int
    leased: int
    jobs_due: int
    workers: int = Field(description="Processes that serve it.")


class QueueList(BaseModel):
    data: list[QueueView]


class Capacity(BaseModel):
    urls: int
    max_urls: int
    memory_bytes: int
    max_memory_bytes: int


class TroubleView(BaseModel):
    what: Need
    message: str
    seconds: float = Field(description="How long it has lasted.")
    worker: str = Field(description="The process that waits.")


class StatsView(BaseModel):
    version: str
    jobs: dict[str, int] = Field(description="Jobs of this key's tenant, by state.")
    frontier: Capacity
    workers: int
    processes: int
    outcomes: dict[str, int] = Field(description="Of all jobs since the frontier began.")
    leases_reaped: int
    fence_refusals: int
    slices: int
    troubles: list[TroubleView] = Field(description="What workers cannot use at the moment.")
    outages: dict[str, int] = Field(description="How often worker processes had to wait for what.")


class Health(BaseModel):
    status: Literal["ok"]


class Check(BaseModel):
    ok: bool
    detail: str


class Readiness(BaseModel):
    status: Literal["ready", "not ready"]
    checks: dict[str, Check]
