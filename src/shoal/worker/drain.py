"""The end of a slice: visits may end within their time, and what is unfinished then is given back.

What was fetched is delivered, unless the store stays away for longer than the worker may take to stop: then it is given
back too, and fetched again. A delivery that is under way all the same has lost its leases by that, and changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import structlog

from shoal.core.model import Lease
from shoal.errors import RowRefused, Unavailable
from shoal.worker.desk import Desk
from shoal.worker.grace import StopSign
from shoal.worker.kit import SliceLimits, SliceReport, SliceTools
from shoal.worker.threads import in_thread

log = structlog.get_logger()

LOOK_S = 0.1
"""Whoever waits for visits looks at the time this often."""
UNHURRIED = timedelta(seconds=30)
"""At least this long visits may go on after a slice whose time is up, unless the worker stops."""
INTERRUPTION_S = 0.5
"""What an interrupted visit still has to do takes less than this, unless a store is away."""


class Drain:
    """Brings what lies on a desk to its end."""

    def __init__(
        self,
        tools: SliceTools,
        limits: SliceLimits,
        desk: Desk,
        sign: StopSign,
        report: SliceReport,
        steady: ThreadPoolExecutor,
    ) -> None:
        self._tools = tools
        self._limits = limits
        self._desk = desk
        self._sign = sign
        self._report = report
        self._steady = steady
        """Leases are given back in a thread that no database can block."""

    async def run(self, deliverer: asyncio.Task[None]) -> None:
        """Let running visits end; interrupt those that outlive the grace period and give them back."""
        self._desk.draining = True
        deliverer.add_done_callback(lambda _task: self._desk.wake())
        await self._visits_end_or_stop(deliverer)
        await self._interrupt(list(self._desk.visits))
        await self._deliver_rest(deliverer)

    async def give_back(self, leases: list[Lease]) -> None:
        """Others may have these requests at once."""
        if not leases:
            return
        try:
            report = await self._sign.within(in_thread(self._steady, lambda: self._tools.frontier.release(leases)))
        except (Unavailable, TimeoutError) as exc:
            log.warning("release_failed", error=str(exc), leases=len(leases))
            return
        self._report.given_back += len(leases) - report.late
        await self._if_there_is_time(self._tools.finalise_all(report.ended))

    async def leave(self, *, but: Sequence[Lease] = ()) -> None:
        """All that is left on the desk is given back, except what nobody could ever deliver: that counts as lost."""
        for visit in self._desk.visits:
            visit.cancel()
        left = [lease for lease in self._desk.leases() if lease not in but]
        if left:
            await self.give_back(left)
            await self._call_others()
        await self._if_there_is_time(self._tools.visitor.end())
        await self._note_loose_ends()

    async def _note_loose_ends(self) -> None:
        """Hosts were asked, though nothing came of it."""
        asks = self._tools.visitor.loose_ends()
        if not asks:
            return
        try:
            await self._sign.within(self._tools.in_thread(lambda: self._tools.delivery.note(asks)))
        except (Unavailable, RowRefused, TimeoutError) as exc:
            log.warning("ledger_failed", error=str(exc), asks=len(asks))

    async def _visits_end_or_stop(self, deliverer: asyncio.Task[None]) -> None:
        started, looked = time.monotonic(), False
        while self._desk.visits and not deliverer.done() and time.monotonic() < self._visits_until(started):
            if self._sign.up and not looked:
                looked = True
                await self._interrupt(self._unstarted())
            await self._desk.wait(LOOK_S)

    def _visits_until(self, started: float) -> float:
        if not self._sign.up:
            return started + max(self._limits.grace, UNHURRIED).total_seconds()
        return self._sign.fetches_until

    def _unstarted(self) -> list[asyncio.Task[None]]:
        flights = self._tools.flights
        return [visit for visit, lease in self._desk.visits.items() if flights and not flights.has(lease)]

    async def _interrupt(self, visits: Iterable[asyncio.Task[None]]) -> None:
        """End these visits and let others have their requests at once."""
        leases = {visit: self._desk.visits[visit] for visit in visits}
        for visit in leases:
            visit.cancel()
        if not leases:
            return
        await asyncio.wait(leases, timeout=INTERRUPTION_S)
        await self.give_back([lease for visit, lease in leases.items() if not visit.done() or visit.cancelled()])
        await self._if_there_is_time(self._tools.visitor.end_interrupted())
        await self._call_others()

    async def _call_others(self) -> None:
        try:
            await self._sign.within(in_thread(self._steady, self._tools.ring))
        except (Unavailable, TimeoutError) as exc:
            log.warning("release_failed", error=str(exc), leases=0)

    async def _deliver_rest(self, deliverer: asyncio.Task[None]) -> None:
        """A store that stays down must not keep a worker from stopping."""
        while self._desk.undelivered and not deliverer.done():
            left_s = self._sign.results_until - time.monotonic() if self._sign.up else UNHURRIED.total_seconds()
            if left_s <= 0:
                log.error("results_abandoned", results=self._desk.undelivered)
                return
            self._desk.hurry()
            await self._desk.wait(left_s)
        if deliverer.done():
            await deliverer

    async def _if_there_is_time(self, work: Awaitable[object]) -> None:
        with suppress(TimeoutError):
            await self._sign.within(work)
