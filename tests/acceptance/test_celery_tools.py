"""Celery's own tools on Shoal's workers: `celery -A shoal`."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from shoal.core.fleet import WorkerBeat
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.redis_url import RedisUrls
from tests.command import REPOSITORY, Done, Shoal
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

SECONDS = 60.0


def _celery(shoal: Shoal, *args: str) -> Done:
    command = [sys.executable, "-m", "celery", "-A", "shoal", *args]
    ended = subprocess.run(
        command, env=shoal.environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return Done(ended.returncode, ended.stdout, ended.stderr)


def _scrape(shoal: Shoal, site: Server) -> str:
    done = shoal.run("scrape", site.url, "--rate", "unlimited", "--no-robots", "--detach")
    assert done.code == 0, done.err
    return done.out.strip()


def _finish(shoal: Shoal, job: str) -> None:
    wait_until(lambda: shoal.status(job)["state"] == "finished", within=timedelta(seconds=SECONDS))


class _Beats:
    """The worker's signs of life."""

    def __init__(self, url: str, prefix: str) -> None:
        self._client = connect(RedisUrls.of(url).frontier)
        self._watch = Watch(self._client, prefix)
        self._prefix = prefix

    def next(self) -> WorkerBeat:
        """One that is given from now on."""
        for beat in self._watch.workers():
            self._client.delete(f"{self._prefix}:worker:{beat.name}")
        wait_until(lambda: bool(self._watch.workers()), within=timedelta(seconds=SECONDS))
        (beat,) = self._watch.workers()
        return beat

    def close(self) -> None:
        self._client.close()


def test_a_rate_limit_set_by_remote_control_holds_back_slices(tmp_path: Path, valkey_url: str) -> None:
    """The first slice takes the one that is free, the next one waits; a worker that starts anew knows of no limit."""
    redis, prefix = f"{valkey_url}?db=8", f"celery-{uuid4().hex[:8]}"
    shoal = Shoal(tmp_path, (("SHOAL_REDIS_URL", redis), ("SHOAL_PREFIX", prefix)))
    beats = _Beats(redis, prefix)
    with serve(LinkedSite(pages=3, links=2, size=500)) as site, shoal.running("worker", "--queues", "http.batch"):
        assert beats.next().slices == 0
        limited = _celery(shoal, "control", "rate_limit", "shoal.slice", "1/h")
        assert (limited.code, "new rate limit set successfully" in limited.out) == (0, True), limited.err
        _finish(shoal, _scrape(shoal, site))
        wait_until(lambda: not beats.next().active, within=timedelta(seconds=SECONDS))
        held = _scrape(shoal, site)
        beat = beats.next()
        assert (beat.slices, beat.active) == (1, 0)
        assert shoal.status(held)["counters"]["queued"] == 1
        with shoal.running("worker", "--queues", "http.batch"):
            _finish(shoal, held)
    beats.close()


def test_the_tools_join_the_embedded_server(shoal: Shoal) -> None:
    with shoal.running("worker", "--queues", "http.high"):
        wait_until(lambda: len(shoal.processes()) >= 3, within=timedelta(seconds=SECONDS))
        wait_until(
            lambda: "http.high" in _celery(shoal, "inspect", "active_queues").out, within=timedelta(seconds=SECONDS)
        )


def test_a_redis_that_cannot_be_reached_is_said_in_a_line(tmp_path: Path) -> None:
    done = _celery(Shoal(tmp_path, (("SHOAL_REDIS_URL", "redis://127.0.0.1:9"),)), "inspect", "ping")
    assert done.code != 0
    assert "shoal: cannot reach Redis at redis://127.0.0.1:9" in done.err
    assert "Traceback" not in done.err
