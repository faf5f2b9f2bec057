"""Hosts and the ways to them: limits, what was asked, proxies."""

from __future__ import annotations

from typing import Literal

from flask_openapi3.models.media_type import MediaType
from pydantic import BaseModel, ConfigDict, Field

from shoal.api.answers.listing import Listing
from shoal.api.schemas import HostState
from shoal.core.host_status import Breaker
from shoal.core.manners import LimitSource
from shoal.core.model import Lane


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
