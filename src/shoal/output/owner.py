"""Who works on a delivery: one at a time, who says every few seconds that it still does.

Whoever is not heard of loses the delivery to others. What it does late changes nothing: steps are written down by the
owner only, and only for what was asked of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import structlog

from shoal.errors import ShoalError
from shoal.store.deliveries import Deliveries, Delivery

log = structlog.get_logger()

OWNED = timedelta(seconds=20)
"""Who is not heard of for so long loses the delivery to others."""
BEAT_S = 4.0
SILENT_S = 600.0
"""Who has neither read rows nor delivered a part for so long is stuck, and is not heard of any more."""


class Lost(Exception):
    """Another worker has taken the delivery over, or something else is asked of it now."""


class Owner:
    """Works on one delivery."""

    def __init__(self, deliveries: Deliveries, number: int, now_ms: Callable[[], int]) -> None:
        self._deliveries = deliveries
        self._number = number
        self._name = uuid4().hex
        self._heard = time.monotonic()
        self.now_ms = now_ms

    def claim(self) -> Delivery | None:
        """None when another one works on it, or there is nothing left to do."""
        return self._deliveries.claim(self._number, self._name, self.now_ms(), OWNED)

    @contextmanager
    def working(self) -> Generator[None]:
        """Be heard of for as long as this lasts; then others may work on it."""
        ended = threading.Event()
        heart = threading.Thread(target=self._beat, args=(ended,), name="delivery-owner", daemon=True)
        heart.start()
        try:
            yield
        finally:
            ended.set()
            heart.join()
            self._deliveries.release(self._number, self._name)

    def goes_on(self) -> None:
        """A sign of life."""
        self._heard = time.monotonic()

    def keep(self, delivery: Delivery) -> Delivery:
        """Write down how far it has come."""
        self.goes_on()
        if not self._deliveries.save(delivery, self._name, self.now_ms()):
            raise Lost
        return delivery

    def look_again(self, due_ms: int) -> None:
        """Nothing was done; how long it has waited goes on to count."""
        if not self._deliveries.put_off(self._number, self._name, due_ms):
            raise Lost

    def check(self) -> None:
        """Right before a step that others can see."""
        if not self._renew():
            raise Lost

    def _renew(self) -> bool:
        return self._deliveries.renew(self._number, self._name, self.now_ms(), OWNED)

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_S):
            if time.monotonic() - self._heard > SILENT_S:
                log.warning("delivery_stuck", delivery=self._number)
                return
            try:
                if not self._renew():
                    return
            except ShoalError as exc:  # the next beat may be heard
                log.warning("delivery_not_renewed", delivery=self._number, error=str(exc))
