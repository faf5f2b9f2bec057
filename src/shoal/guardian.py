"""Keeps the embedded Redis alive for as long as anybody uses it. Run as a script, with the standard library only.

Every Shoal command holds a shared lock on `users.lock`; the kernel lets go of it when the process ends, however it
ends. The guardian restarts the server when it dies, and stops it (its data saved) once it gets the lock for itself:
then nobody is left. A command that comes at that moment waits for the lock, finds no server and starts a new guardian.

    python guardian.py users.lock -- redis-server --port 0 …
"""

from __future__ import annotations

import ctypes
import fcntl
import signal
import subprocess
import sys
import time
from typing import IO

_POLL_S = 0.25
_STOP_S = 30.0
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel end this process when its parent dies, also by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    # The server must not outlive its guardian, or a second one could open the same files.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)


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


def guard(lock_path: str, command: list[str]) -> None:
    """Run the server until nobody holds the lock."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = _start(command)
    with open(lock_path, "a") as lock:  # noqa: PTH123 - kept free of imports that cost start-up time
        while not _nobody_left(lock):
            if server.poll() is not None:
                server = _start(command)
            time.sleep(_POLL_S)
        _stop(server)


if __name__ == "__main__":
    guard(sys.argv[1], sys.argv[3:])
