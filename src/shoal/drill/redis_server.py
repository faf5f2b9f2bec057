"""A Redis of the drill's own, which can be killed, frozen and started again on the same append-only file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from shoal.embedded import find_server
from shoal.errors import InputError, RedisUnavailable
from shoal.frontier.scripts import answers, connect

START_S = 20.0
LEAST_CUT_BYTES, MOST_CUT = 100, 0.5
"""From the last command to half of the append-only file."""
_EXEC = b"*1\r\n$4\r\nEXEC\r\n"
MOST_PATH_BYTES = 100
"""Of a socket, on every system."""


class RedisServer:
    """The server and its folder."""

    def __init__(self, folder: Path) -> None:
        socket = folder / "redis.sock"
        if len(str(socket).encode()) > MOST_PATH_BYTES:
            raise InputError(f"{folder} is too long a path for a socket; set TMPDIR to a shorter one")
        folder.mkdir(parents=True)
        self._folder = folder
        self._socket = socket
        self.url = f"unix://{socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, for the first time or again, and wait until it answers."""
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shoal.drill.tether", str(os.getpid()), *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not answers(self.url):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RedisUnavailable(f"the drill's Redis did not start; its log: {self._folder / 'redis.log'}")
            time.sleep(0.01)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """It answers nothing more, but keeps its connections."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def flush(self) -> None:
        """All data gone."""
        client: Any = connect(self.url)
        client.flushall()
        client.close()

    def cut(self, depth: float) -> int:
        """Of a server that is down: the end of its append-only file is lost, a few bytes or (depth 1) half of it.

        The file ends behind a transaction: of one that is cut within a command, Redis 7.0 leaves the beginning in the
        file, never runs it, and runs it when it is started the next time.
        """
        tail = max((self._folder / "appendonlydir").glob("*.incr.aof"), key=lambda path: path.stat().st_mtime_ns)
        size = tail.stat().st_size
        lost = min(size, int(LEAST_CUT_BYTES * max(1.0, size * MOST_CUT / LEAST_CUT_BYTES) ** depth))
        kept = tail.read_bytes()[: size - lost]
        end = kept.rfind(_EXEC)
        left = len(kept) if end < 0 else end + len(_EXEC)
        os.truncate(tail, left)
        return size - left

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _command(self) -> list[str]:
        return [
            find_server(),
            *("--port", "0"),
            *("--unixsocket", str(self._socket)),
            *("--dir", str(self._folder)),
            *("--appendonly", "yes"),
            *("--appendfsync", "everysec"),
            *("--save", ""),
            *("--maxmemory-policy", "noeviction"),
            *("--loglevel", "warning"),
        ]
