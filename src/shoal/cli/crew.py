"""The workers that a foreground command brings along: one `shoal worker` process, ended with the command."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from types import TracebackType

from shoal.cli.children import Child, Fork, Post, how_it_ended
from shoal.core.fleet import WorkerBeat
from shoal.core.model import ALL_QUEUES
from shoal.errors import ShoalError
from shoal.log_file import sweep
from shoal.settings import Settings

GRACE_S = 3.0
"""Who presses Ctrl-C does not want to wait; what is interrupted is fetched again on resume."""

WARM_UP_MS = 5_000
"""A worker shows itself before its processes are there."""

SLOW_START_S = 30.0
"""Who is not there after this has a trouble that its log tells of."""

MAX_DEATHS = 3
"""A worker that was killed so often in a row is not started again."""


class Crew:
    """Worker processes on this machine, for as long as a command runs."""

    def __init__(self, settings: Settings, processes: int, fork: Fork | None = None) -> None:
        grace_s = min(GRACE_S, settings.grace_seconds)
        variables = {
            "SHOAL_CONCURRENCY": str(processes),
            "SHOAL_QUEUES": ",".join(ALL_QUEUES),  # whatever lane the job is in
            "SHOAL_BEAT": "false",
            "SHOAL_GRACE_SECONDS": str(grace_s),
        }
        if processes == 1 and "pool" not in settings.model_fields_set:
            variables["SHOAL_POOL"] = "solo"  # a pool of one would be a process more, for nothing
        log = settings.home / "logs" / f"worker-{os.getpid()}.log"
        self._worker = Child("shoal.worker", log, settings.home, variables, grace_s, fork=fork)
        self._post = Post("worker", self._worker)
        self.absent = not processes
        """Is the work left to other workers?"""
        if processes:
            sweep(log.parent)
            self._post.start()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._worker.kill()
        else:
            self.stop()

    def check(self) -> None:
        """Start a worker that was killed again; raise when that does not help, or when it ended by itself."""
        code = self._worker.code
        if code is None:
            return
        if self._post.due is None and (code >= 0 or self._post.pauses.in_a_row >= MAX_DEATHS):
            tries = self._post.pauses.in_a_row
            often = f", after it was started again {tries} times" if tries > 1 else ""
            told = f"the worker {how_it_ended(code)}{often}; its log: {self._worker.log}"
            raise ShoalError(f"{told}\n{self._worker.tail()}")
        self._post.tend()

    @property
    def alive(self) -> bool:
        """Does the worker run, as far as its process goes?"""
        return self._worker.pid is not None and self._worker.code is None

    def standstill(self, beats: Iterable[WorkerBeat]) -> str:
        """Why there is no worker for a job that waits, by the signs of life that there are; empty when there is one."""
        if self.absent:
            return "" if any(True for _ in beats) else "no worker is alive: shoal worker"
        if self.alive and any(self._is_up(beat) for beat in beats):
            return ""
        slow = self.alive and time.monotonic() - self._post.started > SLOW_START_S
        return f"workers are still starting; their log: {self._worker.log}" if slow else "workers are starting"

    def _is_up(self, beat: WorkerBeat) -> bool:
        """Is this from the worker that was started last, and had that time to begin?"""
        young = time.time_ns() // 1_000_000 - beat.started_ms < WARM_UP_MS
        return beat.started_ms >= self._post.started_ms and bool(beat.slices or beat.active or not young)

    def ask_to_stop(self) -> None:
        """Let running fetches end, then the processes; nobody waits for it."""
        self._worker.ask_to_stop()

    def stop(self, within_s: float | None = None) -> None:
        """Let running fetches end, then the processes; kill them after this time."""
        self.ask_to_stop()
        self._worker.wait(within_s)
