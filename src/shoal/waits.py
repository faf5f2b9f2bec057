"""Why nothing is fetched for a job that has work: what is away, or the hosts it waits for, each with its reason."""

from __future__ import annotations

from shoal.core.model import JobState, JobStatus
from shoal.core.trouble import explain
from shoal.wiring import Platform

LOOK_AT = 50


def waits_of(platform: Platform, status: JobStatus) -> str | None:
    """For people: `shop.example: paused by an operator`; None when pages came lately, or nobody knows why not."""
    if paused := explain(status.troubles):
        return paused
    if not status.state.ended and platform.rebuild.places([status.job])[0]:
        return f"its rebuild: it is being rebuilt from the database (at once: shoal recover {status.job})"
    counters = status.counters
    if status.state is not JobState.RUNNING or not counters.queued or counters.leased or status.rate:
        return None
    hosts = platform.watch.waiting_hosts(status.job, LOOK_AT)
    return "; ".join(f"{wait.host}: {wait.reason}" for wait in platform.hosts.waits(hosts)) or None


def nobody_works(platform: Platform, status: JobStatus) -> bool:
    """Does the job run on paper only, since no worker has shown itself lately?"""
    return status.state is JobState.RUNNING and not platform.watch.workers()
