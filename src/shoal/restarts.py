"""When what has died is started again: after a pause that grows, and that is short again after a steady life."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
STEADY_S = 60.0
"""Who has lived this long is started again as if for the first time."""


@dataclass(slots=True)
class Pauses:
    """The pauses before the restarts of one process."""

    _next_s: float = FIRST_PAUSE_S
    in_a_row: int = 0
    """Deaths without a steady life in between."""

    def after(self, lived_s: float) -> float:
        """It died after so many seconds: how long to wait now."""
        if lived_s >= STEADY_S:
            self._next_s, self.in_a_row = FIRST_PAUSE_S, 0
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, LONGEST_PAUSE_S)
        self.in_a_row += 1
        return pause_s
