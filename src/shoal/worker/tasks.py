"""The Celery worker of one machine: its three tasks and its processes' life.

Everything is hung onto the application here; the work itself is in `runtime` and `slice`, and in `control`.
"""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any, cast

import structlog
from billiard.process import current_process
from billiard.util import get_logger as get_pool_logger
from celery.platforms import SecurityWarning
from celery.signals import (
    setup_logging,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from celery.worker import state as worker_state

from shoal.collector import calm_collector
from shoal.core.model import CONTROL_QUEUE
from shoal.guardian import die_with_parent
from shoal.heap import keep_heap
from shoal.observe import flush_logs
from shoal.open_files import make_room
from shoal.redis_url import is_amqp
from shoal.settings import Settings
from shoal.stdlog import adopt_library_logs
from shoal.wiring import Platform, frontier_place, redis_urls
from shoal.worker.apart import HouseApart
from shoal.worker.app import PARTS_TASK, SLICE_TASK, TICK_TASK, make_app
from shoal.worker.beat import Beat
from shoal.worker.door import Door
from shoal.worker.doorbell import REQUEST_ID, Doorbell
from shoal.worker.ending import end_with_the_pool, notice_at_once
from shoal.worker.extracting import Extracting
from shoal.worker.grace import Grace
from shoal.worker.marks import Deeds, Mark, Marks
from shoal.worker.memory import own_mb
from shoal.worker.pulse import Pool, Pulse
from shoal.worker.runtime import Lifeline, Runtime
from shoal.worker.supervisor import RECYCLED, Life
from shoal.worker.threads import take_turns_often
from shoal.worker.ticks import House, OwnHouse, Ticks

log = structlog.get_logger()

SHORT_ID = 8
"""Characters of a task's id that are enough to tell slices apart."""
OTHER_FILES = 128
"""Databases, Redis, logs, archives."""


class Worker:
    """One `shoal worker`: a Celery worker whose tasks are the slice, the parts of extractions, and the tick."""

    def __init__(self, settings: Settings, life: Life) -> None:
        self._settings = settings
        self._life = life
        self._door = Door()
        self._app = make_app(redis_urls(settings), self._door, brief=settings.parent is not None)
        if settings.pool == "solo" and settings.lease_queues:
            self._app.conf.broker_heartbeat = 0  # nobody gives any during a slice
        self._lifeline = Lifeline()
        self._platform: Platform | None = None
        self._runtime: Runtime | None = None
        self._ready = self._stopped = False
        self._alone = not settings.lease_queues or settings.pool == "solo"
        """Without a pool: one process, which is the main one. Housekeeping needs no more."""
        self._marks = Marks(settings.processes)
        self._pool = _CeleryPool(self._marks)
        self._pulse = Pulse(settings, self._app, life, self._pool, self._door, self._give_up)
        self._ticks = Ticks(self._app, self._open_house) if self._mixed else None
        self._beat = Beat(settings, self._app) if settings.beat else None
        self._connect_tasks()
        self._connect_signals()

    def run(self) -> int:
        """Serve the queues until told to stop; returns the exit code."""
        # Celery warns root that it may be fed pickles; JSON is all that this worker accepts.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        worker = cast(Any, self._app).Worker(
            queues=",".join(self._settings.lease_queues) if self._mixed else self._settings.queues,
            hostname=self._node,
            concurrency=self._settings.processes,
            max_memory_per_child=self._settings.recycle_megabytes * 1000,
            pool="solo" if self._alone else "prefork",
            loglevel="WARNING",
            quiet=True,
            without_mingle=True,
            without_gossip=True,
        )
        self._pool.worker = worker
        end_with_the_pool()
        take_turns_often()
        calm_collector()
        keep_heap()
        make_room(self._files)
        try:
            worker.start()
        finally:
            if self._ticks:
                self._ticks.end()
            self._pulse.end()
            self._close()
        return 0 if self._stopped else int(worker.exitcode or 0)  # who was told to stop did not fail

    @property
    def _node(self) -> str:
        """What Celery's tools call it: by what it does, so that housekeeping does not pass for what fetches.

        In RabbitMQ the mailbox of that name is one worker's alone.
        """
        does = "worker" if self._settings.lease_queues else CONTROL_QUEUE
        which = self._life.worker.rpartition(":")[2]
        own = f".{which}" if is_amqp(redis_urls(self._settings).broker) else ""
        return f"{does}{own}@{os.uname().nodename}"

    @property
    def _files(self) -> int:
        """That a process of this worker may have open: connections to hosts, old and new, and all else."""
        return 2 * self._settings.sockets + OTHER_FILES if self._settings.lease_queues else OTHER_FILES

    @property
    def _mixed(self) -> bool:
        """Does it serve housekeeping beside slices? Then a thread does it, for it cannot wait for a slice to end."""
        return bool(self._settings.lease_queues) and CONTROL_QUEUE in self._settings.queue_names

    # --- the tasks ----------------------------------------------------------------------------------------------

    def _connect_tasks(self) -> None:
        def slice_(task: Any, queue: str) -> str:
            return self._slice(task.request, queue)

        def parts(task: Any, queue: str) -> str:
            return self._parts(task.request, queue)

        def tick(task: Any) -> None:
            self._tick(task.request)

        for name, run in ((SLICE_TASK, slice_), (PARTS_TASK, parts), (TICK_TASK, tick)):
            told = name != TICK_TASK  # housekeeping comes every two seconds: nobody would see anything else in Flower
            self._app.task(run, name=name, bind=True, acks_late=True, ignore_result=True, send_events=told)

    def _slice(self, request: Any, queue: str) -> str:
        """Returns what it did in words, for who watches Celery's events; the result is not kept."""
        with _log_context(request, slice=str(request.id)[:SHORT_ID]):
            if self._runtime is None:
                platform = self._open()
                bell = Doorbell(self._app, platform.frontier)
                self._runtime = Runtime(self._settings, platform, bell, self._lifeline, self._mark, alone=self._alone)
            report = self._runtime.answer(queue)
            log.info("slice_done", queue=queue, **asdict(report))
            self._recycle_if_large()
            return report.told

    def _parts(self, request: Any, queue: str) -> str:
        with _log_context(request, slice=str(request.id)[:SHORT_ID]):
            platform = self._open()
            bell = Doorbell(self._app, platform.frontier)
            report = Extracting(platform, bell, self._lifeline, self._mark, alone=self._alone).answer(queue)
            log.info("shift_done", queue=queue, **asdict(report))
            self._recycle_if_large()
            return f"{report.pages} pages"

    def _recycle_if_large(self) -> None:
        """Celery does so for the processes of a pool."""
        if self._alone and own_mb() > self._settings.recycle_megabytes:
            log.info("worker_recycled", megabytes=own_mb())
            worker_state.should_stop = RECYCLED

    @property
    def _mark(self) -> Mark:
        """Of this process of the pool."""
        return self._marks.of(0 if self._alone else cast(Any, current_process()).index)

    def _tick(self, request: Any) -> None:
        with _log_context(request):
            platform = self._open()
            platform.frontier.answer_ring(CONTROL_QUEUE)
            platform.housekeeper.tick()

    def _open(self) -> Platform:
        """The platform of this process, opened after the fork; rows are on the disk before their leases are settled."""
        if self._platform is None:
            self._platform = self._open_apart()
        return self._platform

    def _open_house(self) -> House:
        """Not here, where the pool's processes are forked from one that must not use the object store."""
        if self._settings.archive_place and not self._alone:
            return HouseApart(self._settings, self._life.worker)
        return OwnHouse(self._open_apart())

    def _open_apart(self) -> Platform:
        settings, holder = self._settings, f"{self._life.worker}:{os.getpid()}"
        frontier = frontier_place(settings).frontier(holder)
        return Platform.open(self._settings, frontier, Doorbell(self._app, frontier).ring, durable=True)

    def _close(self) -> None:
        if self._runtime:
            self._runtime.close()
        if self._platform:
            self._platform.close()
        self._runtime = self._platform = None

    # --- in the children ----------------------------------------------------------------------------------------

    def _on_child_start(self, **_: Any) -> None:
        self._lifeline.adopt()
        make_room(self._files)
        die_with_parent()  # Celery's children do not always notice that their main process was killed

    def _on_child_end(self, exitcode: int | None = None, **_: Any) -> None:
        self._close()
        flush_logs()
        if self._lifeline.is_cut:  # else Celery tells the main process first, and gives it a second to listen
            os._exit(exitcode or 0)

    # --- in the main process ------------------------------------------------------------------------------------

    def _on_ready(self, **_: Any) -> None:
        """Also after each time that the connection to the broker was lost, and with it all that the loop looks at."""
        if (hub := getattr(self._pool.worker, "hub", None)) and not self._stopped:
            notice_at_once(hub, self._lifeline.fileno())
        if self._ready:
            return
        self._ready = True
        self._life.ready()
        self._pulse.start()
        if self._ticks:
            self._ticks.start()
        if self._beat:
            self._beat.start()

    def _on_stop(self, **_: Any) -> None:
        self._stopped = True
        self._pulse.rest()
        self._lifeline.cut()
        end = threading.Timer(
            Grace(timedelta(seconds=self._settings.grace_seconds)).worker.total_seconds(), self._leave
        )
        end.daemon = True
        end.start()

    def _leave(self) -> None:
        """Slices are over; what is left waits for something that is away, and the supervisor ends it with us."""
        log.warning("stop_cut_short", after_s=self._settings.grace_seconds)
        flush_logs()
        os._exit(0)

    def _give_up(self, code: int) -> None:
        """The supervisor starts another one; the pool's processes bring their slices to an end, as when we die."""
        flush_logs()
        os._exit(code)

    def _on_logs(self, **_: Any) -> None:
        adopt_library_logs()
        get_pool_logger().propagate = True  # else what the pool says is printed as it is

    def _connect_signals(self) -> None:
        setup_logging.connect(self._on_logs, weak=False)
        worker_ready.connect(self._on_ready, weak=False)
        worker_shutting_down.connect(self._on_stop, weak=False)
        if not self._alone:  # else Celery calls the main process a child
            worker_process_init.connect(self._on_child_start, weak=False)
            worker_process_shutdown.connect(self._on_child_end, weak=False)


class _CeleryPool(Pool):
    """What Celery's worker object tells about its pool."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self.worker: Any = None

    def silent(self, seconds: float) -> list[int]:
        pool = getattr(getattr(self.worker, "pool", None), "_pool", None)
        own = {os.getpid(), *(process.pid for process in getattr(pool, "_pool", ()))}  # we are the pool in `solo`
        return [pid for pid in self._marks.silent(seconds) if pid in own]

    def deeds(self) -> Deeds:
        return self._marks.deeds()

    @property
    def is_held_back(self) -> bool:
        buckets = getattr(getattr(self.worker, "consumer", None), "task_buckets", None)
        return bool(buckets) and buckets.get(SLICE_TASK) is not None


@contextmanager
def _log_context(request: Any, **names: str) -> Generator[None]:
    """Every line of a task names it, and the submission that it was rung for."""
    headers: dict[str, str] = request.headers or {}
    names["task_id"] = request.id
    if REQUEST_ID in headers:
        names[REQUEST_ID] = headers[REQUEST_ID]
    with structlog.contextvars.bound_contextvars(**names):
        yield
