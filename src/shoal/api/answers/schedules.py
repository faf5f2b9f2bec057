"""Schedules, and what became of their slots."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from shoal.api.answers.listing import Listing
from shoal.core.schedule import CatchUp, Kind, Overlap
from shoal.store.schedule_runs import RunState


class RunView(BaseModel):
    id: int
    slot: str = Field(description="The moment that it is named after.")
    slots: int = Field(description="Of slots that were skipped together, how many.")
    last_slot: str = Field(description="The last of these.")
    kind: Kind
    state: RunState
    reason: str | None = Field(
        description="Why it was skipped (missed, too_many, overlap, superseded, paused) or failed."
    )
    detail: str | None
    job: str | None
    other: str | None = Field(description="The job that stood in its way.")
    previous: str | None = Field(description="The schedule's last finished job when it began.")
    due_at: str
    started_at: str | None
    late_seconds: float | None
    ended_at: str | None
    pages: int | None = Field(description="When its job has ended; kept when that is removed.")
    failed: int | None
    items: int | None
    seconds: float | None


class TimingView(BaseModel):
    words: str
    cron: str | None
    every: float | None = Field(description="Seconds.")
    timezone: str
    jitter: float = Field(description="Seconds.")
    start: str | None
    end: str | None
    catch_up: CatchUp
    overlap: Overlap


class ScheduleView(TimingView):
    name: str
    tenant: str
    state: Literal["active", "paused", "ended"]
    next_at: str | None = Field(description="When the next slot is due, jitter included.")
    next_slot: str | None
    last: RunView | None
    created_at: str
    changed_at: str
    waiting_for: str | None = Field(description="Why no slot would be started at the moment.")
    url_count: int | None = Field(default=None, description="Of one schedule, not of a list.")
    urls: list[str] | None = Field(default=None, description="The first hundred.")
    job: dict[str, Any] | None = Field(default=None, description="Its job, without URLs and secrets.")


class ScheduleList(Listing):
    data: list[ScheduleView]


class RunList(Listing):
    data: list[RunView]


class SlotView(BaseModel):
    slot: str
    local: str = Field(description="The same moment on the clock of the time zone.")
    due_at: str | None = Field(description="With jitter; of a schedule that exists.")


class SlotList(BaseModel):
    words: str
    timezone: str
    data: list[SlotView]
