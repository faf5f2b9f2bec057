"""Why nothing is fetched for a job that has work: what or who is away, or the hosts it waits for, with reasons."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.job_status import JobStatus
from shoal.core.model import CONTROL_QUEUE, Engine, JobState, queue_name
from shoal.core.spec import JobSpec
from shoal.core.trouble import explain
from shoal.wiring import Platform

LOOK_AT = 50
KEPT_WITHIN_S = 60.0
"""Whoever keeps house takes a sample every few seconds."""


def waits_of(platform: Platform, status: JobStatus) -> str | None:
    """For people: `shop.example: paused by an operator`; None when pages came lately, or nobody knows why not."""
    if paused := explain(status.troubles):
        return paused
    if not status.state.ended and platform.rebuild.places([status.job])[0]:
        return f"its rebuild: it is being rebuilt from the database (at once: shoal recover {status.job})"
    counters = status.counters
    if (row := platform.jobs.get(status.job)) and (queue := queue_in_vain(platform, status, row.spec)):
        return f"a worker: none serves {queue} (start one: shoal worker --queues {queue})"
    if status.state is not JobState.RUNNING or not counters.queued or counters.leased or status.rate:
        return None
    hosts = platform.watch.waiting_hosts(status.job, LOOK_AT)
    return "; ".join(f"{wait.host}: {wait.reason}" for wait in platform.hosts.waits(hosts)) or None


def queue_in_vain(platform: Platform, status: JobStatus, spec: JobSpec) -> str:
    """The queue in which a job waits although none of the living workers serves it; empty when there is none."""
    counters = status.counters
    if status.state is not JobState.RUNNING or not counters.pending or counters.leased or status.rate:
        return ""
    beats = platform.watch.workers()
    rendered = platform.watch.queues() if status.reasons.get("retry:needs_browser") else ()
    return unserved(spec, beats, rendered) if beats else ""


def unserved(spec: JobSpec, beats: Iterable[WorkerBeat], depths: Iterable[QueueDepth]) -> str:
    """The first queue of a job that has something in it and that nobody serves; empty when there is none."""
    served = {queue for beat in beats for queue in beat.queues}
    if spec.queue not in served:
        return spec.queue
    rendered = queue_name(Engine.BROWSER, spec.lane)
    if spec.engine is not Engine.AUTO or rendered in served:
        return ""
    return rendered if any(depth.queue == rendered and depth.pending for depth in depths) else ""


def nobody_works(platform: Platform, status: JobStatus) -> bool:
    """Does the job run on paper only, since no worker has shown itself lately?"""
    return status.state is JobState.RUNNING and not platform.watch.workers()


def nobody_keeps_house(platform: Platform) -> str | None:
    """Why slots of schedules would pass unnoticed: nobody serves `control`, or no beat calls for it."""
    since = [beat.started_ms for beat in platform.watch.workers() if CONTROL_QUEUE in beat.queues]
    if not since:
        return "no worker serves control, so nothing is started: shoal up, or shoal worker --queues control --beat"
    age = platform.history.age_s()
    began_s = (platform.history.now_ms() - max(since)) / 1_000
    if (age is None or age > KEPT_WITHIN_S) and began_s > KEPT_WITHIN_S:  # who has just begun has had no call so far
        return "no beat calls for the housekeeping, so nothing is started: shoal beat, or shoal worker --beat"
    return None
