"""The workers that a foreground command brings along: one `shoal worker` process, ended with the command."""

from __future__ import annotations

import os
from types import TracebackType

from shoal.cli.children import Child
from shoal.core.model import ALL_QUEUES
from shoal.errors import ShoalError
from shoal.settings import Settings

GRACE_S = 3.0
"""Who presses Ctrl-C does not want to wait; what is interrupted is fetched again on resume."""


class Crew:
    """Worker processes on this machine, for as long as a command runs."""

    def __init__(self, settings: Settings, processes: int) -> None:
        grace_s = min(GRACE_S, settings.grace_seconds)
        variables = {
            "SHOAL_CONCURRENCY": str(processes),
            "SHOAL_QUEUES": ",".join(ALL_QUEUES),  # whatever lane the job is in
            "SHOAL_BEAT": "false",
            "SHOAL_GRACE_SECONDS": str(grace_s),
        }
        log = settings.home / "logs" / f"worker-{os.getpid()}.log"
        self._worker = Child("shoal.worker", log, settings.home, variables, grace_s)
        self.absent = not processes
        """Is the work left to other workers?"""
        if processes:
            self._worker.start()

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
        """Raise when the workers have died."""
        if (code := self._worker.code) is not None:
            raise ShoalError(f"the worker ended with code {code}; its log: {self._worker.log}\n{self._worker.tail()}")

    def stop(self) -> None:
        """Let running fetches end, then the processes."""
        self._worker.ask_to_stop()
        self._worker.wait()
