"""Processes that a command starts and that end with it, however it ends: `python -m MODULE`, configured by variables.

A worker may be a fork of the command instead, which is the same and costs less.

Each has a session of its own, since a Ctrl-C is for the command, which stops its children itself; and each is told
whose child it is, so that the kernel ends it when the command is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from shoal.cli.forked import can_fork
from shoal.cli.talk import say
from shoal.restarts import Pauses

STOP_S = 15.0
"""On top of the time that a child gives its own work."""
TAIL_LINES = 5


class Process(Protocol):
    """As Python's own module knows them."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...


Fork = Callable[[Mapping[str, str], int], Process]
"""(variables, log) → a process that is a fork of this one."""


class Child:
    """One such process and its log."""

    def __init__(
        self,
        module: str,
        log: Path,
        home: Path,
        variables: Mapping[str, str],
        grace_s: float,
        *,
        fork: Fork | None = None,
    ) -> None:
        self.log = log
        self._command = [sys.executable, "-m", module]
        self._fork = fork
        """For the first time only: later, the command has a database open, and connections, that no fork may share."""
        self._variables = {
            "SHOAL_HOME": str(home),
            "SHOAL_PARENT": str(os.getpid()),
            "SHOAL_LOG_FILE": str(log.absolute()),
            **variables,
        }
        self._patience_s = grace_s + STOP_S
        self._process: Process | None = None
        self._log_start = 0
        self._log_inode = 0

    def keep(self, **variables: str) -> None:
        """Use these values as well when it is started again."""
        self._variables.update(variables)

    def start(self) -> None:
        """Start it, for the first time or again."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._log_start, self._log_inode = output.tell(), os.fstat(output.fileno()).st_ino
            fork, self._fork = self._fork, None
            if fork and can_fork():
                self._process = fork(self._variables, output.fileno())
                return
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # talk of libraries; the log is on standard error
                stderr=output,
                env={**os.environ, **self._variables},
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """Of the process that was started last; None before."""
        return None if self._process is None else self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs, or was never started."""
        return None if self._process is None else self._process.poll()

    def written(self) -> str:
        """What it has logged since it was started, or since its log was full and was put aside."""
        with self.log.open("rb") as file:
            if os.fstat(file.fileno()).st_ino == self._log_inode:
                file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def tail(self) -> str:
        """The last lines of its log, to be shown."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"  | {line}" for line in lines)

    def ask_to_stop(self) -> None:
        """Let it bring its work to an end."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, within_s: float | None = None) -> None:
        """Until it has ended; one that does not end in time is killed."""
        if self._process is None:
            return
        try:
            self._process.wait(self._patience_s if within_s is None else within_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, with the processes that it started."""
        if self._process is not None and self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:  # a fork that leads no group yet has started nothing
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()


@dataclass(slots=True)
class Post:
    """A child, and when it is to be started again."""

    name: str
    child: Child
    started: float = 0.0
    """By the monotonic clock."""
    started_ms: int = 0
    """By the clock on the wall."""
    due: float | None = None
    pauses: Pauses = field(default_factory=Pauses)

    def start(self) -> None:
        self.started_ms = time.time_ns() // 1_000_000
        self.child.start()
        self.started, self.due = time.monotonic(), None

    def tend(self) -> None:
        """Look after it: note its death, or start it again when the pause is over."""
        now = time.monotonic()
        if self.due is not None:
            if now >= self.due:
                self.start()
        elif (code := self.child.code) is not None:
            pause_s = self.pauses.after(now - self.started)
            self.due = now + pause_s
            say(f"the {self.name} {how_it_ended(code)}; it starts again in {pause_s:g} s ({self.child.log})")


def how_it_ended(code: int) -> str:
    """An exit code in words: `was killed (SIGKILL)`, `ended with code 1`."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed (signal {-code})"
