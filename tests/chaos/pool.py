"""The processes in which pages are fetched."""

from __future__ import annotations

import subprocess

import psutil

from tests.command import Shoal
from tests.forks import mark_of


def worker_processes(shoal: Shoal) -> list[psutil.Process]:
    """Workers of a home: those that take messages, and those that they have started to fetch pages."""
    return [process for process in shoal.processes() if _is_worker(process, mark_of(str(shoal.home)))]


def pool_processes(shoal: Shoal) -> list[psutil.Process]:
    """Those that fetch: workers that a worker has started and that have started none."""
    workers = worker_processes(shoal)
    pids, parents = {process.pid for process in workers}, {process.ppid() for process in workers}
    return [process for process in workers if process.ppid() in pids and process.pid not in parents]


def kill_whole(worker: subprocess.Popen[str]) -> None:
    """A worker with all its processes, the supervisor first, so that nobody has the time to clean up."""
    family = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
    for process in family:
        process.suspend()
    for process in family:
        process.kill()


def _is_worker(process: psutil.Process, mark: str) -> bool:
    try:
        words, named = process.cmdline(), process.name() == mark
    except psutil.NoSuchProcess:  # it has just ended
        return False
    return named or any(word.startswith("shoal.worker") for word in words) or words[-2:] == ["shoal", "worker"]
