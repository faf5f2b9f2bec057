"""The one deadline of a page, and what is left of it for each step."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

READY_SHARE = 0.6
"""So much of the time is given to a page to get ready; then it is taken as it stands."""

STEP_SHARE = 0.8
"""Of what is left, a single step gets no more."""


class Deadline:
    """Runs from the moment it is made."""

    def __init__(self, total: timedelta) -> None:
        self._total_s = total.total_seconds()
        self._began = monotonic()

    @property
    def left_s(self) -> float:
        """Never nothing: to Playwright, no time means no limit."""
        return max(0.001, self._began + self._total_s - monotonic())

    @property
    def ready_s(self) -> float:
        """What is left for the page to get ready."""
        return max(0.001, self._began + self._total_s * READY_SHARE - monotonic())

    def ms(self, most_s: float | None = None) -> float:
        """For one step, in Playwright's unit; a bounded one leaves some time to say what became of it."""
        return 1_000 * (self.left_s if most_s is None else min(self.left_s * STEP_SHARE, most_s))
