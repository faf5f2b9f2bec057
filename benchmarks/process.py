"""Child processes: each is started in a group of its own, and ended by that id, whatever happens."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

Child = subprocess.Popen[bytes]

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 10.0
POLL_SECONDS = 0.02

_libc = ctypes.CDLL(None)


class NotReadyError(RuntimeError):
    """A server did not answer in time, or ended at once."""


@contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path,
    output: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    first: Callable[[], None] = lambda: None,
) -> Generator[Child]:
    """Run a command while the block lasts; its errors go to `log`, its output there too or to `output`.

    `first` is called in its process before it begins.
    """

    def begin() -> None:
        _die_with_parent()
        first()

    with log.open("wb") as errors, (output or log).open("ab") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=begin,
        )
    try:
        yield child
    finally:
        end(child)


def end(child: Child) -> None:
    """End a child and its group: ask first, then insist."""
    if child.poll() is None:
        _signal(child, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SECONDS)
    if child.poll() is None:
        _signal(child, signal.SIGKILL)
        child.wait()


def wait_ready(child: Child, answers: Callable[[], bool], *, seconds: float = 15.0) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + seconds
    while not answers():
        if child.poll() is not None:
            raise NotReadyError(f"{child.args!r} ended with {child.returncode}")
        if time.monotonic() > deadline:
            raise NotReadyError(f"{child.args!r} did not answer within {seconds:.0f} s")
        time.sleep(POLL_SECONDS)


def exit_on_term() -> None:
    """Leave on SIGTERM as on an error, through every `finally`, so that our own children are ended too."""
    signal.signal(signal.SIGTERM, _exit)


def listens(port: int) -> bool:
    """Say whether something on this machine accepts connections on a port."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def free_port() -> int:
    """Return a port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _signal(child: Child, number: signal.Signals) -> None:
    # The child leads its group and is not reaped yet, so its id cannot have gone to somebody else.
    with suppress(ProcessLookupError):
        os.killpg(child.pid, number)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _die_with_parent() -> None:
    # `finally` does not run when we are killed outright; the kernel then ends our children.
    if hasattr(_libc, "prctl"):
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
