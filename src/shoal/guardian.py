"""Keeps the embedded Redis alive for as long as anybody uses it. Run as a script, with the standard library only.

Every Shoal command holds a shared lock on `users.lock`; the kernel lets go of it when the process ends, however it
ends. The guardian restarts the server when it dies, and stops it (its data saved) once it gets the lock for itself:
then nobody is left. A command that comes at that moment waits for the lock, finds no server and starts a new guardian.

    python guardian.py users.lock guardian.pid -- redis-server --port 0 …

It leaves its parent at once, so that no command has to wait for it, and writes down its process id. The file of the id
is locked for as long as the guardian or its server lives: two servers would ruin each other's files. When that file is
gone, because somebody deleted the folder, the guardian gives way: those who use the server make everything anew.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from typing import IO

_POLL_S = 0.25
_STOP_S = 30.0
_STEADY_S = 1.0
_MAX_FALSE_STARTS = 3
"""A server that dies within a second so many times in a row will not live."""
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None, by: int = signal.SIGTERM) -> None:
    """Have the kernel end this process when its parent dies, also by SIGKILL; at once, if `parent` is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def _start(command: list[str], presence: int) -> subprocess.Popen[bytes]:
    # The server must not outlive its guardian for long: nobody would look after it.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent, pass_fds=(presence,))


def _nobody_left(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def is_present(pid_path: str) -> bool:
    """Does a guardian live, or a server that has lost its own and is about to end?"""
    try:
        with open(pid_path) as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def is_file_at(path: str, descriptor: int) -> bool:
    """Is the open file still the one at this path? Not after somebody deleted it, or put another in its place."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116
    except FileNotFoundError:
        return False


def guard(lock_path: str, pid_path: str, presence: int, command: list[str]) -> None:
    """Run the server until nobody holds the lock, or its folder is deleted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server, started, false_starts = _start(command, presence), time.monotonic(), 0
    with open(lock_path, "a") as lock:  # noqa: PTH123 - kept free of imports that cost start-up time
        while True:
            if not is_file_at(pid_path, presence):
                server.kill()  # not gently: it would delete the socket, which may be that of its successor
                server.wait()
                return
            if _nobody_left(lock):
                break
            if server.poll() is not None:
                false_starts = false_starts + 1 if time.monotonic() - started < _STEADY_S else 0
                if false_starts == _MAX_FALSE_STARTS:
                    return
                server, started = _start(command, presence), time.monotonic()
            time.sleep(_POLL_S)
        _stop(server)


def _leave_parent(pid_path: str) -> int:
    """Go on as a process of its own, whose file of its id is open and locked."""
    file = os.open(pid_path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    pid = os.fork()
    if pid:
        os.ftruncate(file, os.pwrite(file, str(pid).encode(), 0))
        os._exit(0)
    return file


if __name__ == "__main__":
    guard(sys.argv[1], sys.argv[2], _leave_parent(sys.argv[2]), sys.argv[4:])
