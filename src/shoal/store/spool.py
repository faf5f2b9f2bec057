"""Segments on their way: appended to a file of this machine, put into the object store batch by batch, and made one
object of when they are closed.

The file is a copy that saves the store's parts from being read back. No row depends on it: `sync` returns when the
bytes are in the store as well. The marker stays, with its lock, until the segment is whole there; one that nobody holds
tells of a writer that was killed, and whoever finds it on this machine does the rest.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path

import structlog

from shoal.core.frozen import frozen
from shoal.errors import ArchiveUnavailable
from shoal.store.parts import OVERDUE_S, Parts
from shoal.store.segment import Segment, marker_of, of_dead_writers, whole_until

log = structlog.get_logger()

LOOK_S = 60.0
"""This often a process looks for what killed ones have left on its machine."""
TICK_S = 2.0
LONGEST_BACKOFF_S = 60.0
END_S = 2.0
"""A process that ends waits so long for its last segments; who comes next has the rest to do."""
LEFT_AT_ONCE = 20


@frozen
class Closed:
    """A segment that nobody writes to any more; its marker is locked."""

    key: str
    path: Path
    marker: FileIO


class SpooledSegment(Segment):
    """One open file of one process, whose bytes are in the store when they are synced."""

    def __init__(self, root: Path, key: str, marker: FileIO, parts: Parts, ship: Callable[[Closed], None]) -> None:
        self._parts = parts
        self._ship = ship
        self._begun = time.time()
        super().__init__(root, key, marker)

    def _keep(self) -> None:
        self._parts.put(self.key, self._safe, self.size, self._path)
        late = max(time.time() - self._begun, time.monotonic() - self.begun_at)
        if late > OVERDUE_S:  # this process was frozen: others may have made the segment whole without this part
            raise ArchiveUnavailable(f"the segment {self.key} was begun {late:.0f} s ago, which is too long")

    def _complete(self) -> None:
        self._file.close()
        self._ship(Closed(self.key, self._path, self._marker))

    def cut(self) -> None:
        if not self._safe:
            super().cut()
            return
        try:
            self._file.truncate(self._safe)
        except OSError as exc:  # then it is longer than what rows point to, which does no harm
            log.warning("segment_not_cut", segment=self.key, error=str(exc))
        with suppress(OSError):
            self._complete()

    def discard(self) -> None:
        super().discard()
        try:
            self._parts.remove(self.key)
        except ArchiveUnavailable as exc:  # the housekeeping finds what no row points to
            log.warning("segment_not_removed", segment=self.key, error=str(exc))


class Shipper:
    """Makes closed segments whole in the store, in a thread of its own; what killed processes have left, too."""

    def __init__(self, root: Path, parts: Parts, close_idle: Callable[[], None]) -> None:
        self._root = root
        self._parts = parts
        self._close_idle = close_idle
        self._closed: deque[Closed] = deque()
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="shipper", daemon=True)

    def start(self) -> None:
        """Once."""
        self._thread.start()

    def ship(self, segment: Closed) -> None:
        """Let the thread do it."""
        self._closed.append(segment)
        self._wake.set()

    def end(self) -> None:
        """Ship what is there, within a bounded time."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(END_S)

    def _run(self) -> None:
        looked, backoff = 0.0, 0.0
        while True:
            try:
                if not looked or time.monotonic() - looked >= LOOK_S:
                    looked = time.monotonic()
                    ship_left(self._root, self._parts)
                self._close_idle()
                self._ship_all()
                backoff = 0.0
            except Exception as exc:  # noqa: BLE001 - nobody else ships: whatever it was, it is tried again
                backoff = min(max(TICK_S, backoff * 2), LONGEST_BACKOFF_S)
                log.warning("segments_not_shipped", waiting=len(self._closed), error=str(exc), retry_s=backoff)
            if self._ended and (backoff or not self._closed):
                return
            self._wake.wait(max(TICK_S, backoff))
            self._wake.clear()

    def _ship_all(self) -> None:
        while self._closed:
            segment = self._closed[0]
            self._parts.make_whole(segment.key, segment.path)
            _forget(self._root, segment.key)
            segment.marker.close()
            self._closed.popleft()
            log.debug("segment_shipped", segment=segment.key)


def ship_left(root: Path, parts: Parts, most: int = LEFT_AT_ONCE) -> list[str]:
    """What writers of this machine have left that were killed; returns the keys of segments that were cut on the way.

    Those of living writers are left alone. What is done twice, as the last one was killed meanwhile, does no harm.
    """
    cut: list[str] = []
    for key, was_cut in of_dead_writers(root, most):
        if was_cut:
            cut.append(key)
        parts.make_whole(key, _if_whole(root / key))
        _forget(root, key)
        log.info("segment_left_shipped", segment=key)
    return cut


def _if_whole(file: Path) -> Path | None:
    """A damaged file is of no use: the store has the parts."""
    try:
        with file.open("rb") as content:
            return file if whole_until(content) == file.stat().st_size else None
    except FileNotFoundError:
        return None


def _forget(root: Path, key: str) -> None:
    """The file goes first: one without a marker would be nobody's."""
    (root / key).unlink(missing_ok=True)
    marker_of(root, key).unlink(missing_ok=True)
    with suppress(OSError):  # other segments of the job are there
        (root / key).parent.rmdir()
