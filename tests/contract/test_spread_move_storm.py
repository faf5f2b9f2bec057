"""Slots move off servers that have just fallen, with links in what they lost: at the end each job has every page.

SHOAL_TEST_LONG=1 tries many more of them.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass

import pytest

from shoal.errors import Conflict, Unavailable
from shoal.frontier.moving import Move
from shoal.frontier.where import FrontierPlace
from shoal.wiring import redis_urls
from tests.contract.api import Desk
from tests.contract.spread_ground import desk as desk
from tests.contract.spread_ground import hurry
from tests.contract.spread_ground import servers as servers
from tests.contract.spread_ground import started as started
from tests.contract.test_spread_storm import Storm, over_at_last
from tests.long import LONG
from tests.shards import CONTROL, Servers

SHARDS = ("a", "b", "c")

STEPS = 30 if LONG else 12
SEEDS = range(60) if LONG else range(3)


@dataclass(slots=True)
class MovingStorm(Storm):
    """One in which servers are retired just because they fall."""

    def fall_and_move(self) -> None:
        """What was sent since the last save is lost, and slots are to move at once; others may be away meanwhile."""
        names = [name for name in self.servers.mortals if name not in {*self.gone, CONTROL}]
        name = self.dice.choice(names)
        self.save()
        with suppress(Unavailable):
            self.work()
        if self.dice.random() < 0.3:
            self.take_away()
        if name in self.gone:
            return
        self.servers.mortals[name].restart()
        for do in self.dice.sample([self.look, self.retire, self.work, self.retire], 3):
            with suppress(Unavailable, Conflict):
                self.retire(name) if do == self.retire else do()

    def retire(self, name: str = "a") -> None:
        settings = self.desk.platform.settings
        mover = FrontierPlace(redis_urls(settings).frontier, settings.prefix, settings.shard_urls).mover()
        try:
            targets = [each for each in mover.shards.names if each != name]
            for slot, owner in mover.shards.table(anew=True).items():
                if owner == name:
                    with suppress(Unavailable, Conflict):
                        mover.move(Move(slot, name, self.dice.choice(targets)))
        finally:
            mover.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_when_slots_move_off_servers_that_fall(
    servers: Servers, desk: Desk, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    with over_at_last(MovingStorm(desk, servers, random.Random(seed))) as storm:
        storm.submit()
        for _ in range(STEPS):
            with suppress(Unavailable, Conflict):
                storm.fall_and_move()
            storm.check()
            storm.step()
    for job, crawl in storm.jobs.items():
        stored = [each.url for each in desk.platform.pages.pages(job)]
        assert len(set(stored)) == len(stored)
        crawl.check(*storm.found(job))
