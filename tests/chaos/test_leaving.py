"""Ctrl-C in a crawl while something that it needs is away: it says so at once, leaves soon, and nothing is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import pytest

from tests.command import Shoal, embedded_redis
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 200
LEAVES_S = 15
"""Far less than the half minute that a call to what is away may hang."""


@contextmanager
def frozen_redis(shoal: Shoal) -> Generator[None]:
    server = embedded_redis(shoal)
    server.suspend()
    try:
        yield
    finally:
        server.resume()


@contextmanager
def dead_redis(shoal: Shoal) -> Generator[None]:
    """Nobody starts it anew, since its guardian stands still."""
    guardian = int((shoal.home / "redis" / "guardian.pid").read_text())
    os.kill(guardian, signal.SIGSTOP)
    try:
        embedded_redis(shoal).kill()
        yield
    finally:
        os.kill(guardian, signal.SIGCONT)


@contextmanager
def locked_database(shoal: Shoal) -> Generator[None]:
    other = sqlite3.connect(shoal.home / "shoal.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.execute("COMMIT")
        other.close()


@pytest.mark.parametrize("away", [frozen_redis, dead_redis, locked_database])
def test_ctrl_c_in_an_outage_is_a_stop_and_not_an_error(
    shoal: Shoal, away: Callable[[Shoal], AbstractContextManager[None]]
) -> None:
    options = ("--rate", "50", "--no-robots", "--workers", "1")
    with serve(LinkedSite(pages=PAGES, links=20, size=1_000)) as site:
        process = shoal.start("crawl", site.url, *options)
        try:
            wait_until(lambda: len(site.hits) >= 30, within=timedelta(seconds=30))
            assert process.stderr is not None
            with away(shoal):
                assert any("paused for" in line for line in process.stderr)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=LEAVES_S)
        finally:
            process.kill()
            process.communicate()
        told = err.splitlines()
        assert process.returncode == 130, err
        assert any(line.startswith("stopping") for line in told[:2]), err
        assert "error" not in err
        job = err.rsplit("shoal resume ", 1)[1].split()[0]
        done = shoal.run("resume", job, "--workers", "1", "--json")
    assert done.code == 0, done.err
    assert (done.json["pages"], done.json["reconciles"]) == (PAGES, True)


def test_a_locked_database_is_soon_said_with_one_clock_and_so_is_its_end(shoal: Shoal) -> None:
    options = ("--rate", "50", "--no-robots", "--workers", "1", "--json")
    with (
        serve(LinkedSite(pages=PAGES, links=20, size=1_000)) as site,
        shoal.running("crawl", site.url, *options) as process,
    ):
        wait_until(lambda: len(site.hits) >= 30, within=timedelta(seconds=30))
        assert process.stderr is not None
        waits: list[int] = []
        with locked_database(shoal):
            for line in process.stderr:
                if "paused for " in line:
                    waits.append(int(line.split("paused for ")[1].split(" s")[0]))
                    assert " left" not in line
                if len(waits) == 5:
                    break
        _, err = process.communicate(timeout=90)
    assert waits[0] < 10
    assert waits == sorted(waits)
    assert "going on after" in err
