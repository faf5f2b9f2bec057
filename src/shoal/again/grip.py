"""A claim that is held for as long as its part is worked on: a thread says so, whatever the work itself waits for.

So a claim can be short, and the part of a worker that was killed is soon somebody else's. A worker that is stuck in one
page says nothing any more after a while, and loses its part as if it were dead.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import structlog

from shoal.errors import Unavailable
from shoal.frontier.parts import CLAIM, Claim, Parts

log = structlog.get_logger()

HOLD_S = CLAIM.total_seconds() / 4
"""Between two words that a part is still worked on."""
PATIENCE_S = 60.0
"""For one page; the longest that is allowed is that of the process apart, and a wait for the database."""


class Grip:
    """One worker's hold on a part."""

    def __init__(self, parts: Parts, claim: Claim, *, hold_s: float = HOLD_S, patience_s: float = PATIENCE_S) -> None:
        self._parts = parts
        self._claim = claim
        self._hold_s = hold_s
        self._patience_s = patience_s
        self._stirred_at = time.monotonic()
        self._lost = False
        self._lock = threading.Lock()
        self._let_go = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="grip", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go.set()
        self._thread.join()

    @property
    def claim(self) -> Claim:
        """As it is held now."""
        return self._claim

    @property
    def lost(self) -> bool:
        """Has somebody else the part, or is it not to be done any more?"""
        return self._lost

    def stir(self) -> None:
        """The work goes on."""
        self._stirred_at = time.monotonic()

    def moved(self) -> None:
        """What was read is written: nobody died over what comes next."""
        self.stir()
        self._hold(moved=True)

    def give_back(self) -> None:
        """Somebody else may go on; it was no accident."""
        with self._lock:
            if not self._lost:
                self._parts.give_back(self._claim)
            self._lost = True

    def _keep(self) -> None:
        while not self._let_go.wait(self._hold_s):
            if time.monotonic() - self._stirred_at > self._patience_s:
                continue
            try:
                self._hold()
            except Unavailable as exc:  # who works will notice, too; if Redis is back in time, nothing is lost
                log.warning("hold_failed", extraction=self._claim.extraction, part=self._claim.part, error=str(exc))

    def _hold(self, *, moved: bool = False) -> None:
        with self._lock:
            if self._lost:
                return
            held = self._parts.hold(self._claim, moved=moved)
            if held is None:
                self._lost = True
            else:
                self._claim = held
