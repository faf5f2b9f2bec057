"""Calls of a frontier in slots that were carried out although their answer was lost: they are made once more.

And what is left half-way by whoever dies, or is away, while a job is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.core.model import JobState, Outcome, Sent, Settlement
from shoal.core.spec import JobSpec
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import Scripts
from shoal.frontier.slots import slot_of
from shoal.frontier.spread import SpreadFrontier
from tests.contract.frontier_calls import counters, lease, pages, settle, start, state, status_of
from tests.contract.spread_ground import frontier as frontier
from tests.contract.spread_ground import host_of_shard
from tests.contract.spread_ground import servers as servers
from tests.contract.spread_ground import started as started
from tests.shards import Servers
from tests.waiting import wait_until


@pytest.fixture
def lose_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The next answer of each of these operations is lost."""
    call = Scripts.call

    def lose(*names: str) -> None:
        left = list(names)

        def lossy(self: Scripts, name: str, args: Any) -> Any:
            answer = call(self, name, args)
            if name in left:
                left.remove(name)
                raise RedisUnavailable(f"Redis did not answer ({name})")
            return answer

        monkeypatch.setattr(Scripts, "call", lossy)

    return lose


# --- links that are owed ----------------------------------------------------------------------------------------------


def owe(frontier: SpreadFrontier, a: str, b: str) -> str:
    """A page of a job has links to a slot that is away; returns the line that says so."""
    start(frontier, "job", pages(a, 1))
    frontier.close("job")
    joined = frontier.jobs.list.join("job", [slot_of(b)])
    frontier.jobs.open(joined, slot_of(b))
    sent = Sent(joined.life, 0, frozenset(), frozenset({slot_of(b)}))
    assert frontier.settle([Settlement(lease(frontier)[0], Outcome.DONE)], {"job": sent}).ended == ()
    assert frontier.tend() == ()
    _, _, line = on_slot(frontier, a, lambda each: each._scripts.call("read_links", ["owed", 0, 0, 10, 0]))
    return line


def on_slot(frontier: SpreadFrontier, host: str, do: Callable[[Any], Any]) -> Any:
    return frontier._slots.on(slot_of(host), do)  # pyright: ignore[reportPrivateUsage]


def test_links_that_are_noted_twice_are_owed_once(frontier: SpreadFrontier, lose_answers: Callable[..., None]) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    lose_answers("note_links")
    line = owe(frontier, a, b)
    on_slot(frontier, a, lambda each: each.links_sent([line], again=True))
    assert frontier.tend() == ("job",)


def test_what_a_job_owes_is_counted_again(frontier: SpreadFrontier, servers: Servers) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    line = owe(frontier, a, b)
    name = line.split(" ")[0]
    key = f"shoal.{slot_of(a):02d}:job:{name}"
    assert servers.client("a").hincrby(key, "owing", 2) == 3
    frontier.audit.recount("job")
    assert servers.client("a").hget(key, "owing") == "1"
    on_slot(frontier, a, lambda each: each.links_sent([line], again=True))
    assert frontier.tend() == ("job",)


def test_links_that_are_noted_again_after_some_were_paid_are_owed_once(
    frontier: SpreadFrontier, servers: Servers
) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    line = owe(frontier, a, b)
    name, _, page, token = line.split(" ")
    some, all_of_it = line, f"{name} {slot_of(b)},99 {page} {token}"
    on_slot(frontier, a, lambda each: each.note_links(name, 0, "", f"{slot_of(b)},99", page, token))
    on_slot(frontier, a, lambda each: each._scripts.call("pay_links", [0, all_of_it, some, ""]))
    on_slot(frontier, a, lambda each: each._scripts.call("pay_links", [0, some, "", some]))
    assert servers.client("a").hget(f"shoal.{slot_of(a):02d}:job:{name}", "owing") == "0"
    assert frontier.tend() == ("job",)


# --- cancelled --------------------------------------------------------------------------------------------------------


def test_a_cancelled_job_with_a_slot_that_nobody_opened_ends(frontier: SpreadFrontier, servers: Servers) -> None:
    """Links were owed to it when it was away."""
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    start(frontier, "job", pages(a, 2))
    with servers.away("b"):
        found = frontier.admit("job", pages(b, 1), owing=True)
        assert found.sent is not None
        assert found.sent.owed == {slot_of(b)}
        assert frontier.cancel("job") == (JobState.CANCELLED, False)
    wait_until(lambda: not frontier.shards.troubles())
    ended = [*frontier.tend(), *frontier.tend()]
    assert ended == ["job"]
    assert status_of(frontier, "job").state is JobState.CANCELLED
    assert frontier.forget("job")


def test_a_cancelled_job_ends_though_a_server_has_forgotten_it(frontier: SpreadFrontier, servers: Servers) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    start(frontier, "job", [*pages(a, 2), *pages(b, 2)])
    held = lease(frontier)
    frontier.cancel("job")
    life = frontier.jobs.list.lives(["job"])["job"].life
    on_slot(frontier, b, lambda each: each.drop_name(f"job.{life}"))  # it came back empty
    assert settle(frontier, held).late == 2
    ended = [*frontier.tend(), *frontier.tend()]
    assert ended == ["job"]


# --- the control Redis, at the wrong moment ---------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["note_start", "current"])
def test_leases_are_given_back_whenever_the_list_does_not_answer(frontier: SpreadFrontier, when: str) -> None:
    start(frontier, "job", pages(host_of_shard(frontier, "a"), 5))

    def away(*_: object) -> object:
        raise RedisUnavailable("Redis did not answer")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RedisUnavailable):
        patch.setattr(frontier.jobs.list if when == "note_start" else frontier.jobs, when, away)
        lease(frontier)
    assert counters(frontier, "job").leased == 0
    assert len(lease(frontier)) == 5


def test_leases_are_kept_although_nobody_can_tell_whether_another_job_has_ended(frontier: SpreadFrontier) -> None:
    start(frontier, "job", pages(host_of_shard(frontier, "a"), 5))

    def away(*_: object) -> object:
        raise RedisUnavailable("Redis did not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.frontier.spread_lease.Leasing.ended", away)
        assert len(lease(frontier)) == 5


def test_a_job_that_ends_while_it_is_looked_at_has_all_its_sums(frontier: SpreadFrontier) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    start(frontier, "job", [*pages(a, 2), *pages(b, 2)])
    frontier.close("job")
    held, lives = lease(frontier), frontier.jobs.list.lives

    def ends(jobs: Any) -> Any:
        patch.undo()
        assert settle(frontier, held).ended == ("job",)
        return lives(jobs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier.jobs.list, "lives", ends)
        status = status_of(frontier, "job")
    assert status.counters.done == 4
    assert status.state is JobState.FINISHED
    assert state(frontier, "job") is JobState.FINISHED


def test_who_does_not_know_that_a_job_was_dropped_does_not_stand_in_its_way(
    frontier: SpreadFrontier, servers: Servers
) -> None:
    """He has read a moment ago that it lives, and takes its first lease; whoever dropped it makes it known again."""
    start(frontier, "job", pages(host_of_shard(frontier, "a"), 5))
    life = frontier.jobs.list.lives(["job"])["job"].life
    frontier.jobs.current([f"job.{life}"])
    servers.client("control").delete("shoal.jobs:job:job")
    lease(frontier)
    frontier.jobs.list.note_recalled("job", life, 1, 5)
    frontier.jobs.list.next_limits("job")
    frontier.jobs.list.note_agreed("job", life, "x")
    assert frontier.status("job") is None
    assert frontier.create("job", JobSpec())


# --- the time of a job ------------------------------------------------------------------------------------------------


def set_back(servers: Servers, frontier: SpreadFrontier, host: str, seconds: int) -> None:
    """As if a job had begun so long ago, in the list and in the slot of this host."""
    facts = frontier.jobs.list.facts("job")
    assert facts is not None
    places = [
        (servers.client("control"), "shoal.jobs:job:job"),
        (servers.client(frontier.shards.table()[slot_of(host)]), f"shoal.{slot_of(host):02d}:job:{facts.name}"),
    ]
    for client, key in places:
        for moment in ("started", "deadline"):
            if at := client.hget(key, moment):
                client.hset(key, moment, int(str(at)) - 1000 * seconds)


def test_the_time_of_a_pause_does_not_count_for_a_server_that_was_away(
    frontier: SpreadFrontier, servers: Servers
) -> None:
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    start(frontier, "job", [*pages(a, 1), *pages(b, 5)], seconds=100)
    settle(frontier, lease(frontier, 1))
    set_back(servers, frontier, b, 150)
    with servers.away("b"):
        frontier.pause("job")
        control = servers.client("control")
        paused = int(str(control.hget("shoal.jobs:job:job", "paused")))
        control.hset("shoal.jobs:job:job", "paused", paused - 130_000)
        frontier.resume("job")
    wait_until(lambda: not frontier.shards.troubles())
    found = [one for _ in range(3) for one in lease(frontier)]
    assert counters(frontier, "job").dropped == 0
    assert len([one for one in found if one.request.url.host == b]) >= 4


def test_the_time_of_a_job_runs_where_it_was_not_told(frontier: SpreadFrontier, servers: Servers) -> None:
    """A server was away when the job began."""
    a, b = host_of_shard(frontier, "a"), host_of_shard(frontier, "b")
    start(frontier, "job", [*pages(a, 3), *pages(b, 3)], seconds=100)
    frontier.close("job")
    with servers.away("b"):
        settle(frontier, lease(frontier))
    wait_until(lambda: not frontier.shards.troubles())
    frontier.tend()
    set_back(servers, frontier, b, 150)
    assert lease(frontier) == ()
    assert status_of(frontier, "job").reasons["filtered:over_seconds"] == 3
    assert state(frontier, "job") is JobState.FINISHED
