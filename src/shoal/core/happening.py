"""What happens to jobs and is told to others: kinds of events, and the facts of each for programs and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from shoal.core.drift import Drift
from shoal.core.frozen import frozen
from shoal.core.job_status import JobStatus
from shoal.core.model import JobState

EventName = Literal["job.started", "job.finished", "job.failed", "job.cancelled", "job.drift", "items", "page.changed"]
STARTED, FINISHED, FAILED, CANCELLED = "job.started", "job.finished", "job.failed", "job.cancelled"
DRIFTED, ITEMS, PAGE_CHANGED, PING = "job.drift", "items", "page.changed", "ping"
EVENTS: tuple[EventName, ...] = (STARTED, FINISHED, FAILED, CANCELLED, DRIFTED, ITEMS, PAGE_CHANGED)
"""What somebody can ask to be told; a `ping` is told to whoever is tried."""
ENDS: tuple[EventName, ...] = (FINISHED, FAILED, CANCELLED)
TOLD_UNASKED: tuple[EventName, ...] = (*ENDS, DRIFTED)
"""To an endpoint that names no events."""
MAX_SUMMARY_CHARS = 500


@frozen
class Happening:
    """One thing that happened, once: its key says which."""

    key: str
    type: str
    tenant: str
    job: str
    at_ms: int
    data: Mapping[str, Any]


@frozen
class Whose:
    """A job as others know it."""

    job: str
    name: str
    labels: tuple[str, ...]
    tenant: str
    request_id: str
    created_ms: int

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "name": self.name,
            "labels": list(self.labels),
            "request_id": self.request_id,
            "created_at": moment(self.created_ms),
        }


def began(whose: Whose) -> Happening:
    """A job was submitted."""
    data = {**whose.facts, "state": JobState.RUNNING.value}
    return Happening(f"{STARTED}:{whose.job}", STARTED, whose.tenant, whose.job, whose.created_ms, data)


def ended(whose: Whose, status: JobStatus) -> Happening:
    """A job has ended, at this time; one that goes on afterwards ends once more."""
    at_ms = status.ended_ms or status.now_ms
    kind = _end_of(status)
    return Happening(f"job.ended:{whose.job}:{at_ms}", kind, whose.tenant, whose.job, at_ms, _sums(whose, status))


def drifted(whose: Whose, ended_ms: int, drifts: Sequence[Drift]) -> Happening:
    """A run does not look like the earlier ones of its name."""
    data = {**whose.facts, "drift": [each.as_json for each in drifts]}
    return Happening(f"{DRIFTED}:{whose.job}:{ended_ms}", DRIFTED, whose.tenant, whose.job, ended_ms, data)


def _end_of(status: JobStatus) -> str:
    """It failed when there was something to fetch and not one page of it could be had."""
    if status.state is JobState.CANCELLED:
        return CANCELLED
    nothing = status.counters.done <= status.redirects
    return FAILED if nothing and _missed(status) else FINISHED


def _missed(status: JobStatus) -> int:
    """Requests that ended without a page."""
    kinds = ((name.partition(":")[0], count) for name, count in status.reasons.items())
    return sum(count for outcome, count in kinds if outcome in ("dead", "robots"))


def _sums(whose: Whose, status: JobStatus) -> dict[str, Any]:
    return {
        **whose.facts,
        "state": status.state.value,
        "started_at": None if status.started_ms is None else moment(status.started_ms),
        "ended_at": None if status.ended_ms is None else moment(status.ended_ms),
        "elapsed_seconds": round(status.elapsed.total_seconds(), 3),
        "pages": status.counters.done - status.redirects,
        "errors": _missed(status),
        "received_bytes": status.counters.received,
        "reasons": dict(status.reasons),
    }


def payload(kind: str, at_ms: int, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a receiver gets."""
    return {"type": kind, "timestamp": moment(at_ms), "data": dict(data)}


def summary(kind: str, data: Mapping[str, Any]) -> str:
    """One line for people."""
    name = f"{data.get('name') or 'job'} ({data.get('job', '')})"
    sums = (
        f"{data.get('pages', 0):,} pages, {data.get('errors', 0):,} errors in {data.get('elapsed_seconds', 0):,.0f} s"
    )
    words = {
        STARTED: f"{name} has started",
        FINISHED: f"{name} has finished: {sums}",
        FAILED: f"{name} has failed, not one page could be fetched: {sums}",
        CANCELLED: f"{name} was cancelled: {sums}",
        DRIFTED: f"{name} differs from earlier runs: {_drifts(data)}",
        ITEMS: f"{name}: {data.get('count', 0):,} items",
        PAGE_CHANGED: f"{name}: {data.get('count', 1):,} pages have changed",
        PING: "This is a test of a webhook of Shoal",
    }
    return " ".join(words.get(kind, f"{name}: {kind}").split())[:MAX_SUMMARY_CHARS]


def _drifts(data: Mapping[str, Any]) -> str:
    return "; ".join(str(each["detail"]) for each in data.get("drift", ())[:3])


def moment(ms: int) -> str:
    """ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
