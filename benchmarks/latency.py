"""How long a person waits: from pressing enter to the first fetch, for a worker to join; and what idling costs."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import psutil

from benchmarks.launch import REPOSITORY, environment
from benchmarks.process import running
from benchmarks.result import Row
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve

STARTS, STARTS_QUICK = 5, 1
IDLE_S, IDLE_QUICK_S = 30.0, 3.0
DEADLINE_S = 60.0
MAX_FIRST_FETCH_S = 1.5
MAX_HELP_MS = 250.0
MAX_END_S = 1.0
MAX_JOIN_S = 2.0
MAX_IDLE_PERCENT = 1.0


def measure(quick: bool) -> list[Row]:
    """Each on a home of its own."""
    return [
        _help(STARTS_QUICK if quick else STARTS),
        *_short_crawls(STARTS_QUICK if quick else STARTS),
        _join(STARTS_QUICK if quick else STARTS),
        _idle(IDLE_QUICK_S if quick else IDLE_S),
    ]


def _help(times: int) -> Row:
    """The first one warms the caches, and does not count."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-home-") as home:
        waits = [_one_help(home) for _ in range(times + 1)][1:]
    return Row("`shoal --help`", 1000 * median(waits), "ms", f"median of {times}", MAX_HELP_MS)


def _one_help(home: str) -> float:
    started = time.monotonic()
    _shoal(home, "--help")
    return time.monotonic() - started


def _short_crawls(times: int) -> Iterator[Row]:
    """The first run, which makes the home and warms the caches, does not count."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-home-") as home, serve(_site()) as site:
        waits = [_one_crawl(site, home) for _ in range(times + 1)][1:]
    before, behind = (median(each) for each in zip(*waits, strict=True))
    note = f"median of {times}"
    yield Row("from enter to the first fetch of `shoal crawl`", before, "s", note, MAX_FIRST_FETCH_S)
    yield Row("from its last fetch to the prompt", behind, "s", note, MAX_END_S)


def _one_crawl(site: Server, home: str) -> tuple[float, float]:
    """Seconds (before the first fetch, behind the last one)"""
    before = len(site.hits)
    started = time.monotonic()
    _shoal(home, "crawl", site.url, "--pages", "5", "--rate", "unlimited", "--no-robots", "--quiet")
    return site.hits[before].at_monotonic - started, time.monotonic() - site.hits[-1].at_monotonic


def _join(times: int) -> Row:
    """A second worker process, started in the middle of a crawl that keeps the first one busy."""
    waits = [_one_join() for _ in range(times)]
    name = "from starting `shoal worker` in mid-crawl to its first page"
    return Row(name, median(waits), "s", f"median of {times}", MAX_JOIN_S)


def _one_join() -> float:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-home-") as home, serve(_site(20_000)) as site:
        crawl = _command("crawl", site.url, "--rate", "unlimited", "--no-robots", "--quiet", "--workers", "1")
        with running(crawl, log=Path(home) / "crawl.log", env=_environment(home), cwd=REPOSITORY):
            _wait(lambda: len(site.hits) > 500)
            log = Path(home) / "join.log"
            started = time.monotonic()
            with running(_command("worker"), log=log, env=_environment(home), cwd=REPOSITORY) as worker:
                _wait(lambda: _connected(worker.pid, site.port))
                return time.monotonic() - started


def _connected(pid: int, port: int) -> bool:
    """Has a process of this worker a connection to the site?"""
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            if any(connection.raddr and connection.raddr.port == port for connection in process.net_connections()):
                return True
    return False


def _idle(seconds: float) -> Row:
    """CPU of the worker, its processes and the embedded Redis while there is nothing to do."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-home-") as home:
        log = Path(home) / "worker.log"
        with running(_command("worker"), log=log, env=_environment(home), cwd=REPOSITORY) as worker:
            _wait(lambda: len(psutil.Process(worker.pid).children()) >= 1)
            time.sleep(2)  # what the start costs is not idling
            before = _cpu_seconds(worker.pid)
            time.sleep(seconds)
            used = _cpu_seconds(worker.pid) - before
    return Row("an idle `shoal worker`", used / seconds * 100, "% of a core", f"over {seconds:g} s", MAX_IDLE_PERCENT)


def _cpu_seconds(pid: int) -> float:
    worker = psutil.Process(pid)
    return sum(sum(process.cpu_times()[:2]) for process in (worker, *worker.children(recursive=True)))


def _site(pages: int = 50) -> LinkedSite:
    return LinkedSite(pages=pages, links=20, size=2_000)


def _shoal(home: str, *arguments: str) -> None:
    command = _command(*arguments)
    subprocess.run(command, env=_environment(home), cwd=REPOSITORY, timeout=DEADLINE_S, check=True, capture_output=True)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "shoal", *arguments]


def _environment(home: str) -> dict[str, str]:
    return environment({"SHOAL_HOME": home})


def _wait(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not ready after {DEADLINE_S:g} s")
        time.sleep(0.01)


if __name__ == "__main__":
    print(json.dumps([(row.name, row.value, row.unit) for row in measure(quick="--quick" in sys.argv)], indent=1))
