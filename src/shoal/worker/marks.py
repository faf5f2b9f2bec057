"""Marks: each process of the pool notes in shared memory that it lives, for as long as it is in a slice; and what it
has done.

The memory is made before the fork. A mark is a process id and a time of the clock that all processes of a machine
share; a process that is frozen, or stuck in a call, makes none.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable

from shoal.core.frozen import frozen

_MARK = struct.Struct("<qd")
_DEEDS = struct.Struct("<qqqqqq")
_SIZE = _MARK.size + _DEEDS.size
LAPSE_S = 5.0
"""Who has not looked for so long was away himself, perhaps frozen together with those he looks at."""


@frozen
class Deeds:
    """What was done."""

    pages: int = 0
    """Results delivered."""
    last_ms: int = 0
    """When the last of them was; 0: there is none."""
    browsers: int = 0
    """That run now."""
    rendering: int = 0
    """Pages that are in them."""
    full_pages: int = 0
    """Results delivered by processes that had hardly a free socket."""
    full_ms: int = 0
    """For so long they had."""


class Mark:
    """The place of one process."""

    def __init__(self, memory: mmap.mmap, place: int) -> None:
        self._memory = memory
        self._place = place

    def make(self) -> None:
        """This process is in a slice, and lives."""
        _MARK.pack_into(self._memory, self._place, os.getpid(), time.monotonic())

    def clear(self) -> None:
        """It has nothing to do."""
        _MARK.pack_into(self._memory, self._place, 0, 0.0)

    def note(self, pages: int, browsers: int = 0, rendering: int = 0, full_ms: int = 0) -> None:
        """So many pages more, what its browser is doing, and for how long it had hardly a free socket meanwhile."""
        before = Deeds(*_DEEDS.unpack_from(self._memory, self._place + _MARK.size))
        last_ms = time.time_ns() // 1_000_000 if pages else before.last_ms
        full_pages = before.full_pages + (pages if full_ms else 0)
        after = (before.pages + pages, last_ms, browsers, rendering, full_pages, before.full_ms + full_ms)
        _DEEDS.pack_into(self._memory, self._place + _MARK.size, *after)


class Marks:
    """The places of all processes of a pool."""

    def __init__(self, processes: int, now: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._memory = mmap.mmap(-1, processes * _SIZE)
        self._now = now
        self._looked_at = self._awake_since = now()

    def of(self, index: int) -> Mark:
        """The place of the process with this number."""
        return Mark(self._memory, index % self._processes * _SIZE)

    def silent(self, seconds: float) -> list[int]:
        """Processes that are in a slice and have made no mark for so long."""
        now = self._now()
        if now - self._looked_at > LAPSE_S:
            self._awake_since = now
        self._looked_at = now
        found = [_MARK.unpack_from(self._memory, i * _SIZE) for i in range(self._processes)]
        return [pid for pid, at in found if pid and now - max(at, self._awake_since) > seconds]

    def deeds(self) -> Deeds:
        """Of all processes together, also of those that were in these places before."""
        each = [_DEEDS.unpack_from(self._memory, i * _SIZE + _MARK.size) for i in range(self._processes)]
        pages, last, browsers, rendering, full_pages, full_ms = zip(*each, strict=True)
        return Deeds(sum(pages), max(last), sum(browsers), sum(rendering), sum(full_pages), sum(full_ms))
