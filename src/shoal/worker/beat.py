"""The beat: every two seconds it asks whoever serves `control` to do the housekeeping.

Any number of beats may run. Each interval is claimed in Redis by one of them; a tick is sent only when the last one
was answered and none lies in the queue, so that nothing piles up while nobody serves it. There is no schedule file: the
one entry is below, and what is due when is decided by the housekeeping itself, from the database.
"""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
from __future__ import annotations

import signal
import sys
import threading
import time
from functools import partial
from typing import Any, cast

import structlog
from celery import Celery
from celery.beat import Scheduler, Service

from shoal.core.model import CONTROL_QUEUE
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.observe import set_up_served_logs
from shoal.redis_risks import warn_of_risks
from shoal.redis_url import redacted
from shoal.settings import Settings
from shoal.stdlog import adopt_library_logs
from shoal.wiring import frontier_place, redis_urls, with_redis
from shoal.worker.app import TICK_TASK, make_app

log = structlog.get_logger()

TICK_S = 2
EXPIRES_S = 60
"""Far above any difference between two machines' clocks: a worker whose clock is ahead must not take each for stale."""

SCHEDULE = {
    "tick": {
        "task": TICK_TASK,
        "schedule": float(TICK_S),
        "options": {"queue": CONTROL_QUEUE, "expires": EXPIRES_S, "retry": False, "ignore_result": True},
    }
}


class Metronome(Scheduler):
    """Celery's scheduler, kept in memory, which sends a tick only when there is somebody to hear it."""

    producer = cast(Any, None)
    """Celery would wait here for a broker that is away; the pool of the application does not."""

    def __init__(self, app: Celery, *args: Any, frontier: Frontier, **kwargs: Any) -> None:
        self._frontier = frontier
        super().__init__(app, *args, **kwargs)

    def setup_schedule(self) -> None:
        self.merge_inplace(SCHEDULE)

    def apply_entry(self, entry, producer=None) -> None:
        try:
            if self._is_wanted():
                self.apply_async(entry, producer=producer, advance=False)
        except RedisUnavailable as exc:
            log.warning("tick_failed", error=str(exc))
        except Exception:  # whatever the broker's client raises: the beat outlives it
            log.exception("tick_failed")

    def _is_wanted(self) -> bool:
        """Is this interval ours, was the last tick answered, and is none waiting?"""
        interval = f"beat.{int(time.time()) // TICK_S}"
        claim = self._frontier.claim_ring
        return claim(interval) and claim(CONTROL_QUEUE) and not self._one_waits()

    def _one_waits(self) -> bool:
        with self.app.pool.acquire(block=True, timeout=TICK_S) as connection:
            queue = self.app.amqp.queues[CONTROL_QUEUE].bind(connection.default_channel)
            return queue.queue_declare()[1] > 0


class Beat:
    """One beat, in the foreground or in a thread of a worker."""

    def __init__(self, settings: Settings, app: Celery) -> None:
        self._frontier = frontier_place(settings).frontier()
        self._service = Service(
            app, scheduler_cls=partial(Metronome, frontier=self._frontier), remote_control=False, max_interval=TICK_S
        )

    def run(self) -> None:
        """Beat until told to stop."""
        self._service.start()
        self._frontier.close_connections()

    def stop(self, *_signal: object) -> None:
        """End after the present interval. A flag, and no exception that whoever is at work could swallow."""
        self._service.stop()

    def start(self) -> None:
        """Beat in the background, for as long as the process lives."""
        threading.Thread(target=self.run, name="beat", daemon=True).start()


def serve_beat(settings: Settings, log_level: str = "info") -> int:
    """Beat in the foreground until told to stop."""
    set_up_served_logs(settings, log_level)
    adopt_library_logs()
    with with_redis(settings) as chosen:
        warn_of_risks(chosen)
        beat = Beat(chosen, make_app(redis_urls(chosen)))
        for told in (signal.SIGINT, signal.SIGTERM):
            signal.signal(told, beat.stop)
        where = redacted(chosen.redis_url or "")
        print(f"beat: every {TICK_S} s on {where}; Ctrl-C stops", file=sys.stderr, flush=True)
        beat.run()
    return 0
