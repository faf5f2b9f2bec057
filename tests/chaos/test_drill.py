"""The drill in short: a crawl under faults, judged by the site's log and the store."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from shoal.drill.redis_server import RedisServer
from shoal.frontier.scripts import connect
from tests.command import Shoal
from tests.waiting import wait_until

SHORT = ("drill", "--urls", "300", "--hosts", "5", "--workers", "2", "--rate", "10", "--lease", "2")
SEED = "209"
"""Cuts the append-only file short, ends a worker with SIGTERM and another with kill -9 under a locked database."""


def test_nothing_is_lost_or_doubled_in_a_short_drill(shoal: Shoal) -> None:
    done = shoal.run(*SHORT, "--faults", "3", "--seed", SEED, "--json")
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    assert done.json["holds"]
    assert len(run["faults"]) == 3
    assert (run["urls"], run["stored"]) == (300, 300)
    assert run["lost"] == run["doubled"] == run["unexplained"] == run["problems"] == []
    assert run["rates_kept"]
    assert run["reconciles"]
    assert run["longest_recovery_s"] <= 12
    assert {fault["fault"] for fault in run["faults"]} == {
        *("AOF cut short", "SIGTERM worker", "kill -9 worker under lock")
    }


def test_the_verdict_of_a_single_run_is_on_standard_output(shoal: Shoal) -> None:
    done = shoal.run("drill", "--urls", "20", "--hosts", "1", "--workers", "1", "--rate", "50", "--faults", "0")
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith("every promise was kept")
    assert "seed 1: 20 URLs on 1 host, 1 worker, 0 faults" in done.err


@pytest.fixture
def scratch() -> Generator[Path]:
    """Not below the test's own folder, whose name is too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        yield Path(folder)


def test_a_drill_that_is_interrupted_leaves_nothing_behind(shoal: Shoal, scratch: Path) -> None:
    there = Shoal(shoal.home, (*shoal.extra, ("TMPDIR", str(scratch))))
    with there.running(*SHORT, "--urls", "3000", "--faults", "0") as process:
        wait_until(lambda: len(_of(scratch)) >= 3, within=timedelta(seconds=30))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopped in the middle of seed 1, which proves nothing; no run was complete before it" in err
    assert _of(scratch) == []
    assert list(scratch.iterdir()) == []


def test_the_end_of_an_append_only_file_can_be_lost(scratch: Path) -> None:
    server = RedisServer(scratch / "redis")
    try:
        server.start()
        client: Any = connect(server.url)
        for number in range(100):
            client.set(f"key {number}", "x" * 200)
        server.kill()
        assert 100 <= server.cut(0.0) < 200
        server.start()
        assert client.dbsize() == 99
        server.kill()
        server.cut(1.0)
        server.start()
        assert 40 <= client.dbsize() <= 60
        assert client.exists("key 0")
        for _ in range(2):
            pipeline = client.pipeline(transaction=True)
            pipeline.set("one", "x" * 200).set("two", "x" * 200).incr("sum").execute()
        server.kill()
        server.cut(0.0)
        server.start()
        assert client.get("sum") == "1"
        client.set("three", "3")
        server.kill()
        server.start()
        assert (client.get("sum"), client.get("three")) == ("1", "3")
    finally:
        server.kill()


def _of(folder: Path) -> list[psutil.Process]:
    """The processes that were started for a folder."""
    return [each for each in psutil.process_iter() if _is_for(each, str(folder))]


def _is_for(process: psutil.Process, folder: str) -> bool:
    try:
        named = folder in " ".join(process.cmdline()) or folder in process.environ().get("SHOAL_HOME", "")
        return named and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
