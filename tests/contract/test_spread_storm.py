"""A frontier in slots in a storm: crawls go on while servers fall, lose their last writes, come back empty and are
away, slots move, movers and workers die half-way, answers are lost of calls that were carried out; jobs are paused and
cancelled, get new limits, and their dead pages are tried again. At the end each job has every page that can be reached,
once, or a dead letter of it.

SHOAL_TEST_LONG=1 tries many more of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from shoal.core.model import ALL_QUEUES, JobState, Lease, Request
from shoal.core.url import parse
from shoal.errors import Conflict, RedisUnavailable, ShoalError, Unavailable
from shoal.frontier.moving import Move
from shoal.frontier.scripts import Scripts
from shoal.frontier.spread import SpreadFrontier
from shoal.frontier.where import FrontierPlace
from shoal.intake.replay import on_their_way
from shoal.wiring import redis_urls
from shoal.worker.delivery import Delivery
from shoal.worker.result import Result
from tests.contract.api import Desk, dead, page
from tests.contract.spread_ground import desk as desk
from tests.contract.spread_ground import hurry
from tests.contract.spread_ground import servers as servers
from tests.contract.spread_ground import started as started
from tests.long import LONG
from tests.shards import CONTROL, Servers

SHARDS = ("a", "b", "c")

HOSTS, DEPTH, LINKS = 12, 3, 3
STEPS = 60 if LONG else 30
SEEDS = range(60) if LONG else range(4)
ENOUGH = 300
"""Pages, for any job of this test."""
DEADLY, LOST_ANSWERS = 0.03, 0.004
LEASE_FOR = timedelta(milliseconds=300)
IN_TIME_S = 60


def links_of(url: str) -> list[str]:
    """Each page of the web of this test leads to some others, most of them of other hosts."""
    _, _, rest = url.partition("//h")
    host, _, path = rest.partition(".test/")
    depth, number = map(int, path.split("/"))
    if depth == DEPTH:
        return []
    seed = int(host) * 7 + number * 13 + depth
    return [f"http://h{(seed * (n + 3)) % HOSTS}.test/{depth + 1}/{(seed + 5 * n) % 9}" for n in range(LINKS)]


def reachable(urls: set[str]) -> set[str]:
    found, new = set(urls), set(urls)
    while new:
        new = {link for url in new for link in links_of(url)} - found
        found |= new
    return found


@dataclass(slots=True)
class Crawl:
    """A job, and what it must have at its end."""

    urls: set[str]
    budget: int | None = None
    cancelled: bool = False
    replayed: bool = False

    @property
    def is_bounded(self) -> bool:
        """May its budget be too small for what it reaches?"""
        return self.budget is not None and self.budget < ENOUGH

    def check(self, stored: set[str], dead: set[str]) -> None:
        """Every link of a stored page is stored, or has died."""
        assert stored | dead <= reachable(self.urls)
        if not self.cancelled and not self.is_bounded:
            # Who dies between a page and its links leaves both to the next one, for whom the page may be gone.
            lacks = (self.urls | {link for url in stored - dead for link in links_of(url)}) - stored - dead
            assert not lacks, "it has ended early"


def visit(one: Lease) -> Result:
    links = links_of(str(one.request.url))
    body = "".join(f'<a href="{link}">x</a>' for link in links).encode()
    return replace(page(one, body=body), candidates=tuple(Request(parse(link), depth=1) for link in links))


@dataclass(slots=True)
class Storm:
    """One of them."""

    desk: Desk
    servers: Servers
    dice: random.Random
    jobs: dict[str, Crawl] = field(default_factory=dict[str, Crawl])
    gone: dict[str, ExitStack] = field(default_factory=dict[str, ExitStack])
    late: list[Result] = field(default_factory=list[Result])
    """In the hands of a worker that is held up."""

    @property
    def frontier(self) -> SpreadFrontier:
        frontier = self.desk.platform.frontier
        assert isinstance(frontier, SpreadFrontier)
        return frontier

    def step(self) -> None:
        steps = {self.work: 12, self.look: 5, self.submit: 2, self.save: 3, self.restart: 2, self.empty: 1}
        steps |= {self.take_away: 2, self.give_back: 3, self.move: 3, self.die: 2, self.hold_up: 2, self.wake: 2}
        steps |= {self.pause: 1, self.keep_house: 3, self.fall_while_sent: 2}
        steps |= {self.cancel: 0.3, self.replay: 2, self.change: 2}
        do = self.dice.choices(list(steps), list(steps.values()))[0]
        with suppress(Unavailable, Conflict):  # what cannot be done now is done later, or by others
            do()
        self.check()

    def check(self) -> None:
        """No job has ended that lacks a page."""
        for job, crawl in self.jobs.items():
            with suppress(ShoalError):
                row = self.desk.platform.jobs.get(job)
                if row is not None and row.state is JobState.FINISHED:
                    crawl.check(*self.found(job))

    def found(self, job: str) -> tuple[set[str], set[str]]:
        """(stored, dead or on their way back)"""
        platform = self.desk.platform
        dead = {each.url for each in platform.pages.dead_letters(job)}
        dead |= {str(request.url) for some in on_their_way(platform.jobs, job) for request, _ in some}
        return {each.url for each in platform.pages.pages(job)}, dead

    # --- what goes on --------------------------------------------------------------------------------------------

    def submit(self) -> None:
        urls = {f"http://h{self.dice.randrange(HOSTS)}.test/0/{self.dice.randrange(9)}" for _ in range(4)}
        spec = {"urls": sorted(urls), "follow": True, "hosts": [f"h{n}.test" for n in range(HOSTS)], "robots": False}
        budget = self.dice.choice([None, None, ENOUGH, 2 * ENOUGH, 20])
        self.desk.post("jobs", {**spec, "rate": "unlimited", **({"pages": budget} if budget else {})})
        for row in self.desk.platform.jobs.newest(1):
            if row.id not in self.jobs:
                self.jobs[row.id] = Crawl(urls, budget)

    def cancel(self) -> None:
        if len(self.jobs) > 1:
            job = self.dice.choice(list(self.jobs))
            self.jobs[job].cancelled = True  # perhaps, if no answer comes
            self.desk.post(f"jobs/{job}/cancel")

    def replay(self) -> None:
        if self.jobs:
            job = self.dice.choice(list(self.jobs))
            self.jobs[job].replayed = True
            self.desk.post(f"jobs/{job}/dead/replay", {})

    def change(self) -> None:
        """Limits that leave nothing out, unless some were left out before."""
        bounded = [job for job, crawl in self.jobs.items() if crawl.budget]
        if bounded:
            job = self.dice.choice(bounded)
            pages = (
                self.dice.choice([ENOUGH, 2 * ENOUGH]) if not self.jobs[job].is_bounded else self.dice.randrange(9, 30)
            )
            self.desk.patch(f"jobs/{job}", {"pages": pages})

    def work(self) -> None:
        for _ in range(self.dice.randrange(1, 4)):
            self._deliver([self._visit(one) for one in self._lease(self.dice.randrange(1, 12))])

    def _lease(self, limit: int) -> tuple[Lease, ...]:
        return self.frontier.lease(queues=ALL_QUEUES, limit=limit, lease_for=LEASE_FOR).leases

    def _visit(self, one: Lease) -> Result:
        return dead(one, "http_404") if self.dice.random() < DEADLY else visit(one)

    def _deliver(self, results: list[Result]) -> None:
        platform = self.desk.platform
        if results:
            delivery = Delivery(self.frontier, platform.pages, self.desk.archive, platform.ending.finalise)
            delivery.deliver(results)

    def look(self) -> None:
        self.desk.platform.recovery.tick()

    def keep_house(self) -> None:
        self.desk.platform.housekeeper.tick()

    def pause(self) -> None:
        if self.jobs:
            job = self.dice.choice(list(self.jobs))
            self.desk.post(f"jobs/{job}/{self.dice.choice(['pause', 'resume'])}")

    # --- what befalls workers ------------------------------------------------------------------------------------

    def die(self) -> None:
        """After rows were stored, and perhaps links sent."""

        def dies(*_: object, **__: object) -> None:
            raise RedisUnavailable("nobody is there any more")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.frontier, self.dice.choice(["admit", "settle"]), dies)
            self._deliver([visit(one) for one in self._lease(5)])

    def hold_up(self) -> None:
        self.late += [visit(one) for one in self._lease(3)]

    def wake(self) -> None:
        late, self.late = self.late, []
        self._deliver(late)

    def fall_while_sent(self) -> None:
        """A server falls after links were sent, and before their pages are settled."""
        results = [visit(one) for one in self._lease(4)]
        settle = self.frontier.settle
        fall = self.dice.choice([self.restart, self.look, self.take_away])

        def late(*given: object) -> object:
            fall()
            return settle(*given)  # pyright: ignore[reportArgumentType]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.frontier, "settle", late)
            self._deliver(results)

    # --- what befalls servers ------------------------------------------------------------------------------------

    def _any(self) -> str:
        return self.dice.choice([name for name in self.servers.mortals if name not in self.gone] or [CONTROL])

    def save(self) -> None:
        for name, mortal in self.servers.mortals.items():
            if name not in self.gone:
                mortal.save()

    def restart(self) -> None:
        if (name := self._any()) not in self.gone:
            self.servers.mortals[name].restart()

    def empty(self) -> None:
        if (name := self._any()) not in self.gone:
            self.servers.mortals[name].empty()

    def take_away(self) -> None:
        if len(self.gone) < 2 and (name := self._any()) not in self.gone:
            stack = self.gone.setdefault(name, ExitStack())
            stack.enter_context(self.servers.away(name))

    def give_back(self) -> None:
        if self.gone:
            self.gone.pop(self.dice.choice(list(self.gone))).close()

    def move(self) -> None:
        settings = self.desk.platform.settings
        mover = FrontierPlace(redis_urls(settings).frontier, settings.prefix, settings.shard_urls).mover()
        slot, table = self.dice.randrange(16), mover.shards.table(anew=True)
        target = self.dice.choice([name for name in mover.shards.names if name != table[slot]])

        def meanwhile(_copied: int) -> None:
            if self.dice.random() < 0.05:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            mover.move(Move(slot, table[slot], target), meanwhile)
        mover.close()

    # --- after it ------------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """All servers are there, and everybody does what he does."""
        while self.gone:
            self.give_back()
        deadline = time.monotonic() + IN_TIME_S
        while not self._all_ended():
            assert time.monotonic() < deadline, self._left()
            for do in (self.look, self.wake, self.work, self.keep_house):
                with suppress(Unavailable, Conflict):
                    do()
            for job in self.jobs:
                self.desk.post(f"jobs/{job}/resume")

    def _all_ended(self) -> bool:
        with suppress(ShoalError):
            rows = [self.desk.platform.jobs.get(job) for job in self.jobs]
            if any(next(self.desk.platform.jobs.submissions.waiting(job), None) for job in self.jobs):
                return False
            return all(row is not None and row.state.ended and row.status is not None for row in rows)
        return False

    def _left(self) -> list[object]:
        return [self.frontier.status(job) for job in self.jobs]


def lose_answers(monkeypatch: pytest.MonkeyPatch, dice: random.Random) -> None:
    """Some calls are carried out, and nobody hears of it."""
    call = Scripts.call

    def lossy(self: Scripts, name: str, args: Any) -> Any:
        answer = call(self, name, args)
        if dice.random() < LOST_ANSWERS:
            raise RedisUnavailable(f"Redis did not answer ({name})")
        return answer

    monkeypatch.setattr(Scripts, "call", lossy)


S = TypeVar("S", bound=Storm)


@contextmanager
def over_at_last(storm: S) -> Generator[S]:
    """What is done in it, and the calm after it; whoever is away comes back, also when it fails."""
    try:
        yield storm
        storm.calm_down()
    finally:
        while storm.gone:
            storm.give_back()
    assert storm.jobs


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_in_a_storm(servers: Servers, desk: Desk, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    with over_at_last(Storm(desk, servers, random.Random(seed))) as storm:
        storm.submit()
        lose_answers(monkeypatch, storm.dice)
        for _ in range(STEPS):
            storm.step()
    for job, crawl in storm.jobs.items():
        row = desk.platform.jobs.get(job)
        stored = [each.url for each in desk.platform.pages.pages(job)]
        assert row is not None
        assert row.status is not None
        assert len(set(stored)) == len(stored)
        crawl.check(*storm.found(job))
        if row.state is not JobState.CANCELLED:
            # Who was held up may store a page that has died since, or is beyond the budget by now.
            counts = len(set(stored) - storm.found(job)[1]) if not crawl.is_bounded else 0
            assert counts <= row.status.counters.done, row.status
            # A letter whose page was not settled may be tried again beside it: two fetches, one row.
            assert crawl.replayed or row.status.counters.done <= len(stored), row.status
            assert crawl.replayed or row.status.reconciles, row.status


def test_the_web_of_this_test_is_worth_it() -> None:
    found = reachable({"http://h1.test/0/1", "http://h5.test/0/2"})
    assert len(found) > 20
