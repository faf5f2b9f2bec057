"""A worker that is a fork of the command which brings it along: what both need is loaded once, and is in memory once.

It is what `python -m shoal.worker` would be: a session, files, signals, variables and a name of its own. A process can
be forked while it has one thread and nothing under way, neither a file of SQLite nor a connection: a worker that is
started again is a program of its own. So it is where there is no /proc that tells of threads.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from fcntl import F_DUPFD, fcntl
from importlib import import_module
from pathlib import Path
from subprocess import TimeoutExpired
from typing import NoReturn

from shoal.collector import calm_collector
from shoal.guardian import die_with_parent
from shoal.worker.supervisor import flush_streams

NAME = (b"-m", b"shoal.worker")
"""The arguments by which it is seen in a list of processes, behind those of Python itself."""
THREADS, FILES = Path("/proc/self/task"), Path("/proc/self/fd")
THREADS_END_S = 0.1
"""Those that have done their work are about to end."""
LOOK_S = 0.01
STANDARD_ERROR = 2
ARG_START, ARG_END = 45, 46
"""In /proc/self/stat, counted from the field behind the name."""


class Forked:
    """The fork, as far as the command needs to know it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it lives."""
        if self._code is None:
            try:
                found, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # the system has seen to it, where nobody wants to hear of children
                found, status = self.pid, 0
            self._code = os.waitstatus_to_exitcode(status) if found else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; raises TimeoutExpired."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() >= until:
                raise TimeoutExpired("shoal.worker", timeout or 0)
            time.sleep(LOOK_S)
        return code

    def terminate(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


def can_fork() -> bool:
    """Has this process one thread only, those of libraries included?"""
    until = time.monotonic() + THREADS_END_S
    while (count := _threads()) > 1 and time.monotonic() < until:
        time.sleep(0.001)
    return count == 1


def _threads() -> int:
    """0 where the system does not tell."""
    try:
        return len(os.listdir(THREADS))  # noqa: PTH208 - a number, not paths
    except OSError:
        return 0


def fork_worker(variables: Mapping[str, str], log: int) -> Forked:
    """A worker with these variables, which writes to this file."""
    import_module("shoal.wiring")  # what takes longest to load, before the fork
    calm_collector()
    command = os.getpid()
    flush_streams()
    blocked = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())}
    try:
        pid = os.fork()
        if not pid:
            _live(command, variables, log, blocked)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return Forked(pid)


def _live(command: int, variables: Mapping[str, str], log: int, blocked: set[int]) -> NoReturn:
    """In the fork: nothing that the command has begun is brought to an end here."""
    code = 1
    try:
        os.setsid()
        die_with_parent(command)
        _take_files(log)
        _forget_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.environ.update(variables)
        be_called_worker()
        code = _serve()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:  # noqa: BLE001 - Python's own end would show it as well
        traceback.print_exc()
    finally:
        flush_streams()
        os._exit(code)


def _serve() -> int:
    import structlog

    from shoal.worker.__main__ import run

    structlog.reset_defaults()  # those of the command
    return run()


def _take_files(log: int) -> None:
    """In place of the command's, one of which may have been closed and be the log's number now."""
    nothing, log = (fcntl(file, F_DUPFD, STANDARD_ERROR + 1) for file in (os.open(os.devnull, os.O_RDWR), log))
    for number, file in enumerate((nothing, nothing, log)):
        os.dup2(file, number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # it was closed when the command began; libraries do not expect that
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    for name in os.listdir(FILES):  # noqa: PTH208 - numbers, not paths
        if int(name) > STANDARD_ERROR:
            with suppress(OSError):  # that of the list itself
                os.close(int(name))


def _forget_signals() -> None:
    """Those that the command has handlers for, and that it was told to ignore before it began: news of children."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def be_called_worker() -> None:
    """In lists of processes, and by whoever asks Python."""
    sys.argv[:] = sys.orig_argv[:] = [sys.executable, *(word.decode() for word in NAME)]
    with suppress(OSError, ValueError, IndexError):
        _write_arguments(b"".join(word + b"\0" for word in NAME))


def _write_arguments(words: bytes) -> None:
    """Over those of the command, which stand in the memory of this process, if there is room for them."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[ARG_START]), int(fields[ARG_END])
    first, _, rest = Path("/proc/self/cmdline").read_bytes().partition(b"\0")
    if len(first) + 1 + len(rest) != end - start or len(words) > len(rest):
        return
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(start + len(first) + 1)
        memory.write(words.ljust(len(rest), b"\0"))
