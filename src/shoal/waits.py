"""Why nothing is fetched for a job that has work: the hosts that it waits for, each with its reason."""

from __future__ import annotations

from shoal.core.model import JobState, JobStatus
from shoal.frontier.waiting import Waiting
from shoal.wiring import Platform, redis_urls


def waits_of(platform: Platform, status: JobStatus) -> str | None:
    """For people: `shop.example: paused by an operator`; None when pages came lately, or the hosts are not why."""
    counters = status.counters
    if status.state is not JobState.RUNNING or not counters.queued or counters.leased or status.rate:
        return None
    waiting = Waiting.at(redis_urls(platform.settings).frontier, platform.settings.prefix)
    try:
        hosts = waiting.hosts(status.job)
    finally:
        waiting.close_connections()
    return "; ".join(f"{wait.host}: {wait.reason}" for wait in platform.hosts.waits(hosts)) or None
