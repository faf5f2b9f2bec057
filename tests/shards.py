"""A control Redis and shards that can be taken away, frozen, killed, and started again without their last writes."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.exceptions import RedisError

from shoal.frontier.scripts import connect, server_version
from shoal.guardian import die_with_parent
from tests import servers
from tests.waiting import wait_until

CONTROL = "control"


class Mortal:
    """One server, in a folder of its own; what it has saved is there when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = f"unix://{folder / 'socket'}"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            servers.valkey(),
            *("--port", "0", "--unixsocket", str(self._folder / "socket"), "--dir", str(self._folder)),
            *("--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"),
        ]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        wait_until(self._answers, within=servers.STARTS_WITHIN)
        return process

    def _answers(self) -> bool:
        client = connect(self.url, timeout_s=2)
        try:
            return bool(server_version(client))
        except (RedisError, OSError):
            return False
        finally:
            client.close()

    def save(self) -> None:
        """What it has now is on its disk."""
        connect(self.url).save()

    def kill(self) -> None:
        """It is gone with all that it has not saved."""
        self._process.kill()
        self._process.wait()
        with suppress(FileNotFoundError):
            (self._folder / "socket").unlink()

    def start(self) -> None:
        self._process = self._start()

    def restart(self) -> None:
        """As after a fall of the machine."""
        self.kill()
        self.start()

    def empty(self) -> None:
        """The same with a new disk."""
        self.kill()
        (self._folder / "dump.rdb").unlink(missing_ok=True)
        self.start()

    @contextmanager
    def frozen(self) -> Generator[None]:
        """It takes connections, and answers nobody."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self._process.poll() is None:
            self.kill()


@dataclass(frozen=True, slots=True)
class Servers:
    """All of them."""

    control: str
    urls: dict[str, str]
    mortals: dict[str, Mortal] = field(default_factory=dict[str, Mortal])

    def client(self, name: str) -> redis.Redis:
        return connect(self.control if name == CONTROL else self.urls[name])

    @property
    def named(self) -> str:
        """As SHOAL_SHARDS has them."""
        return " ".join(f"{name}={url}" for name, url in self.urls.items())

    def save(self) -> None:
        """What all of them have now is on their disks."""
        for mortal in self.mortals.values():
            mortal.save()

    def clear(self) -> None:
        """Nothing is left of an earlier test."""
        for name in self.mortals:
            client = self.client(name)
            client.flushall()
            client.close()

    @contextmanager
    def away(self, name: str) -> Generator[None]:
        """Nobody reaches this server, which lives on."""
        path = Path((self.control if name == CONTROL else self.urls[name]).removeprefix("unix://"))
        hidden = path.with_name("hidden")
        client = self.client(name)
        client.ping()
        path.rename(hidden)
        client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        try:
            yield
        finally:
            hidden.rename(path)
            client.close()


@contextmanager
def running_shards(*names: str) -> Generator[Servers]:
    """Fresh servers of these names, and a control Redis."""
    with ExitStack() as stack:
        mortals: dict[str, Mortal] = {}
        for name in (CONTROL, *names):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-"))
            mortals[name] = Mortal(Path(folder))
            stack.callback(mortals[name].stop)
        urls = {name: mortal.url for name, mortal in mortals.items()}
        yield Servers(urls.pop(CONTROL), urls, mortals)
