"""How far the memory of a few processes rises."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil

INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes: resident, and with what is shared counted in proportion."""

    rss: int
    pss: int


class Rise:
    """Samples processes while the block lasts."""

    def __init__(self, processes: Callable[[], list[psutil.Process]]) -> None:
        self._processes = processes
        self.before = self.peak = self._sample()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def rss(self) -> int:
        return self.peak.rss - self.before.rss

    @property
    def pss(self) -> int:
        return self.peak.pss - self.before.pss

    def describe(self) -> str:
        before, peak = self.before, self.peak
        return (
            f"RSS {before.rss / 1e6:.0f} to {peak.rss / 1e6:.0f} MB, PSS {before.pss / 1e6:.0f} to {peak.pss / 1e6:.0f}"
        )

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            with suppress(psutil.Error):
                now = self._sample()
                self.peak = Size(max(self.peak.rss, now.rss), max(self.peak.pss, now.pss))

    def _sample(self) -> Size:
        infos = [process.memory_full_info() for process in self._processes()]
        return Size(sum(info.rss for info in infos), sum(getattr(info, "pss", info.rss) for info in infos))
