"""What became of one URL of a job, or would have: steps, each with its time and reason, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum

from shoal.core.frozen import frozen

Detail = Mapping[str, str | int | float | bool | None]


class Verdict(StrEnum):
    """Where the way of a URL has come to."""

    STORED = "stored"
    """There is a page."""
    REDIRECTED = "redirected"
    """It points to another URL, which is a request of its own."""
    FAILED = "failed"
    """Given up: a dead letter."""
    ROBOTS = "robots"
    """Refused by robots.txt, or by the page itself."""
    FILTERED = "filtered"
    """Left out by a rule or a budget of the job."""
    QUEUED = "queued"
    DELAYED = "delayed"
    """It waits for another try."""
    LEASED = "leased"
    """A worker has it."""
    DROPPED = "dropped"
    """It was waiting when the job was cancelled."""
    NEVER_SEEN = "never_seen"
    MOVING = "moving"
    """It is on its way between two places, or its job is being rebuilt: ask again."""


@frozen
class Step:
    """Something that happened to a URL, or would have."""

    name: str
    reason: str
    """For people: one sentence."""
    at_ms: int | None = None
    detail: Detail = field(default_factory=dict[str, str | int | float | bool | None])
    """The same for programs."""
    recorded: bool = True
    """False: nobody wrote it down; it follows from the job's rules as they are."""

    @property
    def as_json(self) -> dict[str, object]:
        at = None if self.at_ms is None else moment(self.at_ms)
        told = {"name": self.name, "at": at, "reason": self.reason, "recorded": self.recorded}
        return {**told, "detail": dict(self.detail)}


@frozen
class Explanation:
    """The way of one URL through one job."""

    job: str
    asked: str
    """As it was written."""
    url: str
    """Its canonical form, by which the job knows it."""
    verdict: Verdict
    summary: str
    """The verdict in one sentence."""
    steps: tuple[Step, ...]
    certain: bool = True
    """False: it follows from the job's rules, since what they leave out is not kept one by one."""

    @property
    def as_json(self) -> dict[str, object]:
        return {
            "job": self.job,
            "asked": self.asked,
            "url": self.url,
            "verdict": self.verdict.value,
            "certain": self.certain,
            "summary": self.summary,
            "steps": [step.as_json for step in self.steps],
        }


def moment(at_ms: float) -> str:
    """A time as it is shown."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
