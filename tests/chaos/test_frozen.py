"""Workers that stand still for longer than their leases last, and then go on as if nothing had been."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

import psutil

from shoal.frontier.watch import Watch
from shoal.settings import Settings
from shoal.wiring import Platform, open_platform, redis_urls, with_redis
from tests.chaos.pool import worker_processes
from tests.command import Shoal
from tests.site.generated import SlowSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES = 300
LEASE_S = 3
WHILE = timedelta(seconds=60)


def _crawl(site: Server) -> tuple[str, ...]:
    limits = ("--rate", "100", "--parallel", "40", "--no-robots")
    return ("crawl", site.url, *limits, "--json", "--quiet")


@contextmanager
def frozen(processes: list[psutil.Process]) -> Generator[None]:
    """They do nothing for as long as the block lasts."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


@contextmanager
def looking(shoal: Shoal) -> Generator[tuple[Platform, Watch]]:
    """The stores of a home, and what its frontier counts."""
    settings = Settings.model_validate({"home": shoal.home})
    with open_platform(settings, rings=False) as platform, with_redis(settings) as chosen:
        watch = Watch.at(redis_urls(chosen).frontier, chosen.prefix)
        yield platform, watch
        watch.close_connections()


def test_a_worker_that_was_frozen_for_two_leases_does_no_harm_and_is_counted(shoal: Shoal) -> None:
    with serve(SlowSite(delay=0.3, pages=PAGES)) as site, shoal.running("worker"):
        wait_until(lambda: len(worker_processes(shoal)) == 3, within=WHILE)  # supervisor, main process, pool
        victims = worker_processes(shoal)
        with looking(shoal) as (platform, watch), shoal.running(*_crawl(site), "--workers", "0") as process:
            wait_until(lambda: len(site.hits) > 40, within=WHILE)
            with frozen(victims), shoal.running("worker"):
                wait_until(lambda: watch.stats().get("reaped", 0) > 0, within=WHILE)
                out, err = process.communicate(timeout=120)
                assert process.returncode == 0, err
                job = out.split('"job":"', 1)[1].split('"')[0]
                before = list(platform.pages.pages(job))
                assert watch.stats().get("late", 0) == 0
            wait_until(lambda: watch.stats().get("late", 0) > 0, within=WHILE)
            after = list(platform.pages.pages(job))
            assert [row.url for row in after] == [row.url for row in before]
            assert len({row.url for row in after}) == len(after) == PAGES
            for row in after:
                assert row.archive
                assert platform.archive.read(row.archive).url == row.url
            assert platform.frontier.known_jobs() == [], "a job that has ended is not brought back"
        assert shoal.status(job)["reconciles"]
        asked = Counter(hit.target for hit in site.hits)
        assert max(asked.values()) <= 2


def test_a_worker_that_was_frozen_leaves_nothing_of_a_job_that_was_deleted_meanwhile(shoal: Shoal) -> None:
    with serve(SlowSite(delay=0.3, pages=PAGES)) as site, shoal.running("worker"):
        wait_until(lambda: len(worker_processes(shoal)) == 3, within=WHILE)  # supervisor, main process, pool
        victims = worker_processes(shoal)
        with looking(shoal) as (platform, watch), shoal.running(*_crawl(site), "--workers", "0", "--detach") as process:
            job = process.communicate(timeout=60)[0].split('"job":"', 1)[1].split('"')[0]
            wait_until(lambda: len(site.hits) > 40, within=WHILE)
            with frozen(victims):
                platform.control.delete(job)
                wait_until(lambda: _removed(platform, job), within=WHILE)
            wait_until(lambda: watch.stats().get("late", 0) > 0, within=WHILE)
            wait_until(lambda: not (shoal.home / "archive" / job).exists(), within=WHILE)
            wait_until(lambda: list(platform.pages.pages(job)) == [], within=WHILE)
            assert list(platform.pages.items(job)) == []
            assert platform.jobs.given_up() == []
            assert platform.frontier.known_jobs() == []


def _removed(platform: Platform, job: str) -> bool:
    """What runs out is taken back, as another worker would, and then the job can be removed."""
    platform.frontier.reap()
    platform.housekeeper.tick()
    return platform.jobs.given_up() == [] and platform.jobs.get(job) is None
