"""What a drill is to do, as a value. All of it follows from the plan: the same plan has the same faults."""

from __future__ import annotations

from shoal.core.frozen import frozen
from shoal.drill.kind import DECK, Kind

RATE = 4.0
"""Requests a second to each host: what Shoal does when nobody says otherwise."""
PARALLEL = 2
SUBMITTED_SHARE = 4
"""One of so many URLs is submitted; the others are found by links."""
GRACE_S = 3.0
"""Time for a worker's running fetches when it is told to stop."""
ALLOWANCE_S = 10.0
"""A fault may cost its lease and this much."""
MOST_RECOVERIES = 4
"""A run takes at most as long as the undisturbed crawl and so many times the faults' recoveries."""


@frozen
class Plan:
    """One run."""

    urls: int = 2_000
    hosts: int = 20
    workers: int = 4
    faults: int = 6
    seed: int = 1
    lease_s: float = 5.0
    rate: float = RATE
    kinds: tuple[Kind, ...] = DECK
    """What its faults are drawn from."""
    flush: bool = True
    """Is Redis to lose data in any case, whatever is drawn?"""

    @property
    def submitted(self) -> int:
        """How many URLs are handed in; the first pages of the site."""
        return min(self.urls, max(self.hosts, self.urls // SUBMITTED_SHARE))

    @property
    def sockets(self) -> int:
        """Fetches at once in each worker: few, so that none of them can do all the work alone."""
        return max(2, self.hosts // self.workers + 1)

    @property
    def most_leased(self) -> int:
        """What all workers together can hold at once."""
        return self.workers * self.sockets

    @property
    def undisturbed_s(self) -> float:
        """How long the crawl would take without faults."""
        return self.urls / self.hosts / self.rate

    @property
    def most_recovery_s(self) -> float:
        """A fault must be over after this time."""
        return self.lease_s + ALLOWANCE_S

    @property
    def deadline_s(self) -> float:
        """A run that takes longer has failed."""
        return 30.0 + 2 * self.undisturbed_s + MOST_RECOVERIES * self.most_recovery_s + self.faults * 2 * self.lease_s
