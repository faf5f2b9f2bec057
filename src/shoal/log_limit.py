"""How many lines are written: of one event so many a minute, for each job and process. The others are counted.

A million pages that fail alike are worth a few lines and a number. What is left out is told in a line of its own when
the minute is over, when the process ends, at the level of what it stands for: lines that are shown and lines that are
counted are together what happened, unless a process is killed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import structlog

log = structlog.get_logger()

WINDOW_S = 60.0
MOST_WINDOWS = 2_000
"""Events and jobs that are told apart; those beyond share a window for each event."""
UNLIMITED = frozenset({"lines_left_out", "request"})
"""The counts themselves, and what the API answered, which is a record of who did what."""

Kind = tuple[str, str]
"""Event and job."""


@dataclass(slots=True)
class _Window:
    ends: float
    shown: int = 0
    left_out: int = 0
    level: int = logging.DEBUG
    """The highest of what is left out."""
    request_id: str | None = None


class LineLimit:
    """A processor for structlog that drops lines and tells how many. For any number of threads; made anew by a fork."""

    def __init__(self, lines: int, window_s: float = WINDOW_S, clock: Callable[[], float] = time.monotonic) -> None:
        """So many `lines` of an event, for a job, in a window; 0: all."""
        self._lines = lines
        self._window_s = window_s
        self._clock = clock
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # what was left out before is told by who left it out

    def __call__(self, _logger: object, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        what = str(event.get("event"))
        if what in UNLIMITED or not self._lines:
            return event
        now = self._clock()
        with self._lock:
            kind, over = self._kind(what, str(event.get("job") or ""), now)
            window = self._windows.get(kind) or self._windows.setdefault(kind, _Window(now + self._window_s))
            is_shown = window.shown < self._lines
            if is_shown:
                window.shown += 1
            else:
                _count(window, name, event)
                self._tell_in_time(window.ends - now)
        for each in over:
            _tell(*each)
        if not is_shown:
            raise structlog.DropEvent
        return event

    def flush(self) -> None:
        """Tell now what was left out so far, since the process ends. The next lines are left out as before."""
        with self._lock:
            told = [(kind, _taken(window)) for kind, window in self._windows.items() if window.left_out]
        for each in told:
            _tell(*each)

    def _kind(self, what: str, job: str, now: float) -> tuple[Kind, list[tuple[Kind, _Window]]]:
        """Where a line counts, and the windows that are over, if this one is, or if there are too many."""
        kind = (what, job)
        window = self._windows.get(kind)
        if window is not None:
            if now < window.ends:
                return kind, []
            del self._windows[kind]
            return kind, [(kind, window)] if window.left_out else []
        over = self._all_over(now) if len(self._windows) >= MOST_WINDOWS and now >= self._look_at else []
        return (what, "") if len(self._windows) >= MOST_WINDOWS else kind, over

    def _all_over(self, now: float) -> list[tuple[Kind, _Window]]:
        """Forget windows that are over; returns those with lines that nobody was told of."""
        self._look_at = now + 1.0
        over = [(kind, window) for kind, window in self._windows.items() if now >= window.ends]
        for kind, _ in over:
            del self._windows[kind]
        return [(kind, window) for kind, window in over if window.left_out]

    def _tell_in_time(self, seconds: float) -> None:
        """Somebody tells it, also when no further line comes; there is a thread only while something is left out."""
        if self._timer is None:
            self._timer = threading.Timer(max(0.0, seconds), self._tell_over)
            self._timer.daemon = True
            with suppress(RuntimeError):  # the interpreter ends; then `flush` tells it
                self._timer.start()

    def _tell_over(self) -> None:
        now = self._clock()
        with self._lock:
            self._timer = None
            over = self._all_over(now)
            left = [window.ends for window in self._windows.values() if window.left_out]
            if left:
                self._tell_in_time(min(left) - now)
        for each in over:
            _tell(*each)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[Kind, _Window] = {}
        self._timer: threading.Timer | None = None
        self._look_at = 0.0


def _count(window: _Window, name: str, event: MutableMapping[str, Any]) -> None:
    window.left_out += 1
    window.level = max(window.level, getattr(logging, "ERROR" if name == "exception" else name.upper(), logging.INFO))
    window.request_id = event.get("request_id") or window.request_id


def _taken(window: _Window) -> _Window:
    told = _Window(window.ends, window.shown, window.left_out, window.level, window.request_id)
    window.left_out, window.level = 0, logging.DEBUG
    return told


def _tell(kind: Kind, window: _Window) -> None:
    """Under no names but those that it is about."""
    event, job = kind
    names = {"job": job, "request_id": window.request_id} if job else {}
    Context().run(lambda: log.log(window.level, "lines_left_out", of=event, count=window.left_out, **names))
