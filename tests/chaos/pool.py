"""The processes in which pages are fetched."""

from __future__ import annotations

import psutil

from tests.command import Shoal


def worker_processes(shoal: Shoal) -> list[psutil.Process]:
    """Workers of a home: those that take messages, and those that they have started to fetch pages."""
    return [process for process in shoal.processes() if _is_worker(process)]


def pool_processes(shoal: Shoal) -> list[psutil.Process]:
    """Those that fetch: workers that a worker has started and that have started none."""
    workers = worker_processes(shoal)
    pids, parents = {process.pid for process in workers}, {process.ppid() for process in workers}
    return [process for process in workers if process.ppid() in pids and process.pid not in parents]


def _is_worker(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:  # it has just ended
        return False
    return any(word.startswith("shoal.worker") for word in words) or words[-2:] == ["shoal", "worker"]
