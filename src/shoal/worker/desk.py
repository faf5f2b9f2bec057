"""What lies on a slice's desk: visits under way and results not yet delivered, and who waits for a change of these."""

from __future__ import annotations

import asyncio
from collections import Counter

from shoal.core.model import Lease
from shoal.worker.result import Result
from shoal.worker.waiting import wait_at_most


class Desk:
    """The leases of one slice: each has just come, is a visit, or is a result."""

    def __init__(self) -> None:
        self.arriving: tuple[Lease, ...] = ()
        """What was leased and is no visit yet."""
        self.visits: dict[asyncio.Task[None], Lease] = {}
        self.settling: set[asyncio.Task[None]] = set()
        """Visits that settle their lease themselves."""
        self.results: list[Result] = []
        self.delivering: list[Result] = []
        self.draining = False
        """Nothing more will come."""
        self.is_dry = False
        """Did the last lease leave sockets free because nothing waits that it could have had?"""
        self._changed = asyncio.Event()
        self._results_wait = asyncio.Event()

    def put(self, result: Result) -> None:
        """What came of a visit, to be delivered."""
        self.results.append(result)
        self.hurry()

    def hurry(self) -> None:
        """Let the results that are there be delivered."""
        self._results_wait.set()

    async def results_come(self) -> None:
        """Until there is something to deliver."""
        await self._results_wait.wait()

    def take_results(self, most: int) -> list[Result]:
        """What is to be delivered now."""
        self.delivering, self.results = self.results[:most], self.results[most:]
        if not self.results:
            self._results_wait.clear()
        return self.delivering

    def delivered(self) -> None:
        """What was taken has arrived."""
        self.delivering = []
        self.wake()

    def wake(self) -> None:
        """Something has happened that whoever waits should look at."""
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Until something happens on the desk, or this time has passed."""
        self._changed.clear()
        await wait_at_most(self._changed, seconds)

    def leases(self) -> list[Lease]:
        """All that are not settled for certain."""
        results = (*self.results, *self.delivering)
        return [*self.arriving, *self.visits.values(), *(result.settlement.lease for result in results)]

    def groups(self) -> set[int]:
        """Of all leases: none may run out before it is settled."""
        return {lease.group for lease in self.leases()}

    def held_groups(self) -> set[int]:
        """Of leases that nobody has begun to settle: the frontier must know them."""
        under_way = {lease.group for visit, lease in self.visits.items() if visit not in self.settling}
        return under_way | {result.settlement.lease.group for result in self.results}

    def serving(self) -> Counter[str]:
        """Visits under way for each lane."""
        return Counter([lease.queue for lease in self.visits.values()])

    @property
    def undelivered(self) -> int:
        """Results that are not in the stores yet."""
        return len(self.results) + len(self.delivering)

    @property
    def brings_work(self) -> bool:
        """Is there nothing to lease but what undelivered results lead to?"""
        return self.is_dry and self.undelivered > 0

    @property
    def empty(self) -> bool:
        """Is all done?"""
        return not (self.visits or self.results or self.delivering)
