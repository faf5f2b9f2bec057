"""What one process of a worker can do: pages a second while it had hardly a free socket, in the last minute.

A worker that waits for hosts most of the time shows nothing of what it can do, and does not say anything about it.
"""

from __future__ import annotations

from collections import deque

from shoal.worker.marks import Deeds

KEPT_S = 60.0
LEAST_MS = 1500
"""In less time too little comes to its end to say anything."""


class Pace:
    """Looks at a worker's sums, one behind the other."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Deeds]] = deque()

    def note(self, at: float, deeds: Deeds) -> float:
        """What was done up to now; returns the pace of one process, 0 when it is not known."""
        self._looks.append((at, deeds))
        while at - self._looks[0][0] > KEPT_S:
            self._looks.popleft()
        first = self._looks[0][1]
        full_ms = deeds.full_ms - first.full_ms
        return 1000 * (deeds.full_pages - first.full_pages) / full_ms if full_ms >= LEAST_MS else 0.0
