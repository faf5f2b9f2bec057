"""Where a frontier is: one Redis, or one and the shards that its hosts are spread over; and how it is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache

from shoal.core.frozen import frozen
from shoal.core.manners import DEFAULT_MANNERS, Manners
from shoal.frontier.frontier import Frontier
from shoal.frontier.moving import Mover
from shoal.frontier.rebuild import Rebuild
from shoal.frontier.scripts import connect
from shoal.frontier.shards import TIMEOUT_S, Shards
from shoal.frontier.spread import SpreadFrontier
from shoal.frontier.spread_rebuild import SpreadRebuild
from shoal.frontier.spread_watch import SpreadWatch
from shoal.frontier.spread_whereabouts import SpreadWhereabouts
from shoal.frontier.watch import Watch
from shoal.frontier.whereabouts import Whereabouts


@lru_cache(maxsize=8)
def _lasting(url: str, prefix: str, shards: tuple[tuple[str, str], ...], timeout_s: float, pid: int) -> Shards:
    """For those in a hurry, who open a watch for each question: who is away is known from one to the next."""
    del pid  # connections are not for a process that was forked
    return Shards.at(connect(url, timeout_s=timeout_s), prefix, dict(shards), timeout_s)


@frozen
class FrontierPlace:
    """One frontier."""

    url: str = field(repr=False)
    prefix: str = "shoal"
    shards: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Name → URL; none: everything is at `url`."""
    manners: Manners = DEFAULT_MANNERS

    def frontier(self, holder: str = "") -> Frontier:
        """For all that changes it."""
        control = connect(self.url)
        if not self.shards:
            return Frontier(control, self.prefix, self.manners, holder)
        return SpreadFrontier(control, self.prefix, Shards.at(control, self.prefix, self.shards), self.manners, holder)

    def watch(self, timeout_s: float = 10.0) -> Watch:
        """For who looks at it."""
        control = connect(self.url, timeout_s=timeout_s)
        if not self.shards:
            return Watch(control, self.prefix)
        if timeout_s < TIMEOUT_S:
            shards = _lasting(self.url, self.prefix, tuple(self.shards.items()), timeout_s, os.getpid())
            return SpreadWatch(control, self.prefix, shards, lasts=True)
        return SpreadWatch(control, self.prefix, Shards.at(control, self.prefix, self.shards))

    def rebuild(self) -> Rebuild:
        """For what it has lost."""
        control = connect(self.url)
        if not self.shards:
            return Rebuild(control, self.prefix, self.manners)
        return SpreadRebuild(control, self.prefix, Shards.at(control, self.prefix, self.shards), self.manners)

    def mover(self) -> Mover:
        """For who moves hosts from one server to another; for a frontier that has several."""
        control = connect(self.url)
        raw = {name: connect(url, texts=False) for name, url in self.shards.items()}
        return Mover(control, self.prefix, Shards.at(control, self.prefix, self.shards), raw)

    def whereabouts(self) -> Whereabouts:
        """For who looks for a URL."""
        control = connect(self.url)
        if not self.shards:
            return Whereabouts(control, self.prefix)
        return SpreadWhereabouts(control, self.prefix, Shards.at(control, self.prefix, self.shards))
