"""Watches a process tree: the memory that it takes together, and the CPU time of each of its processes."""

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

INTERVAL_SECONDS = 0.25


class Tree:
    """Samples a process and its descendants while the block lasts, and ends at its end what is left of them.

    Who was once seen in the tree is watched until then, also after it lost its parent.
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._cpu: dict[psutil.Process, float] = {}
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tree", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._end_leftovers()

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all processes together, as last seen."""
        return sum(self._cpu.values())

    def _end_leftovers(self) -> None:
        """End what outlived the root; psutil makes sure that an id still means the same process."""
        left = [process for process in self._cpu if process != self._root and process.is_running()]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)

    def _watch(self) -> None:
        self._sample()
        while not self._stop.wait(INTERVAL_SECONDS):
            self._sample()

    def _sample(self) -> None:
        total = sum(self._look_at(process) for process in self._members())
        self.peak_bytes = max(self.peak_bytes, total)

    def _members(self) -> set[psutil.Process]:
        members = {self._root, *self._cpu}
        with suppress(psutil.Error):
            members.update(self._root.children(recursive=True))
        return members

    def _look_at(self, process: psutil.Process) -> int:
        """Note a process' CPU time and return its memory; nothing, once it has ended."""
        try:
            times = process.cpu_times()
            self._cpu[process] = times.user + times.system
            return _memory(process)
        except psutil.Error:
            return 0


def _memory(process: psutil.Process) -> int:
    """Return the proportional share of memory (PSS), or the resident set where the kernel hides it."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.AccessDenied, AttributeError):
        return int(process.memory_info().rss)
