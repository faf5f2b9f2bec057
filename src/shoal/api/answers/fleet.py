"""Workers, queues, sums and health."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from shoal.core.trouble import Need


class WorkerView(BaseModel):
    name: str
    queues: list[str]
    processes: int
    active: int
    slices: int
    memory_mb: int
    started_at: str
    version: str
    pages: int = Field(description="Results delivered since it started.")
    last_progress_at: str | None = Field(description="When the last of them was.")
    browsers: int
    rendering: int = Field(description="Pages that are in these browsers now.")
    sockets: int = Field(description="Fetches at once in one process.")
    pace: float = Field(description="Pages a second of one process that is full; 0: none was lately.")


class WorkerList(BaseModel):
    data: list[WorkerView]


class QueueAdviceView(BaseModel):
    queue: str
    processes: int = Field(description="That serve it.")
    busy: int = Field(description="Of these, in a slice for it or for another queue.")
    need: float = Field(description="Processes that it would keep busy; of several queues, these add up.")
    useful: int = Field(description="The same as a whole number, for workers that serve nothing else.")
    why: str


class KindAdviceView(BaseModel):
    kind: Literal["http", "browser"]
    processes: int
    busy: int
    useful: int = Field(description="For all of its queues together.")


class AdviceView(BaseModel):
    queues: list[QueueAdviceView]
    kinds: list[KindAdviceView]


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


class OverviewView(StatsView):
    """All that the first look at a fleet needs, in one answer."""

    at: str
    pages: int = Field(description="Fetched by all jobs since the frontier began, redirects too.")
    queues: list[QueueView]
    active: int = Field(description="Slices that run.")
    hosts: dict[str, int] = Field(description="Hosts that were used lately, by state.")


class SessionView(BaseModel):
    tenant: str
    scopes: list[Literal["submit", "read", "admin"]]
    fleet: bool = Field(description="May it see sums over all tenants?")
    key: str | None = Field(description="The public prefix of the key; null where none is asked for.")
    csrf: str | None = Field(description="For a browser that is logged in: X-CSRF-Token of each change.")


class Health(BaseModel):
    status: Literal["ok"]


class Check(BaseModel):
    ok: bool
    detail: str


class Readiness(BaseModel):
    status: Literal["ready", "not ready"]
    checks: dict[str, Check]
