"""Short ways to say what happens to a frontier."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import redis

from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import ALL_QUEUES, JobState, Lane, Lease, Level, Outcome, Request, Settlement, SettleReport
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier
from tests.waiting import wait_until

SOON = timedelta(milliseconds=1)
MINUTE = timedelta(minutes=1)
ONE_A_MINUTE = 1 / 60
TICK_S = 0.001
"""The frontier counts whole milliseconds."""


def pages(host: str, count: int, *, first: int = 0, level: Level = Level.NORMAL) -> list[Request]:
    return [Request(Url("https", host, f"/{n}"), level=level) for n in range(first, first + count)]


def start(frontier: Frontier, job: str, requests: Sequence[Request], **spec: Any) -> None:
    """A job without limits, unless they are given."""
    limits: dict[str, Any] = {"rate": "unlimited", **spec}
    assert frontier.create(job, JobSpec(**limits))
    assert frontier.admit(job, requests).admitted == len(requests)


def prove(frontier: Frontier, *hosts: str) -> None:
    """These hosts have answered before: they take as many requests at once as a job without limits likes."""
    start(frontier, "scout", [page for host in hosts for page in pages(host, 1)], lane=Lane.HIGH)
    settle(frontier, lease(frontier))
    frontier.cancel("scout")
    assert frontier.forget("scout")


def lease(frontier: Frontier, limit: int = 100, lease_for: timedelta = MINUTE) -> tuple[Lease, ...]:
    return frontier.lease(queues=ALL_QUEUES, limit=limit, lease_for=lease_for).leases


def lease_soon(frontier: Frontier, limit: int = 100) -> tuple[Lease, ...]:
    """The next leases that can be had."""
    leases: list[Lease] = []

    def leased() -> bool:
        leases.extend(lease(frontier, limit))
        return bool(leases)

    wait_until(leased)
    return tuple(leases)


def settle(frontier: Frontier, leases: Sequence[Lease], outcome: Outcome = Outcome.DONE, **more: Any) -> SettleReport:
    return frontier.settle([Settlement(lease, outcome, **more) for lease in leases])


def let_pass(duration: timedelta) -> None:
    since = time.monotonic()
    wait_until(lambda: time.monotonic() - since > duration.total_seconds())


def reap_soon(frontier: Frontier) -> tuple[int, tuple[str, ...]]:
    """What comes back once some leases have run out."""
    wait_until(lambda: frontier.glance(()).expired > 0)
    return frontier.reap()


def targets(leases: Sequence[Lease]) -> list[str]:
    return [lease.request.url.target for lease in leases]


def jobs(leases: Sequence[Lease]) -> Counter[str]:
    return Counter(lease.job for lease in leases)


def status_of(frontier: Frontier, job: str) -> JobStatus:
    status = frontier.status(job)
    assert status is not None
    assert status.counters.reconciles
    return status


def counters(frontier: Frontier, job: str) -> Counters:
    return status_of(frontier, job).counters


def state(frontier: Frontier, job: str) -> JobState | None:
    status = frontier.status(job)
    return status and status.state


class JobClock:
    """Sets a job's moments back, as if time had passed since."""

    def __init__(self, client: redis.Redis, prefix: str, job: str = "job") -> None:
        self._client = client
        self._key = f"{prefix}:job:{job}"

    def set_back(self, **moments: timedelta) -> None:
        seconds, micros = self._client.time()  # pyright: ignore[reportUnknownMemberType]
        for name, ago in moments.items():
            at = seconds * 1000 + micros // 1000 - ago // timedelta(milliseconds=1)
            assert self._client.hset(self._key, name, str(at)) == 0
