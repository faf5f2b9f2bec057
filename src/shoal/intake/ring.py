"""Doorbells, as those use them who bring work in."""

from __future__ import annotations

from typing import Protocol

import structlog

from shoal.errors import Unavailable

log = structlog.get_logger()


PARTS_RING = "parts."
"""Before the name of a queue: not requests wait for its workers, but parts of an extraction."""


class Ring(Protocol):
    """A doorbell: a queue has work."""

    def __call__(self, queue: str, request_id: str = "") -> None: ...


def announce(ring: Ring, queue: str, request_id: str) -> None:
    """Ring; when nobody hears it, workers look by themselves."""
    try:
        ring(queue, request_id)
    except Unavailable as exc:
        log.warning("ring_failed", queue=queue, error=str(exc))
