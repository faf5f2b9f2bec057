"""Ctrl-C and SIGTERM in the foreground: the first asks for a clean stop, the second stops at once."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Has the user asked to stop?"""

    def __init__(self) -> None:
        self.asked = False

    def check(self) -> None:
        """Before there is anything to stop cleanly."""
        if self.asked:
            raise KeyboardInterrupt

    def note(self, _signal: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def noted_interrupts() -> Generator[Interrupts]:
    """While this lasts, interrupts are noted instead of raised."""
    interrupts = Interrupts()
    before = [(number, signal.signal(number, interrupts.note)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield interrupts
    finally:
        for number, handler in before:
            signal.signal(number, handler)
