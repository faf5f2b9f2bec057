"""Where a benchmark of the control plane plays: a home of its own with the embedded Redis, the API, workers.

Everything is a real process, is told apart by that home, and is gone when the block ends, however it ends.
"""

import http.client
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.launch import REPOSITORY, environment
from benchmarks.process import Child, free_port, running, wait_ready
from shoal.embedded import hold_embedded
from shoal.redis_url import RedisUrls

START_S = 60.0
SERVER_ENDS_S = 40.0
POLL_S = 0.05


class BenchError(RuntimeError):
    """Something did not do what it was asked, so there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Api:
    """A running API."""

    child: Child
    port: int

    @property
    def processes(self) -> list[psutil.Process]:
        """gunicorn's master and its processes."""
        master = psutil.Process(self.child.pid)
        return [master, *master.children(recursive=True)]

    @property
    def cpu_seconds(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)


@dataclass(frozen=True, slots=True)
class Stage:
    """A home, its embedded Redis, and what is started on them."""

    home: Path
    redis: RedisUrls
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """SHOAL_* of all processes."""

    @property
    def database_url(self) -> str:
        return self.variables.get("SHOAL_DATABASE_URL") or f"sqlite:///{self.home / 'shoal.db'}"

    @contextmanager
    def api(self, port: int | None = None, *, log: str = "api") -> Generator[Api]:
        """The API, from its first answer on."""
        port = port or free_port()
        with self.process("shoal.api", log, SHOAL_API_PORT=str(port)) as child:
            wait_ready(child, lambda: answers(port), seconds=START_S)
            yield Api(child, port)

    @contextmanager
    def workers(self, processes: int = 2) -> Generator[None]:
        """What `shoal up` brings along besides the API: workers, and one more for the housekeeping, with the beat."""
        fetching = {"SHOAL_QUEUES": "http.high,http.batch,http.slow", "SHOAL_CONCURRENCY": str(processes)}
        keeping = {"SHOAL_QUEUES": "control", "SHOAL_BEAT": "true"}
        with (
            self.process("shoal.worker", "control", **keeping),
            self.process("shoal.worker", "worker", **fetching),
        ):
            yield

    @contextmanager
    def process(self, module: str, name: str, *arguments: str, **variables: str) -> Generator[Child]:
        """`python -m MODULE` while the block lasts; it writes to `{name}.log` and `{name}.out`."""
        command = [sys.executable, "-m", module, *arguments]
        env = environment({"SHOAL_HOME": str(self.home), **self.variables, **variables})
        log, output = self.home / f"{name}.log", self.home / f"{name}.out"
        with running(command, log=log, output=output, env=env, cwd=REPOSITORY) as child:
            yield child

    def written(self, name: str) -> str:
        """What a process has put out so far."""
        return (self.home / f"{name}.out").read_text(errors="replace")


@contextmanager
def a_stage(**variables: str) -> Generator[Stage]:
    """A stage on a new home, which is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-home-") as name, stage_at(Path(name), **variables) as stage:
        yield stage


@contextmanager
def stage_at(home: Path, **variables: str) -> Generator[Stage]:
    """A stage on this home."""
    with embedded_redis(home) as redis:
        yield Stage(home, redis, variables)


@contextmanager
def embedded_redis(home: Path) -> Generator[RedisUrls]:
    """The server that Shoal embeds; it ends with its last user, and the home can be removed after that."""
    hold = hold_embedded(home)
    try:
        yield RedisUrls.of(hold.url)
    finally:
        hold.release()
        _wait_until_gone(home / "redis")


def answers(port: int) -> bool:
    """Does an API serve requests there?"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _wait_until_gone(folder: Path) -> None:
    """The guardian of the embedded server notices by itself that nobody is left; one that does not is killed."""
    deadline = time.monotonic() + SERVER_ENDS_S
    with suppress(psutil.NoSuchProcess):
        guardian = psutil.Process(int((folder / "guardian.pid").read_text()))
        while str(folder) in " ".join(guardian.cmdline()) and guardian.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                guardian.kill()
            time.sleep(POLL_S)
