"""Whoever can write to the broker can neither run code in a worker nor stop it from working."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.redis_url import RedisUrls
from tests.command import Shoal, end
from tests.hostile_messages import hostile, hostile_words
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

WITHIN = timedelta(seconds=60)
DATABASE = 11


@pytest.mark.parametrize("queues", [(*ALL_QUEUES, CONTROL_QUEUE), (CONTROL_QUEUE,)], ids=["all queues", "control"])
def test_a_hostile_message_is_refused_and_counted_and_the_worker_goes_on(
    tmp_path: Path, redis_url: str, queues: tuple[str, ...]
) -> None:
    """Also a worker for `control` alone, which takes its messages in another way."""
    url, prefix, canary = f"{redis_url}?db={DATABASE}", f"hostile-{uuid4().hex[:8]}", tmp_path / "canary"
    shoal = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", url), ("SHOAL_PREFIX", prefix)))
    broker, client = connect(f"{redis_url}?db={DATABASE}"), connect(RedisUrls.of(url).frontier)
    watch = Watch(client, prefix)
    worker = shoal.start("worker", "--queues", ",".join(queues), "--beat")
    try:
        wait_until(lambda: bool(watch.workers()), within=WITHIN)
        (before,) = watch.workers()
        expected: Counter[str] = Counter()
        for _, reason, message in hostile(canary):
            for queue in queues:
                broker.lpush(queue, message)
                expected[f"refused:{reason}"] += 1
        for _, reason, message in hostile_words(canary):
            assert broker.publish(f"/{DATABASE}.celery.pidbox", message) == 1
            expected[f"refused:{reason}"] += 1

        def counted() -> dict[str, int]:
            return {name: count for name, count in watch.stats().items() if name.startswith("refused:")}

        wait_until(lambda: counted() == expected, within=WITHIN)
        assert not canary.exists()
        assert broker.hlen("unacked") == 0
        assert [(beat.name, beat.started_ms) for beat in watch.workers()] == [(before.name, before.started_ms)]
        if queues[0] != CONTROL_QUEUE:
            _check_that_a_good_job_is_done(shoal)
        chores: list[str] = list(client.scan_iter(f"{prefix}:chore:*"))
        for chore in chores:
            client.delete(chore)
        wait_until(lambda: any(client.scan_iter(f"{prefix}:chore:*")), within=WITHIN)  # housekeeping goes on
        assert counted() == expected
        worker.send_signal(signal.SIGTERM)
        _, logged = worker.communicate(timeout=WITHIN.total_seconds())
    finally:
        end(worker)
        broker.close()
        client.close()
    assert worker.returncode == 0
    assert '"event": "messages_refused"' in logged
    assert not [word for word in ("os.system", "7c1b", "qqqq", "xxxx", "python/object", "Traceback") if word in logged]


def _check_that_a_good_job_is_done(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=5, links=2, size=500)) as site:
        job = shoal.run("crawl", site.url, "--rate", "unlimited", "--no-robots", "--detach").out.strip()
        wait_until(lambda: shoal.status(job)["state"] == "finished", within=WITHIN)
        assert shoal.status(job)["pages"] == 5
