"""The beat: housekeeping is called for at its pace, by however many beats, and never into a void."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from redis.exceptions import RedisError

from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.embedded import hold_embedded
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.redis_url import RedisUrls
from shoal.store.database import open_database
from shoal.store.jobs import JobStore
from tests.command import Shoal, embedded_redis
from tests.waiting import wait_until

pytestmark = pytest.mark.embedded

TICK_S = 2.0
SOON = timedelta(seconds=30)


class Control:
    """Stands in for a worker that serves `control`, so that the test sees what arrives."""

    def __init__(self, urls: RedisUrls) -> None:
        self._broker = connect(f"{urls.frontier.rpartition('=')[0]}=0")
        self.frontier = Frontier.at(urls.frontier)
        self.watch = Watch.at(urls.frontier)
        self._rings = connect(urls.frontier)

    @property
    def waiting(self) -> int:
        try:
            return self._broker.llen(CONTROL_QUEUE)
        except (RedisError, OSError):
            return 0

    def answer(self) -> bool:
        """Take one tick, if there is one."""
        if self._broker.lpop(CONTROL_QUEUE) is None:
            return False
        self.frontier.answer_ring(CONTROL_QUEUE)
        return True

    def is_called(self) -> bool:
        return bool(self._rings.exists(f"shoal:ring:{CONTROL_QUEUE}"))

    def close(self) -> None:
        for client in (self._broker, self._rings):
            client.close()
        self.frontier.close_connections()
        self.watch.close_connections()


@contextmanager
def _control(shoal: Shoal) -> Generator[Control]:
    shoal.home.mkdir(exist_ok=True)
    hold = hold_embedded(shoal.home)
    control = Control(RedisUrls.of(hold.url))
    try:
        yield control
    finally:
        control.close()
        hold.release()


def test_two_beats_do_not_double(shoal: Shoal) -> None:
    with _control(shoal) as control, shoal.running("beat"), shoal.running("beat"):
        wait_until(control.answer, within=SOON)
        started = time.monotonic()
        for _ in range(4):
            wait_until(control.answer, within=SOON)
        assert time.monotonic() - started > 3 * TICK_S - 0.5


def test_nothing_piles_up_while_nobody_serves_control(shoal: Shoal) -> None:
    with _control(shoal) as control, shoal.running("beat"):
        wait_until(lambda: control.waiting == 1, within=SOON)
        for _ in range(3):
            control.frontier.answer_ring(CONTROL_QUEUE)  # as if the claim had run out, unheard
            wait_until(control.is_called, within=SOON)
            assert control.waiting == 1
        assert control.answer()
        wait_until(lambda: control.waiting == 1, within=SOON)


def test_a_beat_outlives_a_redis_that_is_gone_for_a_while_and_ends_when_told(shoal: Shoal) -> None:
    with _control(shoal) as control, shoal.running("beat") as beat:
        wait_until(control.answer, within=SOON)
        embedded_redis(shoal).kill()
        wait_until(lambda: _answers(control), within=SOON)
        assert beat.poll() is None
        beat.send_signal(signal.SIGTERM)
        _, err = beat.communicate(timeout=20)
    assert beat.returncode == 0
    assert "Traceback" not in err


def _answers(control: Control) -> bool:
    try:
        return control.answer()
    except (RedisError, OSError):
        return False


def test_ctrl_c_ends_a_beat(shoal: Shoal) -> None:
    with _control(shoal) as control, shoal.running("beat") as beat:
        wait_until(control.answer, within=SOON)
        beat.send_signal(signal.SIGINT)
        _, err = beat.communicate(timeout=20)
    assert beat.returncode == 0
    assert err.count("\n") == 1


def test_a_control_worker_does_the_housekeeping_shows_itself_and_says_good_bye(shoal: Shoal) -> None:
    job = shoal.run("crawl", "http://127.0.0.1:9/", "--detach").out.strip()
    shoal.run("cancel", job)
    engine = open_database(shoal.settings.sql_url)
    jobs = JobStore(engine)
    jobs.give_up(job, at_ms=1)
    with _control(shoal) as control, shoal.running("worker", "--queues", "control", "--beat") as worker:
        wait_until(lambda: bool(control.watch.workers()), within=SOON)
        (seen,) = control.watch.workers()
        assert (seen.queues, seen.processes, seen.slices) == ((CONTROL_QUEUE,), 1, 0)
        assert f":{worker.pid}-" in seen.name
        wait_until(lambda: not jobs.given_up(), within=SOON)
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=20)
        assert worker.returncode == 0
        assert control.watch.workers() == []
        assert control.waiting <= 1
    engine.dispose()


def test_a_worker_shows_its_processes_and_its_slices(shoal: Shoal) -> None:
    with _control(shoal) as control, shoal.running("worker", "--concurrency", "2"):
        wait_until(lambda: bool(control.watch.workers()), within=SOON)
        (seen,) = control.watch.workers()
        assert seen.queues == (*ALL_QUEUES, CONTROL_QUEUE)
        assert seen.processes == 2
        assert seen.memory_mb > 20
