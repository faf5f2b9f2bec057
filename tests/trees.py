"""The processes below one: which there were, what they took together, and which are left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import psutil

SAMPLE_S = 0.25
BROWSER = "--shoal-browser="
RENDERER = "--type=renderer"


class Tree:
    """Watched from a thread for as long as the block lasts."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tree", daemon=True)
        self.seen = set[psutil.Process]()
        self.peak = 0
        """The most bytes that all of them took at one moment."""
        self.peak_below = 0
        """The same of browsers and their drivers alone."""
        self.samples = 0

    def __enter__(self) -> Tree:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_S):
            with suppress(psutil.NoSuchProcess):
                self.look()

    def look(self) -> list[psutil.Process]:
        """All that run now."""
        below = self._root.children(recursive=True)
        self.seen.update(below)
        sizes = [(size_of(process), is_of_browser(process)) for process in below]
        self.peak = max(self.peak, sum(size for size, _ in sizes))
        self.peak_below = max(self.peak_below, sum(size for size, browsers in sizes if browsers))
        self.samples += 1
        return below

    @property
    def browsers(self) -> set[psutil.Process]:
        """Browsers, their renderers and drivers, that run now."""
        return {process for process in alive(self.seen) if is_of_browser(process)}


@contextmanager
def watched(root: int) -> Generator[Tree]:
    """The processes below this one, while the block lasts."""
    with Tree(root) as tree:
        yield tree


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that run; the dead whom nobody has buried do not."""
    return [process for process in processes if _runs(process)]


def is_of_browser(process: psutil.Process) -> bool:
    """A browser's process, or a driver's."""
    words = command_of(process)
    return any(word.startswith((BROWSER, "--type=", "run-driver")) for word in words) or "chrom" in name_of(process)


def command_of(process: psutil.Process) -> list[str]:
    """The command line; some write theirs as one word."""
    try:
        return " ".join(process.cmdline()).split()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def name_of(process: psutil.Process) -> str:
    """Of its program; empty when it is gone."""
    try:
        return process.name()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def size_of(process: psutil.Process) -> int:
    """Bytes that it takes for itself: what is mapped from files is shared by all, and can be dropped at any time."""
    try:
        if sys.platform != "linux":
            return process.memory_info().rss
        text = Path(f"/proc/{process.pid}/status").read_text()
    except (OSError, psutil.Error):
        return 0
    own = [line.split()[1] for line in text.splitlines() if line.startswith(("RssAnon:", "RssShmem:"))]
    return sum(map(int, own)) * 1024


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
