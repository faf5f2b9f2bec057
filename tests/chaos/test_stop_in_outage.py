"""A worker that is told to stop while something that it needs is away: it is gone in time, and gives back what it
can."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from shoal.core.job_status import Counters
from tests import servers
from tests.chaos.fleet import SOON, Fleet
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES = 200
GRACE_S = 8
SLACK_S = 1.0
"""On a machine that does other things as well."""
QUIET_S = 1.5
"""Nobody has asked the site for so long: all that was under way has ended, and nothing more is leased."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A way to take something away."""

    begin: Callable[[], object]
    end: Callable[[], object]
    redis_answers: bool


@contextmanager
def _database_locked(home: Path) -> Generator[Outage]:
    other = sqlite3.connect(home / "shoal.db", isolation_level=None, check_same_thread=False)
    yield Outage(lambda: other.execute("BEGIN EXCLUSIVE"), lambda: other.execute("COMMIT"), redis_answers=True)
    other.close()


@contextmanager
def _redis_frozen(server: psutil.Process) -> Generator[Outage]:
    try:
        yield Outage(server.suspend, server.resume, redis_answers=False)
    finally:
        server.resume()


def _server(url: str) -> psutil.Process:
    socket = url.removeprefix("unix://")
    (found,) = (child for child in psutil.Process().children() if socket in " ".join(child.cmdline()))
    return found


def _wait_until_quiet(site: Server) -> None:
    wait_until(lambda: time.monotonic() - site.hits[-1].at_monotonic > QUIET_S, within=SOON)


def _stop(worker: subprocess.Popen[str]) -> tuple[float, str]:
    """(seconds from SIGTERM to its end, what it said)"""
    asked = time.monotonic()
    worker.terminate()
    _, said = worker.communicate(timeout=60)
    return time.monotonic() - asked, said


@pytest.mark.parametrize("away", ["nothing", "database locked", "redis frozen"])
def test_a_worker_told_to_stop_in_an_outage_is_gone_in_time(tmp_path: Path, away: str) -> None:
    with servers.running(servers.valkey()) as url:
        fleet = Fleet(tmp_path / "home", url)
        shoal = fleet.shoal(SHOAL_LEASE_SECONDS="60", SHOAL_GRACE_SECONDS=str(GRACE_S))
        with (
            serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site,
            shoal.running("worker", "--concurrency", "1") as worker,
        ):
            fleet.wait_for_worker()
            job = shoal.run("crawl", site.url, "--rate", "40", "--no-robots", "--detach").out.strip()
            wait_until(lambda: len(site.hits) > PAGES // 4, within=SOON)
            with _outage(away, fleet, url) as outage:
                outage.begin()
                if away != "nothing":
                    _wait_until_quiet(site)
                exit_s, said = _stop(worker)
                at_exit = fleet.counters(job) if outage.redis_answers else None
                outage.end()
            after = fleet.counters(job)
            print(f"\n{away}: exit {worker.returncode} after {exit_s:.1f} s of {GRACE_S}; {after}")
            assert worker.returncode == 0, said
            assert exit_s <= GRACE_S + SLACK_S
            _check_given_back(away, at_exit, after, said)
            if outage.redis_answers:
                _check_that_others_go_on(fleet, job, site)
        fleet.watch.close_connections()


@contextmanager
def _outage(away: str, fleet: Fleet, url: str) -> Generator[Outage]:
    if away == "database locked":
        with _database_locked(fleet.home) as outage:
            yield outage
    elif away == "redis frozen":
        with _redis_frozen(_server(url)) as outage:
            yield outage
    else:
        yield Outage(lambda: None, lambda: None, redis_answers=True)


def _check_given_back(away: str, at_exit: Counters | None, after: Counters, said: str) -> None:
    assert (after.lost, after.retries) == (0, 0)
    assert after.reconciles
    if at_exit is None:  # nobody could be told: what was leased runs out
        return
    assert at_exit.leased == 0
    assert at_exit.queued > 0
    assert ('"results_abandoned"' in said) == (away == "database locked")


def _check_that_others_go_on(fleet: Fleet, job: str, site: Server) -> None:
    """Also with what was abandoned: it is fetched a second time, and stored once."""
    shoal = fleet.shoal()
    with shoal.running("worker", "--concurrency", "1"):
        wait_until(lambda: shoal.status(job)["state"] == "finished", within=timedelta(seconds=90))
        status = shoal.status(job)
    assert status["reconciles"]
    counters = status["counters"]
    assert (counters["done"], counters["lost"], counters["dead"]) == (PAGES, 0, 0)
    asked = {hit.target for hit in site.hits}
    assert len(asked) == PAGES
    with sqlite3.connect(fleet.home / "shoal.db") as database:
        (rows,) = database.execute("SELECT count(*) FROM pages WHERE job = ?", (job,)).fetchone()
    assert rows == PAGES


def test_a_worker_told_to_stop_when_redis_is_dead_is_gone_in_time(tmp_path: Path) -> None:
    with servers.running(servers.valkey()) as url:
        fleet = Fleet(tmp_path / "home", url)
        shoal = fleet.shoal(SHOAL_LEASE_SECONDS="60", SHOAL_GRACE_SECONDS=str(GRACE_S))
        with (
            serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site,
            shoal.running("worker", "--concurrency", "1") as worker,
        ):
            fleet.wait_for_worker()
            shoal.run("crawl", site.url, "--rate", "40", "--no-robots", "--detach")
            wait_until(lambda: len(site.hits) > PAGES // 4, within=SOON)
            _server(url).kill()
            _wait_until_quiet(site)
            exit_s, said = _stop(worker)
        print(f"\nredis dead: exit {worker.returncode} after {exit_s:.1f} s of {GRACE_S}")
        assert worker.returncode == 0, said
        assert exit_s <= GRACE_S + SLACK_S
        fleet.watch.close_connections()
