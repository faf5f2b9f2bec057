"""The workers that a foreground command brings along: one `shoal worker` process, ended with the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from shoal.core.model import ALL_QUEUES
from shoal.errors import ShoalError
from shoal.settings import Settings

GRACE_S = 3.0
"""Who presses Ctrl-C does not want to wait; what is interrupted is fetched again on resume."""
STOP_S = 15.0


class Crew:
    """Worker processes on this machine, for as long as a command runs."""

    def __init__(self, settings: Settings, processes: int) -> None:
        self.log = settings.home / "logs" / f"worker-{os.getpid()}.log"
        self._process = _start(settings, processes, self.log) if processes else None

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.kill()
        else:
            self.stop()

    @property
    def absent(self) -> bool:
        """Is the work left to other workers?"""
        return self._process is None

    def check(self) -> None:
        """Raise when the workers have died."""
        if self._process is not None and self._process.poll() is not None:
            raise ShoalError(
                f"the worker ended with code {self._process.returncode}; its log: {self.log}\n{self.tail()}"
            )

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-5:]
        return "\n".join(f"  | {line}" for line in lines)

    def stop(self) -> None:
        """Let running fetches end, then the processes."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(GRACE_S + STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the processes at once; what they held is taken back when its lease runs out."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _start(settings: Settings, processes: int, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "shoal.worker"]
    environment = {
        **os.environ,
        "SHOAL_HOME": str(settings.home),
        "SHOAL_CONCURRENCY": str(processes),
        "SHOAL_QUEUES": ",".join(ALL_QUEUES),  # whatever lane the job is in
        "SHOAL_PARENT": str(os.getpid()),
        "SHOAL_GRACE_SECONDS": str(min(GRACE_S, settings.grace_seconds)),
    }
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,  # a Ctrl-C is for the command; it stops its workers itself
        )
