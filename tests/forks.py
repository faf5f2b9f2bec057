"""Commands without the start of Python: a process that has imported Shoal once forks itself for each of them.

A command is a process like any other: arguments, environment, folder, files and exit code are its own. Only what every
start of Python costs, most of a second, is paid once and not a thousand times. Commands that are interrupted, killed or
looked for by name are started in full (`Shoal.start`).
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import IO, Any, cast

from shoal.cli import forked
from shoal.cli.commands import PANELS

MODULES = (
    *sorted({f"shoal.cli.{entry.place.partition(':')[0]}" for entries in PANELS.values() for entry in entries}),
    *(
        "shoal.cli.main",
        "shoal.doctor.checkup",
        "shoal.observe",
        "shoal.wiring",
        "shoal.worker.app",
        "shoal.worker.doorbell",
        "shoal.store.export",
    ),
    *("shoal.worker.serve", "shoal.worker.tasks", "celery.apps.worker", "celery.concurrency.prefork"),
    *("alembic.command", "rich.table", "rich.console", "sqlalchemy.dialects.sqlite"),
)
"""What commands import when they need it."""
REQUEST_BYTES = 1 << 20
COMM = Path("/proc/self/comm")
"""The name of this process; its file on Linux."""


class Forks:
    """The process that forks; it ends with the one that made it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._lock = threading.Lock()
        with theirs:
            fd = theirs.fileno()
            command = [sys.executable, "-m", "tests.forks", str(fd)]
            self._process = subprocess.Popen(command, pass_fds=(fd,), cwd=Path(__file__).parent.parent)

    def close(self) -> None:
        """No more commands."""
        self._socket.close()
        self._process.wait()

    def run(
        self, args: tuple[str, ...], environment: dict[str, str], folder: Path, given: str, timeout_s: float
    ) -> tuple[int, str, str]:
        """(exit code, standard output, standard error) of a command; raises TimeoutExpired."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(given.encode())
            stdin.seek(0)
            code = self._wait(args, environment, folder, (stdin, out, err), timeout_s)
            return code, _text(out), _text(err)

    def _wait(
        self,
        args: tuple[str, ...],
        environment: dict[str, str],
        folder: Path,
        files: tuple[IO[bytes], ...],
        timeout_s: float,
    ) -> int:
        told, telling = os.pipe()
        with os.fdopen(told, "rb", buffering=0) as answers:
            request = json.dumps({"args": args, "environment": environment, "folder": str(folder)}).encode()
            assert len(request) < REQUEST_BYTES
            with self._lock:
                socket.send_fds(self._socket, [request], [*(file.fileno() for file in files), telling])
            os.close(telling)
            pid = int(answers.readline())
            killer = threading.Timer(timeout_s, os.kill, (pid, signal.SIGKILL))
            killer.start()
            try:
                code = int(answers.readline())
            finally:
                timely = killer.is_alive()
                killer.cancel()
        if not timely:
            raise subprocess.TimeoutExpired(["shoal", *args], timeout_s)
        return code


@cache
def forks() -> Forks:
    """The one of this process."""
    made = Forks()
    atexit.register(made.close)
    return made


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


# --- in the process that forks ---------------------------------------------------------------------------------------


def serve(asked: socket.socket) -> list[str] | None:
    """Fork for every request. Returns the arguments of a command in its own process, and None where all is over."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who runs the tests
    while True:
        text, files, *_ = socket.recv_fds(asked, REQUEST_BYTES, 4)
        if not text:
            return None
        if not os.fork():
            asked.close()
            return _watch(json.loads(text), files)
        for file in files:
            os.close(file)


def _watch(request: dict[str, Any], files: list[int]) -> list[str]:
    """Say who runs the command, and how it ended; returns only in the command's own process."""
    *standard, telling = files
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        os.write(telling, f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(telling, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(standard):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return request["args"]


# --- in a command -----------------------------------------------------------------------------------------------------


def mark_of(home: str) -> str:
    """The name of forked workers of a home, by which they are found: their arguments and variables are the fork's."""
    return f"w{sha1(home.encode()).hexdigest()[:12]}"


def _name_worker() -> None:
    COMM.write_text(mark_of(os.environ["SHOAL_HOME"]))


def main() -> None:
    for module in MODULES:
        importlib.import_module(module)
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        args = serve(asked)
    if args is not None:
        sys.argv[1:] = args
        cast(Any, forked).be_called_worker = _name_worker
        runpy.run_module("shoal", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
