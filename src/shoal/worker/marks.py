"""Marks: each process of the pool notes in shared memory that it lives, for as long as it is in a slice.

The memory is made before the fork. A mark is a process id and a time of the clock that all processes of a machine
share; a process that is frozen, or stuck in a call, makes none.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable

_MARK = struct.Struct("<qd")
LAPSE_S = 5.0
"""Who has not looked for so long was away himself, perhaps frozen together with those he looks at."""


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


class Marks:
    """The places of all processes of a pool."""

    def __init__(self, processes: int, now: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._memory = mmap.mmap(-1, processes * _MARK.size)
        self._now = now
        self._looked_at = self._awake_since = now()

    def of(self, index: int) -> Mark:
        """The place of the process with this number."""
        return Mark(self._memory, index % self._processes * _MARK.size)

    def silent(self, seconds: float) -> list[int]:
        """Processes that are in a slice and have made no mark for so long."""
        now = self._now()
        if now - self._looked_at > LAPSE_S:
            self._awake_since = now
        self._looked_at = now
        found = [_MARK.unpack_from(self._memory, i * _MARK.size) for i in range(self._processes)]
        return [pid for pid, at in found if pid and now - max(at, self._awake_since) > seconds]
