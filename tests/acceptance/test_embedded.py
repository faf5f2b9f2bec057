"""The embedded Redis: started when none is configured, shared, gone with the last command, its data kept."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from datetime import timedelta

import psutil
import pytest
from redis.exceptions import RedisError

from shoal.embedded import Hold, hold_embedded
from shoal.frontier.scripts import connect
from tests.command import Shoal, embedded_servers, wait_for_nobody
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

pytestmark = pytest.mark.embedded


def _value(hold: Hold, value: str | None = None) -> str | None:
    client = connect(hold.url)
    try:
        if value is not None:
            client.set("kept", value)
        kept = client.get("kept")
        return kept if isinstance(kept, str) else None
    finally:
        client.close()


def test_two_commands_share_one_server_which_goes_with_the_last(shoal: Shoal) -> None:
    shoal.home.mkdir()
    first, second = hold_embedded(shoal.home), hold_embedded(shoal.home)
    assert first.url == second.url
    assert len(embedded_servers(shoal)) == 1
    _value(first, "yes")
    first.release()
    assert _value(second) == "yes"
    second.release()
    wait_for_nobody(shoal)
    again = hold_embedded(shoal.home)
    try:
        assert _value(again) == "yes"
    finally:
        again.release()


def test_a_server_that_was_killed_comes_back_with_its_data(shoal: Shoal) -> None:
    shoal.home.mkdir()
    hold = hold_embedded(shoal.home)
    try:
        _value(hold, "yes")
        (server,) = embedded_servers(shoal)
        server.kill()
        wait_until(lambda: bool(embedded_servers(shoal)) and server.pid not in {p.pid for p in embedded_servers(shoal)})
        wait_until(lambda: _answers(hold, "yes"), within=timedelta(seconds=10))
    finally:
        hold.release()


def _answers(hold: Hold, value: str | None) -> bool:
    try:
        return _value(hold) == value
    except (RedisError, OSError):
        return False


@pytest.mark.parametrize("killed", [True, False], ids=["and-the-server-killed", "under-the-server"])
def test_a_deleted_folder_is_made_anew_by_those_who_use_the_server(shoal: Shoal, killed: bool) -> None:
    shoal.home.mkdir()
    first, second = hold_embedded(shoal.home), hold_embedded(shoal.home)
    try:
        (server,) = embedded_servers(shoal)
        shutil.rmtree(shoal.home / "redis")
        if killed:
            server.kill()
        wait_until(lambda: _answers(first, None) and not server.is_running(), within=timedelta(seconds=20))
        _value(second, "new")
        first.release()
        assert _value(second) == "new"
        assert len(embedded_servers(shoal)) == 1
    finally:
        first.release()
        second.release()


def test_a_crawl_whose_redis_folder_is_deleted_is_rebuilt_and_finishes(shoal: Shoal) -> None:
    pages = 150
    options = ("--rate", "30", "--no-robots", "--workers", "1", "--json")
    with (
        serve(LinkedSite(pages=pages, links=20, size=1_000)) as site,
        shoal.running("crawl", site.url, *options) as process,
    ):
        wait_until(lambda: len(site.hits) >= 40, within=timedelta(seconds=30))
        (server,) = embedded_servers(shoal)
        shutil.rmtree(shoal.home / "redis")
        server.kill()
        out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    done = json.loads(out)
    assert (done["state"], done["pages"], done["reconciles"]) == ("finished", pages, True)


def test_kill_9_of_a_crawl_takes_its_workers_and_the_server_along(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=500, links=20, size=1_000)) as site:
        process = shoal.start("crawl", site.url, "--rate", "20", "--no-robots", "--workers", "1")
        wait_until(lambda: len(site.hits) >= 3, within=timedelta(seconds=30))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_for_nobody(shoal)
        job = shoal.run("jobs", "--json").out.split('"job":"', 1)[1].split('"')[0]
        status = shoal.status(job)
    assert status["reconciles"]
    assert status["counters"]["done"] >= 1


def test_a_job_that_lost_its_workers_or_redis_says_so_with_what_helps(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=500, links=20, size=1_000)) as site:
        process = shoal.start("crawl", site.url, "--rate", "20", "--no-robots", "--workers", "1")
        wait_until(lambda: len(site.hits) >= 10, within=timedelta(seconds=30))
        (job,) = [row["job"] for row in json.loads(shoal.run("jobs", "--json").out)]
        assert "no worker" not in shoal.run("status", job).out
        shoal.run("pause", job)  # its sums are in the database now
        process.communicate(timeout=30)
        wait_for_nobody(shoal)
    shoal.run("resume", job, "--detach")
    hint = f"no worker is alive: shoal resume {job}, or shoal worker"
    assert f"running, but {hint}" in shoal.run("status", job).out
    assert shoal.status(job)["waiting_for"] == "a worker: none is alive"
    assert f"shoal resume {job}, or shoal worker" in shoal.run("jobs").err
    wait_for_nobody(shoal)
    shutil.rmtree(shoal.home / "redis")
    lost = f"Redis has lost job {job}, which has not ended; this rebuilds it: shoal recover {job}"
    looked, listed = shoal.run("status", job), shoal.run("jobs")
    assert (looked.code, looked.out) == (1, "")
    assert lost in looked.err
    assert lost in listed.err
    assert " lost " in listed.out
    assert shoal.run("recover", job).code == 0
    assert shoal.run("status", job).code == 0


def test_a_second_crawl_shares_the_server_of_the_first(shoal: Shoal) -> None:
    with (
        serve(LinkedSite(pages=400, links=20, size=1_000)) as slow,
        serve(LinkedSite(pages=20, links=5, size=500)) as quick,
        shoal.running("crawl", slow.url, "--rate", "20", "--no-robots", "--workers", "1", "--quiet") as process,
    ):
        wait_until(lambda: len(slow.hits) >= 1, within=timedelta(seconds=30))
        done = shoal.run("crawl", quick.url, "--rate", "unlimited", "--no-robots", "--workers", "1", "--json")
        assert done.code == 0, done.err
        assert done.json["pages"] == 20
        assert len(embedded_servers(shoal)) == 1
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def test_kill_9_of_a_crawl_that_is_just_starting_leaves_nobody(shoal: Shoal) -> None:
    """Its worker is still importing then, and has to notice by itself."""
    with serve(LinkedSite(pages=50, links=5, size=500)) as site:
        for _ in range(3):
            process = shoal.start("crawl", site.url, "--rate", "20", "--no-robots", "--workers", "1")
            wait_until(lambda: any("shoal.worker" in p.cmdline() for p in _alive(shoal)), within=timedelta(seconds=30))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            wait_for_nobody(shoal)


def _alive(shoal: Shoal) -> list[psutil.Process]:
    return [process for process in shoal.processes() if process.is_running()]
