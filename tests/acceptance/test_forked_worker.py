"""The worker of a foreground command is a fork of it: like a program of its own to all who look, and to who dies."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from shoal.worker.tasks import OTHER_FILES
from tests.command import Shoal
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

SOON = timedelta(seconds=60)
SOCKETS = 128
"""That a worker has, unless it is told otherwise."""
OPTIONS = ("--rate", "40", "--parallel", "8", "--no-robots", "--workers", "1", "--json")
pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="workers are forked where /proc is")


@contextmanager
def _crawling(shoal: Shoal, pages: int) -> Generator[tuple[Server, subprocess.Popen[str], list[psutil.Process]]]:
    """A crawl under way: its site, its process, and the supervisor, the Celery process and the pool below it."""
    linked = LinkedSite(pages=pages, links=20, size=500)
    with serve(linked) as site, shoal.running("crawl", site.url, *OPTIONS) as crawl:
        wait_until(lambda: len(site.hits) > 10, within=SOON)
        (supervisor,) = _workers(crawl)
        (celery,) = supervisor.children()
        yield site, crawl, [supervisor, celery, *celery.children()]


def test_it_is_a_program_of_its_own(shoal: Shoal) -> None:
    with _crawling(shoal, 100) as (_site, crawl, family):
        assert all("shoal.worker" in each.cmdline() for each in family)
        assert "SHOAL_PARENT" not in family[1].environ()  # a fork: a program would have begun with it
        assert {os.getsid(each.pid) for each in family} == {family[0].pid} != {os.getsid(crawl.pid)}
        log = shoal.home / "logs" / f"worker-{crawl.pid}.log"
        for each in family:
            assert [_file(each, number) for number in range(3)] == ["/dev/null", "/dev/null", str(log)]
        crawl.communicate(timeout=60)
        assert crawl.returncode == 0


def test_its_supervisor_keeps_nothing_of_the_command(shoal: Shoal) -> None:
    with _crawling(shoal, 100) as (_site, crawl, (supervisor, celery, *_)):
        assert "pydantic_core" in _mapped(celery)
        assert "pydantic_core" not in _mapped(supervisor)
        crawl.communicate(timeout=60)


def test_it_has_room_for_its_sockets_before_it_needs_them(shoal: Shoal) -> None:
    with _crawling(shoal, 100) as (_site, crawl, (_supervisor, celery, *_)):
        (room,) = (line for line in Path(f"/proc/{celery.pid}/status").read_text().splitlines() if "FDSize" in line)
        assert int(room.split()[1]) >= 2 * SOCKETS + OTHER_FILES > celery.num_fds()
        crawl.communicate(timeout=60)


def test_a_celery_process_that_is_killed_is_started_again_by_a_supervisor_that_was_forked(shoal: Shoal) -> None:
    with _crawling(shoal, 200) as (site, crawl, (supervisor, celery, *_)):
        celery.kill()
        out, err = crawl.communicate(timeout=90)
        assert crawl.returncode == 0, err
        assert len({hit.target for hit in site.hits}) == 200
        assert not supervisor.is_running()
    assert json.loads(out.splitlines()[-1])["pages"] == 200
    assert "the worker was killed" not in err
    (log,) = (shoal.home / "logs").glob("worker-*.log")
    assert '"worker_died"' in log.read_text()


def test_a_supervisor_that_is_killed_is_followed_by_a_program_of_its_own(shoal: Shoal, valkey_url: str) -> None:
    """A fork would share what the command has open by then, and ruin the database."""
    own = (("SHOAL_REDIS_URL", valkey_url), ("SHOAL_PREFIX", "killed-supervisor"), ("SHOAL_LEASE_SECONDS", "3"))
    shoal = replace(shoal, extra=own)
    with _crawling(shoal, 300) as (site, crawl, (supervisor, *_)):
        supervisor.kill()
        supervisor.wait()  # for the command to notice
        wait_until(lambda: any(each.children() for each in _workers(crawl)), within=SOON)
        (again,) = _workers(crawl)
        assert "SHOAL_PARENT" in again.children()[0].environ()  # a fork has the variables of the command
        out, err = crawl.communicate(timeout=90)
        assert crawl.returncode == 0, err
        assert len({hit.target for hit in site.hits}) == 300
    assert json.loads(out.splitlines()[-1])["pages"] == 300
    with closing(sqlite3.connect(shoal.home / "shoal.db")) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_command_with_a_closed_output_and_no_word_of_its_children_crawls_all_the_same(shoal: Shoal) -> None:
    def close_and_ignore() -> None:
        os.close(1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    with serve(LinkedSite(pages=3, links=2, size=200)) as site:
        done = subprocess.run(
            [sys.executable, "-m", "shoal", "scrape", site.url, "--no-robots"],
            env=shoal.environment,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=close_and_ignore,
        )
        assert done.returncode == 0, done.stderr
        assert len(site.hits) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_with_its_command(shoal: Shoal, number: signal.Signals) -> None:
    with _crawling(shoal, 500) as (_site, crawl, family):
        crawl.send_signal(number)
        _out, err = crawl.communicate(timeout=30)
        assert crawl.returncode == 130, err
        assert not [each for each in family if each.is_running()]


def _workers(crawl: subprocess.Popen[str]) -> list[psutil.Process]:
    """Those that live."""
    children = psutil.Process(crawl.pid).children()
    return [each for each in children if each.status() != psutil.STATUS_ZOMBIE and "shoal.worker" in each.cmdline()]


def _file(process: psutil.Process, number: int) -> str:
    return str(Path(f"/proc/{process.pid}/fd/{number}").readlink())


def _mapped(process: psutil.Process) -> str:
    return Path(f"/proc/{process.pid}/maps").read_text()
