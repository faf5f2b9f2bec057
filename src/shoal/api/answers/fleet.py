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
