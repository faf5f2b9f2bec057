"""Workers that share a Redis of the tests."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from shoal.core.job_status import Counters
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.watch import Watch
from shoal.redis_url import RedisUrls
from tests.command import Shoal
from tests.waiting import wait_until

SOON = timedelta(seconds=60)


class Fleet:
    """Workers on one Redis, told apart by their prefix."""

    def __init__(self, home: Path, url: str) -> None:
        self.url = f"{url}?db=9"
        self.prefix = f"sup-{uuid4().hex[:8]}"
        self.home = home
        self.watch = Watch.at(RedisUrls.of(self.url).frontier, self.prefix)

    def shoal(self, **variables: str) -> Shoal:
        given = {"SHOAL_REDIS_URL": self.url, "SHOAL_PREFIX": self.prefix, "SHOAL_LEASE_SECONDS": "3", **variables}
        return Shoal(self.home, tuple(given.items()))

    def restarts(self, reason: str) -> int:
        return self.watch.stats().get(f"restarts:{reason}", 0)

    def counters(self, job: str) -> Counters:
        """Of a job, as the frontier has them."""
        frontier = Frontier.at(RedisUrls.of(self.url).frontier, self.prefix)
        status = frontier.status(job)
        frontier.close_connections()
        assert status is not None
        return status.counters

    def take_turns(self, host: str, until_next: timedelta) -> None:
        """The next turn of a host comes so much later."""
        frontier = Frontier.at(RedisUrls.of(self.url).frontier, self.prefix)
        frontier.configure_host(host, HostChange(rate=1 / until_next.total_seconds()))
        frontier.drop_in(host)
        frontier.close_connections()

    def wait_for_worker(self, workers: int = 1) -> None:
        wait_until(lambda: len(self.watch.workers()) >= workers, within=SOON)
