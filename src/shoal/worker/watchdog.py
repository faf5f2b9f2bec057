"""The watchdog: a worker is judged by its progress, not by its process.

After a lost connection Celery's Redis transport may leave a worker alive but deaf: rings lie in the queue, processes
are free, and nothing begins. That looks the same from outside whatever the cause, and a new start mends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Watchdog:
    """Has work been left lying for too long?"""

    def __init__(self, patience_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._now = now
        self._since: float | None = None
        self._slices = 0

    @property
    def is_worried(self) -> bool:
        return self._since is not None

    def calm(self) -> None:
        """All is well, or nobody can tell."""
        self._since = None

    def look(self, slices: int) -> float | None:
        """There is work that could be taken now, and so many slices have begun: the seconds since, if too many."""
        if self._since is None or slices != self._slices:
            self._since, self._slices = self._now(), slices
        waited = self._now() - self._since
        return waited if waited >= self._patience_s else None
