"""Commands without the start of Python: a process that has imported Shoal once forks itself for each of them.

A command is a process like any other: arguments, environment, folder, files and exit code are its own. Only what every
start of Python costs, most of a second, is paid once and not a thousand times. Commands that are interrupted, killed or
looked for by name are started in full (`Shoal.start`). A shell finds them as `shoal` in a folder (`forks_in`).
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
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from shoal.cli import forked
from shoal.cli.commands import PANELS
from shoal.collector import calm_collector

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
PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as forks:
    forks.connect({place!r})
    request = {{"args": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
    socket.send_fds(forks, [json.dumps(request).encode()], [0, 1, 2])
    sys.exit(int(forks.recv(16)))
"""
"""What a shell starts: its files, folder and variables go to the command, whose exit code comes back."""
UNSAID = 120
"""Python's own exit code when the last of its output could not be written."""
LATE = 124
"""The exit code of what took too long, as that of `timeout`."""
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
            request = json.dumps({"args": args, "environment": environment, "folder": str(folder)}).encode()
            assert len(request) < REQUEST_BYTES
            code = self.wait(request, [file.fileno() for file in (stdin, out, err)], timeout_s)
            if code is None:
                raise subprocess.TimeoutExpired(["shoal", *args], timeout_s)
            return code, _text(out), _text(err)

    def wait(self, request: bytes, files: list[int], timeout_s: float) -> int | None:
        """The exit code of a command with these files; None when it took too long, and was killed."""
        assert request  # nothing would mean that there are no more commands
        told, telling = os.pipe()
        with os.fdopen(told, "rb", buffering=0) as answers:
            with self._lock:
                socket.send_fds(self._socket, [request], [*files, telling])
            os.close(telling)
            pid = int(answers.readline())
            killer = threading.Timer(timeout_s, os.kill, (pid, signal.SIGKILL))
            killer.start()
            try:
                code = int(answers.readline())
            finally:
                timely = killer.is_alive()
                killer.cancel()
        return code if timely else None


@cache
def forks() -> Forks:
    """The one of this process."""
    made = Forks()
    atexit.register(made.close)
    return made


@contextmanager
def forks_in(folder: Path, timeout_s: float) -> Generator[None]:
    """For as long as the block lasts, a `shoal` in this folder, for shells."""
    place, program = folder / "forks", folder / "shoal"
    program.write_text(PROGRAM.format(python=sys.executable, place=str(place)))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(str(place))
        door.listen()
        threading.Thread(target=_let_in, args=(door, timeout_s), daemon=True).start()
        try:
            yield
        finally:
            door.shutdown(socket.SHUT_RDWR)


def _let_in(door: socket.socket, timeout_s: float) -> None:
    with suppress(OSError):  # the door is shut
        while True:
            caller, _ = door.accept()
            threading.Thread(target=_answer, args=(caller, timeout_s), daemon=True).start()


def _answer(caller: socket.socket, timeout_s: float) -> None:
    with caller:
        request, files, *_ = socket.recv_fds(caller, REQUEST_BYTES, 3)
        if not request:  # the caller has ended before it said anything
            return
        try:
            code = forks().wait(request, files, timeout_s)
        finally:
            for file in files:
                os.close(file)
        caller.send(str(LATE if code is None else code).encode())


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
    _open_streams()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return request["args"]


def _open_streams() -> None:
    """As Python does when it starts; the old ones remember what kind of files those of this process were."""
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


# --- in a command -----------------------------------------------------------------------------------------------------


def mark_of(home: str) -> str:
    """The name of forked workers of a home, by which they are found: their arguments and variables are the fork's."""
    return f"w{sha1(home.encode()).hexdigest()[:12]}"


def _name_worker() -> None:
    COMM.write_text(mark_of(os.environ["SHOAL_HOME"]))


def _run(command: Callable[[], object]) -> NoReturn:
    """To its end, which is Python's own, but that nothing is taken apart.

    That would be most of what a short command costs: each page of memory that is shared with the other forks is copied.
    """
    code = 0
    try:
        command()
    except SystemExit as exc:
        if isinstance(exc.code, str):
            print(exc.code, file=sys.stderr)
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    cast(Any, threading)._shutdown()
    cast(Any, atexit)._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = UNSAID
    forked.flush_streams()
    os._exit(code)


def main() -> None:
    for module in MODULES:
        importlib.import_module(module)
    calm_collector()
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        args = serve(asked)
    if args is not None:
        sys.argv[1:] = args
        cast(Any, forked).be_called_worker = _name_worker
        _run(lambda: runpy.run_module("shoal", run_name="__main__", alter_sys=True))


if __name__ == "__main__":
    main()
