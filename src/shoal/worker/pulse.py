"""The pulse: what a worker's main process does about once a second, beside Celery.

It tells the frontier that the worker lives, and rings for work that is due while a process of the worker is free, so
that a ring lost on its way costs a second and no more.
"""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

import os
import socket
import threading
import time

import structlog
from celery import Celery
from celery.worker import state as worker_state

from shoal import __version__
from shoal.core.model import WorkerBeat
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.settings import Settings
from shoal.wiring import redis_urls
from shoal.worker.app import SLICE_TASK
from shoal.worker.doorbell import Doorbell
from shoal.worker.memory import resident_mb

log = structlog.get_logger()

PULSE_S = 1.0
EAGER_S, EAGER_PULSE_S = 5.0, 0.1
"""A worker that has just started looks more often: whoever started it waits for it."""
HEARTBEAT_S = 5.0
FAREWELL_S = 3.0


class Pulse:
    """A thread of the main process, from the moment when the worker is ready."""

    def __init__(self, settings: Settings, app: Celery) -> None:
        self._settings = settings
        self._frontier = Frontier.at(redis_urls(settings).frontier, settings.prefix, settings.manners)
        self._bell = Doorbell(app, self._frontier)
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._started_ms = time.time_ns() // 1_000_000
        self._resting = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._rung_at = self._told_at = 0.0

    def start(self) -> None:
        self._thread.start()

    def rest(self) -> None:
        """Ring no more: the worker is stopping, though it still lives."""
        self._resting.set()

    def end(self) -> None:
        """The worker has stopped: say so."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(FAREWELL_S)

    def _run(self) -> None:
        eager_until = time.monotonic() + EAGER_S
        while True:
            self._beat()
            if self._ended.wait(EAGER_PULSE_S if time.monotonic() < eager_until else PULSE_S):
                break
        try:
            self._frontier.depart(self._name)
        except RedisUnavailable as exc:
            log.warning("farewell_failed", error=str(exc))
        self._frontier.close_connections()

    def _beat(self) -> None:
        now = time.monotonic()
        try:
            if now - self._told_at >= HEARTBEAT_S:
                self._frontier.heartbeat(self._sign_of_life())
                self._told_at = now
            if now - self._rung_at >= PULSE_S and (queue := self._unattended()):
                self._bell.send(queue)
                self._rung_at = now
        except RedisUnavailable as exc:
            log.warning("pulse_failed", error=str(exc))
        except Exception:  # a pulse that stops is a worker that nobody hears of
            log.exception("pulse_failed")

    def _sign_of_life(self) -> WorkerBeat:
        return WorkerBeat(
            name=self._name,
            queues=self._settings.queue_names,
            processes=self._settings.processes,
            active=len(worker_state.active_requests),
            slices=worker_state.total_count[SLICE_TASK],
            memory_mb=resident_mb(),
            started_ms=self._started_ms,
            version=__version__,
        )

    def _unattended(self) -> str | None:
        """A queue with work that is due, while a process of ours is free and no ring is held back for it."""
        queues = self._settings.lease_queues
        if not queues or self._resting.is_set() or len(worker_state.reserved_requests) >= self._settings.processes:
            return None
        glance = self._frontier.glance(queues)
        if glance.due:
            return glance.due[0]
        return queues[0] if glance.expired else None
