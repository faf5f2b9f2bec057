"""Doorbells: who rings for a queue, so that one ring is on its way and not a hundred."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from datetime import timedelta

import redis

from shoal.frontier.scripts import translated_errors
from shoal.frontier.wire import ms

RING_LIFETIME = timedelta(seconds=15)
"""A ring that nobody has answered for this long was not heard."""


class Doorbells:
    """One for each queue."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def claim(self, queue: str) -> bool:
        """True for the one caller that should ring now; nobody else needs to until it was answered or is stale."""
        with translated_errors("ring"):
            return bool(self._client.set(f"{self._prefix}:ring:{queue}", 1, nx=True, px=ms(RING_LIFETIME)))

    def answer(self, queue: str) -> None:
        """A slice has come to the door: the next ring may follow."""
        with translated_errors("ring"):
            self._client.delete(f"{self._prefix}:ring:{queue}")
