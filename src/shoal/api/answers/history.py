"""Charts."""

from __future__ import annotations

from pydantic import BaseModel, Field


class JobTotals(BaseModel):
    """Sums at the end of a step."""

    pages: int
    redirects: int
    errors: int
    retries: int
    robots: int
    filtered: int
    received: int
    items: int


class FleetTotals(JobTotals):
    leases_reaped: int
    fence_refusals: int
    slices: int


class ChartPoint(BaseModel):
    """One step. Rates are a second, over the time that is known of it; null where nobody looked."""

    at: str = Field(description="When the step begins.")
    covered_s: float = Field(description="How much of the step is known. A rate times this is what happened in it.")
    pages_per_s: float | None
    redirects_per_s: float | None
    errors_per_s: float | None = Field(description="Requests given up.")
    retries_per_s: float | None
    robots_per_s: float | None
    filtered_per_s: float | None
    received_per_s: float | None = Field(description="Bytes.")
    items_per_s: float | None
    reasons: dict[str, float] = Field(
        description="Outcomes with a reason, a second, such as dead:http_404: the 20 most frequent of the step."
    )
    queued: int | None
    delayed: int | None
    leased: int | None


class JobPoint(ChartPoint):
    totals: JobTotals | None


class HistoryDepth(BaseModel):
    queued: int
    delayed: int
    leased: int


class FleetPoint(ChartPoint):
    leases_reaped_per_s: float | None
    fence_refusals_per_s: float | None
    slices_per_s: float | None
    jobs: int | None = Field(description="Jobs that live.")
    workers: int | None
    processes: int | None
    slices_active: int | None
    redis_memory_bytes: int | None
    hosts: dict[str, int] | None = Field(description="The last 500 hosts, by state.")
    hosts_throttled: int | None = Field(description="Of these, those that are slowed, held, tripped or down.")
    queues: dict[str, HistoryDepth] | None = Field(description="What waits in each queue.")
    totals: FleetTotals | None


class ChartView(BaseModel):
    from_: str = Field(alias="from")
    to: str
    step_s: int


class JobHistory(ChartView):
    job: str
    points: list[JobPoint]


class FleetHistory(ChartView):
    points: list[FleetPoint]
