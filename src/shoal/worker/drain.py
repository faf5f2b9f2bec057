"""The end of a slice: visits may end within their time, and what is unfinished then is given back.

What was fetched is delivered, unless the store stays away for longer than the worker may take to stop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

import structlog

from shoal.core.model import Lease
from shoal.errors import RowRefused, Unavailable
from shoal.worker.desk import Desk
from shoal.worker.kit import SliceLimits, SliceReport, SliceTools

log = structlog.get_logger()

LOOK_S = 0.1
"""Whoever waits for visits looks at the time this often."""
UNHURRIED = timedelta(seconds=30)
"""At least this long visits may go on after a slice whose time is up, unless the worker stops."""
LONGEST_RESERVE = timedelta(seconds=4)
"""Of the grace period, for what comes after the last fetch: to store, settle, give back; Celery's end takes three."""
SHORTEST_DELIVERY = timedelta(seconds=5)
"""What was fetched is worth so much time, also when there is less grace."""


class StopSign:
    """Has the slice been told to stop, and when?"""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.since = 0.0

    @property
    def up(self) -> bool:
        """Is the slice to stop?"""
        return self._event.is_set()

    def put_up(self) -> None:
        """Stop; the first time counts."""
        if not self.up:
            self.since = time.monotonic()
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """For this time, whatever happens on the desk; less when it goes up."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)


class Drain:
    """Brings what lies on a desk to its end."""

    def __init__(self, tools: SliceTools, limits: SliceLimits, desk: Desk, sign: StopSign, report: SliceReport) -> None:
        self._tools = tools
        self._limits = limits
        self._desk = desk
        self._sign = sign
        self._report = report

    async def run(self, deliverer: asyncio.Task[None]) -> None:
        """Let running visits end; interrupt those that outlive the grace period and give them back."""
        self._desk.draining = True
        await self._visits_end_or_stop()
        await self._interrupt(list(self._desk.visits))
        await self._deliver_rest(deliverer)

    async def give_back(self, leases: list[Lease]) -> None:
        """Others may have these requests at once."""
        self._report.given_back += len(leases)
        try:
            report = await self._tools.in_thread(lambda: self._tools.frontier.release(leases))
        except Unavailable as exc:
            log.warning("release_failed", error=str(exc), leases=len(leases))
            return
        await self._tools.finalise_all(report.ended)

    async def note_loose_ends(self) -> None:
        """Hosts were asked, though nothing came of it."""
        asks = self._tools.visitor.loose_ends()
        try:
            await self._tools.in_thread(lambda: self._tools.delivery.note(asks))
        except (Unavailable, RowRefused) as exc:
            log.warning("ledger_failed", error=str(exc), asks=len(asks))

    async def _visits_end_or_stop(self) -> None:
        started, looked = time.monotonic(), False
        while self._desk.visits and time.monotonic() < self._visits_until(started):
            if self._sign.up and not looked:
                looked = True
                await self._interrupt(self._unstarted())
            await self._desk.wait(LOOK_S)

    def _visits_until(self, started: float) -> float:
        grace = self._limits.grace
        if not self._sign.up:
            return started + max(grace, UNHURRIED).total_seconds()
        return self._sign.since + (grace - min(LONGEST_RESERVE, grace / 4)).total_seconds()

    def _unstarted(self) -> list[asyncio.Task[None]]:
        flights = self._tools.flights
        return [visit for visit in self._desk.visits if flights and not flights.has(visit)]

    async def _interrupt(self, visits: Iterable[asyncio.Task[None]]) -> None:
        """End these visits and let others have their requests at once."""
        leases = {visit: self._desk.visits[visit] for visit in visits}
        for visit in leases:
            visit.cancel()
        if not leases:
            return
        await asyncio.gather(*leases, return_exceptions=True)
        await self.give_back([lease for visit, lease in leases.items() if visit.cancelled()])
        try:
            await self._tools.in_thread(self._tools.ring)
        except Unavailable as exc:
            log.warning("release_failed", error=str(exc), leases=0)

    async def _deliver_rest(self, deliverer: asyncio.Task[None]) -> None:
        """A store that stays down must not keep a worker from stopping: its leases run out, and others repeat them."""
        patience_s = max(self._limits.grace, SHORTEST_DELIVERY).total_seconds()
        deliverer.add_done_callback(lambda _task: self._desk.wake())
        while not self._desk.empty and not deliverer.done():
            left_s = self._sign.since + patience_s - time.monotonic() if self._sign.up else patience_s
            if left_s <= 0:
                log.error("results_abandoned", results=self._desk.undelivered)
                return
            self._desk.hurry()
            await self._desk.wait(left_s)
        if deliverer.done():
            await deliverer
