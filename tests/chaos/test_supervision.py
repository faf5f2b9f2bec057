"""A worker that dies, stalls or hangs is started again by itself; one that is told to stop, stops in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from tests.chaos.fleet import Fleet
from tests.command import REPOSITORY, Shoal, end
from tests.fault_proxy import fault_proxy
from tests.site.generated import LinkedSite, SlowSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

SOON = timedelta(seconds=60)
PAGES = 20
FAST = ("--rate", "unlimited", "--no-robots")


def _celery_of(worker: subprocess.Popen[str]) -> psutil.Process:
    """The Celery process: the one living child of the command."""
    children = psutil.Process(worker.pid).children()
    (celery,) = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
    return celery


def _pool_of(worker: subprocess.Popen[str]) -> list[psutil.Process]:
    return _celery_of(worker).children()


def _submit(shoal: Shoal, site: Server) -> str:
    done = shoal.run("crawl", site.url, *FAST, "--detach")
    assert done.code == 0, done.err
    return done.out.strip()


def _finish(shoal: Shoal, job: str) -> None:
    wait_until(lambda: shoal.status(job)["state"] == "finished", within=SOON)


def test_kill_9_of_the_celery_process_is_followed_by_a_new_one(fleet: Fleet) -> None:
    shoal = fleet.shoal()
    with serve(LinkedSite(pages=PAGES, links=5, size=500)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        before = _celery_of(worker)
        before.kill()
        _finish(shoal, _submit(shoal, site))
        assert _celery_of(worker).pid != before.pid
        wait_until(lambda: fleet.restarts("died") == 1, within=SOON)
        assert [beat.name.rpartition(":")[2].partition("-")[0] for beat in fleet.watch.workers()] == [str(worker.pid)]
        worker.terminate()
        _, err = worker.communicate(timeout=30)
    assert worker.returncode == 0, err
    (line,) = [json.loads(line) for line in err.splitlines() if '"worker_died"' in line]
    assert (line["code"], line["again_in_s"]) == (-9, 1.0)


def test_a_worker_whose_connections_are_dead_and_do_not_say_so_is_started_anew(fleet: Fleet) -> None:
    """Its broker's connections swallow every word, while the frontier is well: alive, free, and deaf."""
    with serve(LinkedSite(pages=PAGES, links=5, size=500)) as site, fault_proxy(fleet.url) as proxy:
        broker = f"redis://127.0.0.1:{proxy.port}/9"
        deaf = fleet.shoal(SHOAL_BROKER_URL=broker, SHOAL_STALL_SECONDS="3")
        with deaf.running("worker", "--queues", "http.batch") as worker:
            fleet.wait_for_worker()
            assert proxy.mute_all() > 0
            _finish(fleet.shoal(), _submit(fleet.shoal(), site))
            wait_until(lambda: fleet.restarts("stalled") == 1, within=SOON)
            worker.terminate()
            _, err = worker.communicate(timeout=30)
    assert worker.returncode == 0, err
    assert '"worker_stalled"' in err


@pytest.mark.long
def test_a_process_that_hangs_in_a_slice_is_killed_and_replaced(fleet: Fleet) -> None:
    shoal = fleet.shoal(SHOAL_GRACE_SECONDS="2")
    with serve(SlowSite(delay=1, pages=30)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        job = _submit(shoal, site)
        wait_until(lambda: len(site.hits) > 1, within=SOON)
        (hung,) = _pool_of(worker)
        hung.suspend()
        _finish(shoal, job)
        wait_until(lambda: fleet.restarts("hung") == 1, within=SOON)
        assert hung.pid not in {process.pid for process in _pool_of(worker)}
        worker.terminate()
        worker.communicate(timeout=30)
    assert worker.returncode == 0


def test_a_worker_without_a_pool_that_hangs_is_killed_and_replaced(fleet: Fleet) -> None:
    """With all of its threads, the one that would notice included."""
    shoal = fleet.shoal(SHOAL_GRACE_SECONDS="1", SHOAL_LEASE_SECONDS="2", SHOAL_POOL="solo")
    with serve(SlowSite(delay=0.5, pages=30)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        job = _submit(shoal, site)
        wait_until(lambda: len(site.hits) > 1, within=SOON)
        hung = _celery_of(worker)
        assert hung.children() == []
        hung.suspend()
        _finish(shoal, job)
        wait_until(lambda: fleet.restarts("hung") == 1, within=SOON)
        assert _celery_of(worker).pid != hung.pid
        worker.terminate()
        worker.communicate(timeout=30)
    assert worker.returncode == 0


STUCK_ONCE = """
import os, sys, threading, time
from pathlib import Path

once = Path(__file__).with_name("stuck")

def patch():
    while not hasattr(sys.modules.get("shoal.worker.visit"), "Visitor"):
        time.sleep(0.01)
    Visitor = sys.modules["shoal.worker.visit"].Visitor
    real = Visitor.visit

    def visit(*given):
        if not once.exists():
            once.touch()
            time.sleep(600)
        return real(*given)

    Visitor.visit = visit

os.register_at_fork(after_in_child=lambda: threading.Thread(target=patch, daemon=True).start())
"""


def test_a_worker_without_a_pool_whose_loop_is_stuck_gives_up_and_is_replaced(fleet: Fleet, tmp_path: Path) -> None:
    """Its other threads run: one of them notices."""
    (tmp_path / "sitecustomize.py").write_text(STUCK_ONCE)
    shoal = fleet.shoal(SHOAL_GRACE_SECONDS="1", SHOAL_LEASE_SECONDS="2", SHOAL_POOL="solo", PYTHONPATH=str(tmp_path))
    with serve(LinkedSite(pages=PAGES, links=5, size=500)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        _finish(fleet.shoal(), _submit(fleet.shoal(), site))
        assert (tmp_path / "stuck").exists()
        wait_until(lambda: fleet.restarts("hung") == 1, within=SOON)
        worker.terminate()
        _, err = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert '"process_hung"' in err


def test_a_worker_without_a_pool_stops_in_order_in_the_middle_of_a_slice(fleet: Fleet) -> None:
    shoal = fleet.shoal(SHOAL_GRACE_SECONDS="3", SHOAL_POOL="solo")
    with serve(SlowSite(delay=60, pages=30)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        job = _submit(shoal, site)
        wait_until(lambda: len(site.hits) >= 1, within=SOON)
        worker.terminate()
        _, err = worker.communicate(timeout=20)
    assert worker.returncode == 0, err
    counters = shoal.status(job)["counters"]
    assert (counters["leased"], counters["lost"]) == (0, 0)


@pytest.mark.long
def test_an_idle_process_that_is_frozen_makes_the_worker_start_anew(fleet: Fleet) -> None:
    shoal = fleet.shoal(SHOAL_STALL_SECONDS="3", SHOAL_GRACE_SECONDS="1")
    with serve(LinkedSite(pages=PAGES, links=5, size=500)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        (frozen,) = _pool_of(worker)
        frozen.suspend()
        _finish(shoal, _submit(shoal, site))
        wait_until(lambda: not frozen.is_running(), within=SOON)
        wait_until(lambda: fleet.restarts("stalled") == 1, within=SOON)


def test_a_sigterm_for_the_whole_group_is_a_clean_stop(fleet: Fleet) -> None:
    """As `timeout` sends it."""
    shoal = fleet.shoal()
    command = [sys.executable, "-m", "shoal", "worker", "--concurrency", "2"]
    with serve(SlowSite(delay=1, pages=30)) as site:
        worker = subprocess.Popen(
            command, env=shoal.environment, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            fleet.wait_for_worker()
            job = _submit(shoal, site)
            wait_until(lambda: len(site.hits) > 1, within=SOON)
            os.killpg(worker.pid, signal.SIGTERM)
            _, err = worker.communicate(timeout=30)
        finally:
            end(worker)
    assert worker.returncode == 0, err
    assert "library_log" not in err
    counters = shoal.status(job)["counters"]
    assert (counters["leased"], counters["lost"]) == (0, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_worker_at_once_and_its_code_says_so(fleet: Fleet, number: signal.Signals) -> None:
    shoal = fleet.shoal(SHOAL_GRACE_SECONDS="60")
    with serve(SlowSite(delay=60, pages=3)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        _submit(shoal, site)
        wait_until(lambda: len(site.hits) >= 1, within=SOON)
        family = psutil.Process(worker.pid).children(recursive=True)
        worker.send_signal(number)
        assert worker.stdout
        assert any("Warm shutdown" in line for line in worker.stdout), "Celery says so when the signal has reached it"
        assert worker.poll() is None
        worker.send_signal(number)
        worker.communicate(timeout=10)
        assert worker.returncode == 128 + number
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive


def test_kill_9_of_the_supervisor_leaves_nobody(fleet: Fleet) -> None:
    shoal = fleet.shoal()
    with serve(SlowSite(delay=60, pages=3)) as site, shoal.running("worker") as worker:
        fleet.wait_for_worker()
        _submit(shoal, site)
        wait_until(lambda: len(site.hits) >= 1, within=SOON)
        family = psutil.Process(worker.pid).children(recursive=True)
        assert len(family) == 2
        worker.kill()
        _, alive = psutil.wait_procs(family, timeout=10)
        assert not alive


@pytest.mark.long
def test_a_worker_whose_log_cannot_be_written_goes_on_and_stops_in_order(fleet: Fleet) -> None:
    shoal = fleet.shoal()
    with serve(LinkedSite(pages=PAGES, links=5, size=500)) as site, Path("/dev/full").open("w") as full:
        worker = subprocess.Popen(
            [sys.executable, "-m", "shoal", "worker"], env=shoal.environment, cwd=REPOSITORY, stderr=full, text=True
        )
        try:
            fleet.wait_for_worker()
            celery = _celery_of(worker).pid
            _finish(shoal, _submit(shoal, site))
            _celery_of(worker).kill()
            wait_until(lambda: fleet.restarts("died") == 1, within=SOON)
            _finish(shoal, _submit(shoal, site))
            assert _celery_of(worker).pid != celery
            worker.terminate()
            assert worker.wait(30) == 0
        finally:
            end(worker)
        assert fleet.restarts("died") == 1


def test_a_worker_that_cannot_start_says_why_and_is_not_tried_again(tmp_path: Path) -> None:
    done = Shoal(tmp_path, (("SHOAL_REDIS_URL", "http://127.0.0.1:9"),)).run("worker", timeout_s=30)
    assert done.code == 2
    assert done.err.count("'http://127.0.0.1:9' is not a Redis URL") == 1


@pytest.mark.long
def test_a_foreground_crawl_outlives_its_worker(shoal: Shoal) -> None:
    options = ("--rate", "50", "--parallel", "8", "--no-robots", "--workers", "1", "--json")
    with serve(LinkedSite(pages=200, links=20, size=500)) as site:
        with shoal.running("crawl", site.url, *options) as process:
            wait_until(lambda: len(site.hits) > 20, within=SOON)
            (worker,) = [p for p in psutil.Process(process.pid).children() if "shoal.worker" in p.cmdline()]
            worker.kill()
            out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        assert len({hit.target for hit in site.hits}) == 200
    assert "the worker was killed (SIGKILL); it starts again in 1 s" in err
    assert json.loads(out.splitlines()[-1])["pages"] == 200
