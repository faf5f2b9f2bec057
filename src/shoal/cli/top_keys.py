"""Single keys from a terminal, without Enter; the terminal is as before afterwards."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager

_ESCAPE = b"\x1b"
_NAMES = {b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\t": "tab"}


class Keyboard:
    """Of the terminal that this process was started from."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._typed = b""

    def wait(self, seconds: float) -> str:
        """The next key, by its letter or as `up`, `down`, `tab`; empty when none came in this time."""
        if not self._typed:
            ready, _, _ = select.select([self._file], [], [], max(0.0, seconds))
            if not ready:
                return ""
            self._typed = os.read(self._file, 64)
            if not self._typed:
                return "q"  # the terminal is gone
        known = next((keys for keys in _NAMES if self._typed.startswith(keys)), None)
        if known is None and self._typed.startswith(_ESCAPE):  # a key that means nothing here, as a whole
            self._typed = b""
            return ""
        key, self._typed = self._typed[: len(known or b"x")], self._typed[len(known or b"x") :]
        return _NAMES.get(key) or key.decode("ascii", "ignore").lower()


@contextmanager
def keyboard() -> Generator[Keyboard]:
    """Ctrl-C stays what it is."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    try:
        yield Keyboard(file)
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
