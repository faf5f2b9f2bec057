"""The pulse: what a worker's main process does about once a second, beside Celery.

It tells the frontier that the worker lives, and rings for work that is due while a process of the worker is free, so
that a ring lost on its way costs a second and no more. And it watches: a worker that takes no work although there is
some gives up, for its supervisor to start another, and a process that is stuck in a slice is killed, for the pool to
replace it.
"""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import structlog
from amqp.exceptions import AMQPError
from celery import Celery
from celery.worker import state as worker_state
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from shoal import __version__
from shoal.core.fleet import WorkerBeat
from shoal.errors import RedisUnavailable
from shoal.intake.ring import PARTS_RING
from shoal.settings import Settings
from shoal.store.database import HEAD
from shoal.wiring import frontier_place
from shoal.worker.app import SLICE_TASK
from shoal.worker.door import Door
from shoal.worker.doorbell import Doorbell
from shoal.worker.marks import Deeds
from shoal.worker.memory import resident_mb
from shoal.worker.pace import Pace
from shoal.worker.supervisor import HUNG, STALLED, Life
from shoal.worker.watchdog import Watchdog

log = structlog.get_logger()

PULSE_S = 1.0
EAGER_S, EAGER_PULSE_S = 5.0, 0.1
"""A worker that has just started looks more often: whoever started it waits for it."""
HEARTBEAT_S = 5.0
FAREWELL_S = 3.0
BROKER_S = 3.0
MOST_RINGS = 10
"""In a queue that nobody empties there need not be more."""


class Pool(Protocol):
    """The processes of the worker."""

    def silent(self, seconds: float) -> list[int]:
        """Those that are in a slice and have given no sign of life for so long."""
        ...

    def deeds(self) -> Deeds:
        """What all of them have done together."""
        ...

    @property
    def is_held_back(self) -> bool:
        """Has an operator limited the rate of slices?"""
        ...


class Pulse:
    """A thread of the main process, from the moment when the worker is ready."""

    def __init__(
        self, settings: Settings, app: Celery, life: Life, pool: Pool, door: Door, give_up: Callable[[int], object]
    ) -> None:
        self._settings = settings
        self._app = app
        self._pool = pool
        self._door = door
        self._refused: Counter[str] = Counter()
        """Messages that the frontier does not know of yet, by reason."""
        self._give_up = give_up
        self._watchdog = Watchdog(settings.stall_seconds)
        self._hung_s = settings.hung_seconds
        self._to_count = [life.restarted] if life.restarted else []
        """Restarts that the frontier does not know of yet."""
        self._frontier = frontier_place(settings).frontier()
        self._bell = Doorbell(app, self._frontier)
        self._name = life.worker
        self._started_ms = time.time_ns() // 1_000_000
        self._resting = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._rung_at = self._told_at = 0.0
        self._pace = Pace()

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
            self._frontier.crew.depart(self._name)
        except RedisUnavailable as exc:
            log.warning("farewell_failed", error=str(exc))
        self._frontier.close_connections()

    def _beat(self) -> None:
        now = time.monotonic()
        try:
            self._end_hung()
            if now - self._told_at >= HEARTBEAT_S:
                self._frontier.crew.heartbeat(self._sign_of_life())
                self._told_at = now
            while self._to_count:
                self._frontier.crew.count_restart(self._to_count[-1])
                self._to_count.pop()
            self._count_refused()
            if now - self._rung_at >= PULSE_S:
                self._attend(now)
        except RedisUnavailable as exc:
            self._watchdog.calm()
            log.warning("pulse_failed", error=str(exc))
        except Exception:  # a pulse that stops is a worker that nobody hears of
            log.exception("pulse_failed")

    def _count_refused(self) -> None:
        """One line and one count for all that came since the last time: who sends a million must not fill the disk."""
        taken = self._door.take()
        for reason, times in taken.items():
            log.warning("messages_refused", reason=reason, times=times)
        self._refused.update(taken)
        while self._refused:
            reason, times = next(iter(self._refused.items()))
            self._frontier.crew.count_refused(reason, times)
            del self._refused[reason]

    def _attend(self, now: float) -> None:
        """Ring for work that is due while a process of ours is free; give up when that has no effect for long."""
        if self._is_free() and self._frontier.parts.free():
            self._bell.ring(PARTS_RING + self._settings.lease_queues[0])
        queue = self._unattended()
        if queue is None:
            self._watchdog.calm()
            return
        waiting = self._waiting(queue) if self._watchdog.is_worried else 0
        if waiting < MOST_RINGS and len(worker_state.reserved_requests) < self._settings.processes:
            self._bell.send(queue)
            self._rung_at = now
        unheard = waiting > 0 or len(worker_state.reserved_requests) > len(worker_state.active_requests)
        if self._watchdog.is_worried and not unheard:
            self._watchdog.calm()  # others take the rings, or the broker is away
        waited_s = self._watchdog.look(worker_state.total_count[SLICE_TASK])
        if waited_s is not None and not self._resting.is_set():
            log.error("worker_stalled", queue=queue, waited_s=round(waited_s, 1), rings=waiting)
            self._give_up(STALLED)

    def _waiting(self, queue: str) -> int:
        """Rings that lie in the queue; asked over a new connection, for an old one may be dead."""
        try:
            with self._app.connection_for_read(connect_timeout=BROKER_S) as connection:
                bound = self._app.amqp.queues[queue].bind(connection.default_channel)
                return bound.queue_declare(passive=True)[1]
        except (OperationalError, AMQPError, OSError, RedisError) as exc:
            log.warning("ring_failed", queue=queue, error=str(exc))
            return 0

    def _end_hung(self) -> None:
        """A process that is stuck has lost its leases to others by now, and will not come back by itself."""
        for pid in self._pool.silent(self._hung_s):
            log.error("process_hung", pid=pid, silent_s=self._hung_s)
            if pid == os.getpid():  # there is no pool
                self._give_up(HUNG)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._to_count.append("hung")

    def _sign_of_life(self) -> WorkerBeat:
        deeds = self._pool.deeds()
        return WorkerBeat(
            name=self._name,
            queues=self._settings.queue_names,
            processes=self._settings.processes,
            active=len(worker_state.active_requests),
            slices=worker_state.total_count[SLICE_TASK],
            memory_mb=resident_mb(),
            started_ms=self._started_ms,
            version=__version__,
            pages=deeds.pages,
            progress_ms=deeds.last_ms,
            browsers=deeds.browsers,
            rendering=deeds.rendering,
            sockets=self._settings.sockets,
            slow_sockets=self._settings.slow_sockets or self._settings.sockets,
            browser_pages=self._settings.browser_pages,
            pace=round(self._pace.note(time.monotonic(), deeds), 2),
            schema=HEAD,
        )

    def _is_free(self) -> bool:
        """Has a process of ours nothing to do?"""
        busy = len(worker_state.active_requests) >= self._settings.processes
        return bool(self._settings.lease_queues) and not busy and not self._resting.is_set()

    def _unattended(self) -> str | None:
        """A queue with work that is due, while a process of ours has nothing to do and nobody holds us back."""
        queues, pool = self._settings.lease_queues, self._pool
        if not self._is_free():
            return None
        if pool.is_held_back and len(worker_state.reserved_requests) >= self._settings.processes:
            return None
        glance = self._frontier.glance(queues)
        if glance.due:
            return glance.due[0]
        return queues[0] if glance.expired else None
