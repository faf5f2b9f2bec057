"""The Celery worker of one machine: its task, its processes' life, and the pulse that keeps rings true.

Everything is hung onto the application here; the work itself is in `runtime` and `slice`.
"""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

import threading
import time
import warnings
from dataclasses import asdict
from typing import Any, cast

import structlog
from celery.platforms import SecurityWarning
from celery.signals import worker_process_init, worker_process_shutdown, worker_ready, worker_shutting_down
from celery.worker import state as worker_state

from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.guardian import die_with_parent
from shoal.settings import Settings
from shoal.wiring import redis_urls
from shoal.worker.app import SLICE_TASK, make_app
from shoal.worker.doorbell import Doorbell
from shoal.worker.runtime import Lifeline, Runtime

log = structlog.get_logger()

PULSE_S = 1.0
EAGER_S, EAGER_PULSE_S = 5.0, 0.1
"""A worker that has just started looks more often: whoever started it waits for it."""


class Worker:
    """One `shoal worker`: a Celery worker whose task is the slice."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._app = make_app(redis_urls(settings))
        self._lifeline = Lifeline()
        self._runtime: Runtime | None = None
        self._stopped = threading.Event()
        self._app.task(self._slice, name=SLICE_TASK, acks_late=True, ignore_result=True)
        self._connect_signals()

    def run(self) -> int:
        """Serve the queues until told to stop; returns the exit code."""
        # Celery warns root that it may be fed pickles; JSON is all that this worker accepts.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        worker = cast(Any, self._app).Worker(
            queues=self._settings.queues,
            concurrency=self._settings.concurrency,
            max_memory_per_child=self._settings.recycle_megabytes * 1000,
            pool="prefork",
            loglevel="WARNING",
            quiet=True,
            without_mingle=True,
            without_gossip=True,
        )
        worker.start()
        return 0 if self._stopped.is_set() else int(worker.exitcode or 0)  # who was told to stop did not fail

    # --- in the children ----------------------------------------------------------------------------------------

    def _slice(self, queue: str) -> None:
        self._runtime = self._runtime or Runtime(self._settings, self._app, self._lifeline)
        report = self._runtime.answer(queue)
        log.info("slice_done", queue=queue, **asdict(report))

    def _on_child_start(self, **_: Any) -> None:
        self._lifeline.adopt()
        die_with_parent()  # Celery's children do not always notice that their main process was killed

    def _on_child_end(self, **_: Any) -> None:
        if self._runtime:
            self._runtime.close()

    # --- in the main process ------------------------------------------------------------------------------------

    def _on_ready(self, **_: Any) -> None:
        threading.Thread(target=self._pulse, name="pulse", daemon=True).start()

    def _on_stop(self, **_: Any) -> None:
        self._stopped.set()
        self._lifeline.cut()

    def _pulse(self) -> None:
        """While a process of ours is free and work is due, ring: work never sits without a slice."""
        frontier = Frontier.at(redis_urls(self._settings).frontier, self._settings.prefix)
        bell = Doorbell(self._app, frontier)
        eager_until = time.monotonic() + EAGER_S
        rung_at = 0.0
        while True:
            try:
                if time.monotonic() - rung_at >= PULSE_S and (queue := self._unattended(frontier)):
                    bell.send(queue)
                    rung_at = time.monotonic()
            except RedisUnavailable as exc:
                log.warning("pulse_failed", error=str(exc))
            if self._stopped.wait(EAGER_PULSE_S if time.monotonic() < eager_until else PULSE_S):
                return

    def _unattended(self, frontier: Frontier) -> str | None:
        """A queue with work that is due, while a process of ours is free."""
        if len(worker_state.active_requests) >= self._settings.concurrency:
            return None
        glance = frontier.glance(self._settings.queue_names)
        if glance.due:
            return glance.due[0]
        return self._settings.queue_names[0] if glance.expired else None

    def _connect_signals(self) -> None:
        worker_process_init.connect(self._on_child_start, weak=False)
        worker_process_shutdown.connect(self._on_child_end, weak=False)
        worker_ready.connect(self._on_ready, weak=False)
        worker_shutting_down.connect(self._on_stop, weak=False)
