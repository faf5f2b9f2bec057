"""The grace period of a worker that was told to stop: until when fetches may go on, and what must be over when.

Nothing that is away, neither Redis nor the database, may keep a worker for longer: whoever waits for one of them while
the worker stops waits until here and no longer. A thread that is stuck in a call is left behind, and ends with its
process; what it may still write is harmless, since its leases are no longer its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from shoal.core.frozen import frozen
from shoal.worker.waiting import wait_at_most

LONGEST_RESERVE = timedelta(seconds=4)
"""Of the grace period, for what comes after the last fetch: to store, settle, give back; Celery's end takes three."""
SHORTEST_STOP = timedelta(seconds=5)
"""What was fetched is worth so much time, also when there is less grace."""
GIVING_BACK = timedelta(seconds=1)
"""At the end of a slice, for leases of results that no store has taken."""
LEAVING = timedelta(seconds=1)
"""Then the processes end."""
MARGIN = timedelta(seconds=0.5)
"""They are gone a little before anybody loses patience."""

T = TypeVar("T")


@frozen
class Grace:
    """Moments of a stop, each as the time since it was asked for."""

    given: timedelta

    @property
    def fetches(self) -> timedelta:
        """Running fetches may go on until then."""
        return self.given - min(LONGEST_RESERVE, self.given / 4)

    @property
    def results(self) -> timedelta:
        """Until then stores are asked to take what was fetched."""
        return max(timedelta(), self.slices - GIVING_BACK)

    @property
    def slices(self) -> timedelta:
        """Slices are over."""
        return max(timedelta(), max(self.given, SHORTEST_STOP) - LEAVING)

    @property
    def worker(self) -> timedelta:
        """The worker is gone."""
        return max(self.given, SHORTEST_STOP) - MARGIN


class StopSign:
    """Has the slice been told to stop, and how much time is left?"""

    def __init__(self, grace: Grace) -> None:
        self._event = asyncio.Event()
        self._grace = grace
        self._since = 0.0

    @property
    def up(self) -> bool:
        """Is the slice to stop?"""
        return self._event.is_set()

    def put_up(self) -> None:
        """Stop; the first time counts."""
        if not self.up:
            self._since = time.monotonic()
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """For this time, whatever happens on the desk; less when it goes up."""
        await wait_at_most(self._event, seconds)

    @property
    def fetches_until(self) -> float:
        """Once it is up: until when fetches may go on."""
        return self._since + self._grace.fetches.total_seconds()

    @property
    def results_until(self) -> float:
        """Once it is up: until when stores may take results."""
        return self._since + self._grace.results.total_seconds()

    @property
    def over_at(self) -> float:
        """Once it is up: when all must be over."""
        return self._since + self._grace.slices.total_seconds()

    async def within(self, work: Awaitable[T], patience_s: float = float("inf")) -> T:
        """What the work brings. It may take its time unless the sign is up; then so much, and no longer than the slice.

        Raises TimeoutError.
        """
        task = asyncio.ensure_future(work)
        goes_up = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, goes_up}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                left_s = self.over_at - time.monotonic()
                await asyncio.wait({task}, timeout=max(0.0, min(left_s, patience_s)))
            if not task.done():
                raise TimeoutError("there was no time left to wait for it")
            return task.result()
        finally:
            goes_up.cancel()
            task.cancel()
