"""Budgets of pages of a frontier in slots: they come out as those of a frontier in one piece, whatever happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from shoal.core.model import Lease, Outcome, Request
from shoal.core.spec import JobSpec
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.job_list import Joined
from shoal.frontier.rebuild import Lost, Recalled
from shoal.frontier.scripts import Scripts, connect
from shoal.frontier.slots import slot_of
from shoal.frontier.spread import SpreadFrontier
from shoal.frontier.spread_rebuild import SpreadRebuild
from tests.contract.frontier_calls import counters, lease, pages, settle
from tests.contract.spread_ground import a_frontier, host_of_shard, shards_of
from tests.contract.spread_ground import servers as servers
from tests.contract.spread_ground import started as started
from tests.long import LONG
from tests.shards import CONTROL, Servers
from tests.waiting import wait_until

HOSTS = [f"h{n}.test" for n in range(8)]


@pytest.fixture
def frontier(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Generator[SpreadFrontier]:
    monkeypatch.setattr("shoal.frontier.budgets.DRY_S", 0.0)
    frontier = a_frontier(servers)
    yield frontier
    frontier.close_connections()


@pytest.fixture
def rebuild(servers: Servers) -> Generator[SpreadRebuild]:
    rebuild = SpreadRebuild(connect(servers.control), "shoal", shards_of(servers))
    yield rebuild
    rebuild.close_connections()


def budget(count: int) -> JobSpec:
    return JobSpec(rate="unlimited", pages=count)


def used(frontier: Frontier) -> int:
    sums = counters(frontier, "job")
    return sums.admitted - sums.dead - sums.dropped


# --- rebuilt ----------------------------------------------------------------------------------------------------------


def recalled(host: str, count: int) -> list[Recalled]:
    return [Recalled(request.url.fingerprint, host, "done", "", 10, 0) for request in pages(host, count)]


def test_a_rebuilt_job_has_the_rest_of_its_budget(frontier: SpreadFrontier, rebuild: SpreadRebuild) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    rebuild.begin(Lost("job", budget(100)), "recall pages")
    assert rebuild.recall("job", [*recalled(a, 40), *recalled(b, 20)]) == 60
    rebuild.advance("job", "recall pages", "links")
    for n in range(3):
        assert frontier.admit("job", pages(a, 5, first=100 + 5 * n)).admitted == 5
    assert frontier.admit("job", pages(b, 60, first=100)).admitted == 25
    assert frontier.admit("job", pages(a, 60, first=200)).admitted == 0
    assert used(frontier) == 100


def test_what_is_recalled_twice_is_used_once(frontier: SpreadFrontier, rebuild: SpreadRebuild) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    rebuild.begin(Lost("job", budget(100)), "recall pages")
    for _ in range(3):
        rebuild.recall("job", recalled(a, 40))
    rebuild.advance("job", "recall pages", "links")
    assert frontier.admit("job", pages(b, 100)).admitted == 60


def test_nothing_comes_to_a_job_before_it_knows_what_is_stored(
    frontier: SpreadFrontier, rebuild: SpreadRebuild, servers: Servers
) -> None:
    """Whoever brings something has asked for the job's life just before it was dropped, and begun again."""
    a = host_of_shard(frontier, "a")
    frontier.create("job", budget(100))
    joined, new = frontier.jobs.list.join("job", [slot_of(a)]), pages(a, 5)
    rebuild.drop("job")
    rebuild.begin(Lost("job", budget(100)), "recall pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier.jobs.list, "join", once(joined, frontier.jobs.list.join))
        assert frontier.admit("job", new).state is None
    assert not any(frontier.jobs.view.names()[0].values())
    rebuild.recall("job", recalled(a, 5))
    rebuild.advance("job", "recall pages", "links")
    assert frontier.admit("job", new).admitted == 0


def once(first: Joined, then: Callable[..., Joined]) -> Callable[..., Joined]:
    left = [first]
    return lambda *args, **more: left.pop() if left else then(*args, **more)


# --- changed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [budget(1000), budget(500), JobSpec(rate=9, pages=900)])
def test_new_limits_drop_nothing_that_came_meanwhile(frontier: SpreadFrontier, servers: Servers, spec: JobSpec) -> None:
    """Others go on to admit, of what their slots have in advance, in every gap."""
    other = SpreadFrontier(connect(servers.control), "shoal", shards_of(servers))
    frontier.create("job", budget(900))
    frontier.admit("job", [request for host in HOSTS for request in pages(host, 5)])
    call, came = Scripts.call, iter(range(1000, 1100))
    meanwhile: list[int] = []

    def gaps(self: Scripts, name: str, args: Any) -> Any:
        answer = call(self, name, args)
        if name in ("share", "allot", "note_share", "cut_share", "configure_job") and not meanwhile:
            meanwhile.append(1)
            other.admit("job", [Request(pages(host, 1, first=next(came))[0].url) for host in HOSTS])
            meanwhile.clear()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scripts, "call", gaps)
        with suppress(StopIteration):
            frontier.configure_job("job", spec)
    assert counters(frontier, "job").dropped == 0
    assert counters(frontier, "job").filtered == 0
    other.close_connections()


def test_a_smaller_budget_holds_for_a_server_that_was_away(frontier: SpreadFrontier, servers: Servers) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    frontier.create("job", budget(1000))
    frontier.admit("job", [*pages(a, 50), *pages(b, 200)])
    with servers.away("b"):
        frontier.configure_job("job", budget(100))
        assert used_there(frontier) == 50
    wait_until(lambda: not frontier.shards.troubles())
    frontier.tend()
    assert used(frontier) == 100
    assert frontier.admit("job", pages(a, 10, first=500)).admitted == 0


def used_there(frontier: SpreadFrontier) -> int:
    """Of the servers that are there; of others, what they had when they were last seen is not asked for."""
    sums = counters(frontier, "job")
    return sums.queued


def test_no_more_is_given_out_while_the_list_may_have_forgotten_what_was(
    frontier: SpreadFrontier, servers: Servers
) -> None:
    """The control Redis has lost its last writes: one server has got the whole budget, and is away."""
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    frontier.create("job", budget(100))
    frontier.admit("job", [*pages(a, 1), *pages(b, 1)])
    servers.save()
    frontier.admit("job", pages(a, 98, first=1))
    servers.mortals[CONTROL].restart()
    with servers.away("a"), pytest.raises(RedisUnavailable, match="not all of these hosts"):
        frontier.admit("job", pages(b, 50, first=1))
    wait_until(lambda: not frontier.shards.troubles())
    frontier.admit("job", pages(b, 50, first=1))
    assert used(frontier) == 100
    assert frontier.admit("job", pages(a, 50, first=500)).admitted == 0


def test_a_control_redis_that_does_not_answer_is_not_blamed_on_a_shard(frontier: SpreadFrontier) -> None:
    a = host_of_shard(frontier, "a")
    frontier.create("job", budget(100))
    frontier.admit("job", pages(a, 1))

    def silent(*_: object) -> tuple[int, int, bool]:
        raise RedisUnavailable("Redis did not answer (allot)") from TimeoutError()

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RedisUnavailable):
        patch.setattr(frontier.jobs.list, "allot", silent)
        frontier.admit("job", pages(a, 90, first=1))
    assert frontier.shards.troubles() == ()
    assert len(lease(frontier)) == 1


# --- anything ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Twin:
    """A frontier in a piece, or one in slots, to which the same happens."""

    frontier: Frontier
    dead: list[tuple[Request, str]] = field(default_factory=list[tuple[Request, str]])

    def work(self, count: int, outcome: Outcome) -> None:
        held: list[Lease] = []
        while len(held) < count and (more := lease(self.frontier, count - len(held))):
            held += more
        settle(self.frontier, held, outcome, reason="x" if outcome is Outcome.DEAD else "")
        if outcome is Outcome.DEAD:
            self.dead += [(one.request, "x") for one in held]

    def replay(self, token: str, count: int) -> None:
        some, self.dead = self.dead[:count], self.dead[count:]
        again(lambda: self.frontier.replay("job", token, some))

    @property
    def sums(self) -> dict[str, int]:
        found = counters(self.frontier, "job")
        names = ("admitted", "queued", "delayed", "leased", "done", "dead", "dropped", "filtered")
        return {name: getattr(found, name) for name in names}


def again(do: Callable[[], object]) -> None:
    """As everybody does whose call did not succeed."""
    for _ in range(20):
        with suppress(RedisUnavailable):
            do()
            return
    raise AssertionError("it never succeeds")


def happens(twin: Twin, dice: random.Random, number: int) -> tuple[str, int, int]:
    """(what; how many requests; the budget, if that has changed)"""
    kind, count = dice.choice(["admit"] * 4 + ["done", "dead", "replay", "limit"]), dice.randrange(1, 25)
    limit = dice.randrange(20, 120)
    fresh = [pages(dice.choice(HOSTS), 1, first=1000 * number + n)[0] for n in range(count)]
    match kind:
        case "admit":
            again(lambda: twin.frontier.admit("job", fresh))
        case "done" | "dead":
            twin.work(count, Outcome(kind))
        case "replay":
            count = min(count, len(twin.dead))
            twin.replay(str(number), count)
        case _:
            again(lambda: twin.frontier.configure_job("job", budget(limit)))
    return kind, count, limit if kind == "limit" else 0


@pytest.mark.parametrize("seed", range(40 if LONG else 5))
def test_a_budget_comes_out_as_in_one_piece(frontier: SpreadFrontier, servers: Servers, seed: int) -> None:
    plain, spread = Twin(Frontier(connect(servers.control), "plain")), Twin(frontier)
    for twin in (plain, spread):
        twin.frontier.create("job", budget(60))
    for number in range(40):
        what = [happens(twin, random.Random(f"{seed} {number}"), number)[0] for twin in (plain, spread)]
        assert spread.sums == plain.sums, (number, what)


LOST = ("share", "cut_share", "configure_job", "replay", "admit", "allot", "note_share", "open_slot", "join_slots")


@pytest.mark.parametrize("seed", range(40 if LONG else 5))
def test_answers_that_are_lost_neither_stretch_a_budget_nor_drop_what_is_in_it(
    frontier: SpreadFrontier, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, call, twin, limit = random.Random(seed), Scripts.call, Twin(frontier), 60

    def lose(self: Scripts, name: str, args: Any) -> Any:
        answer = call(self, name, args)
        if name in LOST and dice.random() < 0.05:
            raise RedisUnavailable(f"Redis did not answer ({name})")
        return answer

    frontier.create("job", budget(limit))
    monkeypatch.setattr("shoal.frontier.shards.REST_S", 0.0)
    monkeypatch.setattr("shoal.frontier.shards.LONGEST_REST_S", 0.0)
    monkeypatch.setattr(Scripts, "call", lose)
    for number in range(40):
        before, sums = used(frontier), twin.sums
        kind, count, changed = happens(twin, dice, number)
        for _ in range(5 if changed else 0):  # a slot that could not be told is told later
            frontier.tend()
        limit, after = changed or limit, used(frontier)
        if kind == "replay":
            assert after == before + count
        elif kind != "dead":
            assert after <= max(limit, before), (number, kind)
        if kind == "limit":
            assert after >= min(limit, before)
            assert twin.sums["queued"] >= min(sums["queued"], sums["queued"] - (before - limit))
