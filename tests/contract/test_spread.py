"""A frontier whose hosts are spread over two servers does what one in a piece does; one server less stops its hosts.

Most behaviours are those of the plain frontier, and so are the tests: they run here once more.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import redis

from shoal.core.model import ALL_QUEUES, JobState, Lease, Outcome, Request, Settlement
from shoal.core.shards import read_shards
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.errors import Conflict, InputError, RedisUnavailable
from shoal.frontier import moving, spread_keeper
from shoal.frontier.host_change import HostChange
from shoal.frontier.moving import Move, Mover, plan
from shoal.frontier.scripts import connect
from shoal.frontier.shards import HERE, Shards
from shoal.frontier.slots import SLOTS, slot_of
from shoal.frontier.spread import SpreadFrontier
from shoal.frontier.spread_watch import SpreadWatch
from shoal.settings import Settings
from tests.contract import (
    test_frontier,
    test_frontier_budgets,
    test_frontier_changes,
    test_frontier_halves,
    test_frontier_manners,
    test_frontier_replay,
    test_frontier_suspects,
    test_frontier_watch,
)
from tests.contract.api import Desk, a_desk, page
from tests.contract.frontier_calls import MINUTE, counters, lease, pages, settle, start, state, status_of
from tests.shards import Servers, running_shards
from tests.waiting import wait_until

ANOTHER_WAY = {
    # Shares are kept within a slot: between slots, whoever has work is served.
    "test_shares_follow_weights",
    "test_late_small_job_gets_its_share_at_once",
    "test_idle_job_does_not_save_up_its_share",
    "test_hosts_of_a_job_take_turns",
    "test_new_weight_of_a_job_changes_its_share",
    # Bytes are summed up when they come, not with the next lease.
    "test_a_lease_names_every_job_that_it_ended_and_serves_the_rest",
    "test_a_job_that_spent_its_budget_while_it_was_paused_ends_after_it_goes_on",
    # One call for many hosts is several calls, at different moments.
    "test_hosts_of_the_same_moment_are_each_listed_once",
}
BEHIND_ITS_BACK = {"client", "prefix", "clock"}
"""Tests that look into the keys of a frontier in a piece."""


def _same_tests() -> dict[str, Callable[..., None]]:
    found: dict[str, Callable[..., None]] = {}
    for module in (
        *(test_frontier, test_frontier_budgets, test_frontier_changes, test_frontier_halves, test_frontier_manners),
        *(test_frontier_replay, test_frontier_suspects, test_frontier_watch),
    ):
        for name, test in vars(module).items():
            if name.startswith("test_") and name not in ANOTHER_WAY:
                wants = set(test.__code__.co_varnames[: test.__code__.co_argcount])
                if {"frontier"} <= wants and not wants & BEHIND_ITS_BACK and wants <= {"frontier", "watch"}:
                    found[name] = test
    return found


SAME = _same_tests()


@pytest.fixture(scope="module")
def _started() -> Generator[Servers]:
    with running_shards("a", "b", "c") as found:
        yield found


@pytest.fixture
def three(_started: Servers) -> Servers:
    """Empty ones; the third is not in use at first."""
    for url in (_started.control, *_started.urls.values()):
        client = connect(url)
        client.flushall()  # pyright: ignore[reportUnknownMemberType]
        client.close()
    return _started


def a_frontier(three: Servers, *names: str) -> SpreadFrontier:
    control = connect(three.control)
    shards = Shards.at(control, "shoal", {name: three.urls[name] for name in names or ("a", "b")})
    return SpreadFrontier(control, "shoal", shards)


@pytest.fixture
def frontier(three: Servers) -> Generator[SpreadFrontier]:
    frontier = a_frontier(three)
    yield frontier
    frontier.close_connections()


@pytest.fixture
def watch(three: Servers) -> Generator[SpreadWatch]:
    control = connect(three.control)
    watch = SpreadWatch(control, "shoal", Shards.at(control, "shoal", {name: three.urls[name] for name in ("a", "b")}))
    yield watch
    watch.close_connections()


# --- what any frontier does -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SAME))
def test_it_does_what_one_in_a_piece_does(name: str, frontier: SpreadFrontier, watch: SpreadWatch) -> None:
    test = SAME[name]
    given: dict[str, Any] = {"frontier": frontier, "watch": watch}
    test(**{wanted: given[wanted] for wanted in test.__code__.co_varnames[: test.__code__.co_argcount]})


def test_most_behaviours_are_tried_here() -> None:
    assert len(SAME) > 130


# --- hosts and slots --------------------------------------------------------------------------------------------------


def test_a_host_belongs_to_its_slot_for_good() -> None:
    """These numbers stand in the frontiers of people: a change would lose what they have queued."""
    assert [slot_of(host) for host in ("a.test", "shop.example", "example.co.uk", "127.0.0.1:8000")] == [7, 7, 8, 12]


def test_the_hosts_of_a_domain_and_their_bucket_are_in_one_slot() -> None:
    assert len({slot_of(host) for host in ("a.shop.co.uk", "b.shop.co.uk:8080", "shop.co.uk", "@shop.co.uk")}) == 1
    assert len({slot_of(f"h{n}.test") for n in range(500)}) == SLOTS


def many(count: int, each: int = 1, *, first: int = 0) -> list[Request]:
    """Pages of so many hosts."""
    return [request for n in range(first, first + count) for request in pages(f"h{n}.test", each)]


def test_hosts_are_spread_and_sums_add_up(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(60, 5))
    frontier.close("job")
    queued = {name: _queued(three.client(name)) for name in ("a", "b")}
    assert sum(queued.values()) == 300
    assert min(queued.values()) > 60
    served = 0
    while leases := lease(frontier, 64):
        settle(frontier, leases[::2], received=10)
        settle(frontier, leases[1::2], Outcome.DEAD, reason="timeout")
        served += len(leases)
    assert served == 300
    status = status_of(frontier, "job")
    assert status.state is JobState.FINISHED
    assert status.counters.done + status.counters.dead == status.counters.admitted == 300
    assert status.reasons["dead:timeout"] == status.counters.dead
    assert status.counters.received == 10 * status.counters.done


def _keys(client: redis.Redis, match: str = "*") -> list[str]:
    return [str(key) for key in client.scan_iter(match=match)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]


def _queued(client: redis.Redis) -> int:
    return sum(client.llen(key) for key in _keys(client, "*:queue:*"))


def test_a_job_ends_once_however_many_settle_its_last_pages_at_once(three: Servers) -> None:
    ended: list[str] = []

    def work(frontier: SpreadFrontier) -> None:
        while leases := lease(frontier, 7):
            for one in leases:
                depth = one.request.depth
                if depth < 3:
                    host = f"d{depth}-{one.request.url.host}"
                    frontier.admit("job", [Request(Url("https", host, "/"), depth=depth + 1)])
                ended.extend(settle(frontier, [one]).ended)

    with ExitStack() as stack:
        frontiers = [a_frontier(three) for _ in range(4)]
        for frontier in frontiers:
            stack.callback(frontier.close_connections)
        start(frontiers[0], "job", many(30))
        assert frontiers[0].close("job") == (JobState.RUNNING, False)
        _at_once([lambda frontier=frontier: work(frontier) for frontier in frontiers])
        ended.extend(frontiers[0].tend())  # whoever saw the last page go may have seen another one come
        assert ended == ["job"]
        assert counters(frontiers[0], "job").done == 30 * 4


def test_a_budget_of_pages_is_one_for_all_slots(three: Servers) -> None:
    with ExitStack() as stack:
        frontiers = [a_frontier(three) for _ in range(4)]
        for frontier in frontiers:
            stack.callback(frontier.close_connections)
        frontiers[0].create("job", JobSpec(rate="unlimited", pages=100))
        work = [
            lambda frontier=frontier, n=n: [frontier.admit("job", many(5, 2, first=5 * (4 * i + n))) for i in range(20)]
            for n, frontier in enumerate(frontiers)
        ]
        _at_once(work)
        assert counters(frontiers[0], "job").admitted == 100
        settle(frontiers[1], lease(frontiers[1], 60), Outcome.DEAD, reason="timeout")
        more = iter(range(1_000, 100_000))

        def is_used_up() -> bool:  # again: a slot learns a moment later that pages have died elsewhere
            frontiers[2].admit("job", many(10, 1, first=10 * next(more)))
            sums = counters(frontiers[0], "job")
            assert sums.admitted - sums.dead <= 100
            return sums.admitted - sums.dead == 100

        wait_until(is_used_up)


def _at_once(work: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(work)) as threads:
        for done in [threads.submit(each) for each in work]:
            done.result(timeout=60)


def test_a_budget_of_bytes_is_one_for_all_slots(frontier: SpreadFrontier) -> None:
    start(frontier, "job", many(40, 2), bytes=1_000)
    frontier.close("job")
    first = lease(frontier, 20)
    assert settle(frontier, first, received=60).ended == ("job",)
    assert status_of(frontier, "job").reasons["filtered:over_bytes"] == 60


def test_an_addresss_cap_is_refused() -> None:
    control = redis.Redis()
    with pytest.raises(InputError, match="SHOAL_ADDRESS_PARALLEL"):
        SpreadFrontier(control, "shoal", Shards(control, "shoal", {}), Settings(address_parallel=2).manners)


def test_hosts_of_all_slots_are_sampled(frontier: SpreadFrontier, watch: SpreadWatch) -> None:
    start(frontier, "job", many(60, 2))
    found = {sample.queue: sample for sample in watch.samples()}["http.batch"]
    assert sum(host.weight for host in found.hosts) == pytest.approx(60, rel=0.3)
    assert all(host.waiting == 2 for host in found.hosts)


def test_how_full_it_is_takes_one_question_to_each_server(
    frontier: SpreadFrontier, watch: SpreadWatch, three: Servers
) -> None:
    start(frontier, "job", many(40, 2))
    held = lease(frontier, 10)
    settle(frontier, held[:4], Outcome.RETRY, delay=MINUTE)
    clients = [three.client(name) for name in ("a", "b", "control")]
    watch.load()
    before = [client.info("stats")["total_commands_processed"] for client in clients]  # pyright: ignore[reportUnknownMemberType]
    load = watch.load()
    asked = [
        client.info("stats")["total_commands_processed"] - first  # pyright: ignore[reportUnknownMemberType]
        for client, first in zip(clients, before, strict=True)
    ]
    assert load.urls == 80
    assert load.memory > 0
    assert asked[:2] == [8 * len(ALL_QUEUES) + 2] * 2
    assert asked[2] <= 3


def test_the_clock_of_a_worker_does_not_matter(frontier: SpreadFrontier, monkeypatch: pytest.MonkeyPatch) -> None:
    start(frontier, "job", many(4))
    settle(frontier, lease(frontier, 1))
    assert lease(frontier)
    rate = status_of(frontier, "job").rate
    monkeypatch.setattr("time.time_ns", lambda: 4_000_000_000_000_000_000)
    assert frontier.glance(ALL_QUEUES).expired == 0
    assert status_of(frontier, "job").rate == pytest.approx(rate, rel=0.5)


# --- a server is away -------------------------------------------------------------------------------------------------


def test_one_server_less_stops_only_its_hosts(frontier: SpreadFrontier, watch: SpreadWatch, three: Servers) -> None:
    start(frontier, "job", many(40))
    frontier.close("job")
    held = lease(frontier, 10)
    with three.away("b"):
        seen = {one.request.url.host for one in _all(frontier)}
        table = frontier.shards.table()
        assert seen
        assert {table[slot_of(host)] for host in seen} == {"a"}
        found = frontier.admit("job", [*many(40, first=40), *many(5)], owing=True)
        assert found.state is JobState.RUNNING
        assert found.sent is not None
        assert {table[slot] for slot in found.sent.owed} == {"b"}
        with pytest.raises(RedisUnavailable, match="shard b is away"):
            frontier.admit("job", many(40, first=40))
        report = settle(frontier, held)
        assert report.late == sum(table[slot_of(one.request.url.host)] == "b" for one in held)
        assert any("shard b is away" in trouble.message for trouble in watch.troubles())
        status = frontier.status("job")
        assert status is not None
        assert status.partial
        assert frontier.tend() == ()
        assert state(frontier, "job") is JobState.RUNNING
    wait_until(lambda: not frontier.shards.troubles())
    frontier.admit("job", many(40, first=40))
    status = status_of(frontier, "job")
    assert not status.partial
    assert status.counters.admitted == 80
    assert status.counters.duplicates >= 5


def _all(frontier: SpreadFrontier) -> list[Lease]:
    found: list[Lease] = []
    while leases := lease(frontier, 50):
        found += leases
        settle(frontier, leases)
    return found


def test_what_was_said_while_a_server_was_away_holds_when_it_is_back(frontier: SpreadFrontier, three: Servers) -> None:
    for job in ("paused", "cancelled"):
        start(frontier, job, many(30))
    with three.away("b"):
        assert frontier.pause("paused") is JobState.PAUSED
        assert frontier.cancel("cancelled") == (JobState.CANCELLED, False)
        assert lease(frontier) == ()
    wait_until(lambda: not frontier.shards.troubles())
    assert frontier.tend() == ("cancelled",)
    assert lease(frontier) == ()
    assert counters(frontier, "cancelled").dropped == 30
    frontier.resume("paused")
    assert len(_all(frontier)) == 30


def test_nobody_answers(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(4))
    with three.away("a"), three.away("b"), pytest.raises(RedisUnavailable):
        lease(frontier)


def test_a_job_that_was_forgotten_while_a_server_was_away_leaves_nothing(
    frontier: SpreadFrontier, three: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_keeper, "STRANGE_S", 0.0)
    start(frontier, "job", many(30))
    frontier.close("job")
    _all(frontier)
    with three.away("b"):
        assert frontier.forget("job")
    wait_until(lambda: not frontier.shards.troubles())
    for _ in range(2):
        frontier.tend()
    assert _keys(three.client("b"), "*:job:*") == []


# --- a server has lost what it had ------------------------------------------------------------------------------------


@pytest.fixture
def desk(three: Servers, tmp_path: Path) -> Generator[Desk]:
    shards = " ".join(f"{name}={three.urls[name]}" for name in ("a", "b"))
    with a_desk(three.control, tmp_path, prefix=f"d{uuid4().hex[:8]}", shards=shards) as desk:
        yield desk


@pytest.mark.parametrize("lost", ["a", "control"])
def test_lost_jobs_come_back_whole(desk: Desk, three: Servers, lost: str) -> None:
    platform = desk.platform
    platform.recovery.look()
    job = desk.submit(*(f"http://h{n}.test/{i}" for n in range(30) for i in range(4)))
    first = desk.work(at_most=50)
    client = connect(three.control) if lost == "control" else three.client(lost)
    client.flushall()  # pyright: ignore[reportUnknownMemberType]
    while platform.recovery.tick():
        pass
    rest = desk.work()
    assert sorted(first + rest) == sorted(f"http://h{n}.test/{i}" for n in range(30) for i in range(4))
    platform.housekeeper.tick()
    row = platform.control.job(job)
    assert row.state is JobState.FINISHED
    assert row.status is not None
    assert row.status.reconciles
    assert row.status.counters.done == platform.pages.count(job) == 120


def test_the_control_plane_works_over_shards(desk: Desk) -> None:
    job = desk.submit(*(f"http://h{n}.test/" for n in range(20)), name="spread")
    desk.work(lambda one: page(one, item={"n": 1}), at_most=5)
    assert desk.job(job)["counters"]["done"] == 5
    assert len(list(desk.rows("hosts"))) >= 5
    figures = desk.get("/metrics").get_data(as_text=True)
    assert 'shoal_shard_up{shard="a"} 1.0' in figures
    assert 'shoal_shard_slots{shard="b"} 8.0' in figures
    assert sum(queue["queued"] for queue in desk.get("/api/v1/queues").get_json()["data"]) == 15
    desk.work()
    assert desk.state(job) is JobState.FINISHED


# --- hosts move -------------------------------------------------------------------------------------------------------


def a_mover(three: Servers, *names: str) -> Mover:
    control = connect(three.control)
    urls = {name: three.urls[name] for name in names}
    raw = {name: connect(url, texts=False) for name, url in urls.items()}
    return Mover(control, "shoal", Shards.at(control, "shoal", urls), raw)


@pytest.mark.parametrize(
    ("held", "names", "moved"),
    [
        ({"a": 16}, "ab", 8),
        ({"a": 8, "b": 8}, "ab", 0),
        ({"a": 8, "b": 8}, "abc", 5),
        ({"a": 8, "b": 8}, "a", 8),
        ({"a": 6, "b": 5, "c": 5}, "abcd", 4),
        ({"a": 4, "b": 4, "c": 4, "d": 4}, "abcde", 3),
    ],
)
def test_adding_a_server_moves_only_its_share(held: dict[str, int], names: str, moved: int) -> None:
    owners = [name for name, count in held.items() for _ in range(count)]
    table = dict(enumerate(owners))
    moves = plan(table, list(names))
    assert len(moves) == moved
    after = Counter({**table, **{move.slot: move.target for move in moves}}.values())
    assert set(after) <= set(names)
    assert max(after.values()) - min(after.values()) <= 1


def test_slots_move_while_a_crawl_goes_on(three: Servers) -> None:
    fetched: list[str] = []
    stop = threading.Event()

    def work(frontier: SpreadFrontier) -> None:
        while not stop.is_set():
            leases = lease(frontier, 20)
            for one in leases:
                if one.request.depth < 2:
                    hosts = [f"{one.request.url.host[:-5]}-{n}.test" for n in range(3)]
                    depth = one.request.depth + 1
                    frontier.admit("job", [Request(Url("https", host, "/"), depth=depth) for host in hosts])
            report = settle(frontier, leases)
            assert report.late == 0
            fetched.extend(str(one.request.url) for one in leases)
            if not leases:
                stop.wait(0.01)

    with ExitStack() as stack:
        workers = [a_frontier(three, "a", "b", "c") for _ in range(2)]
        for each in workers:
            stack.callback(each.close_connections)
        owner = a_frontier(three)
        stack.callback(owner.close_connections)
        owner.shards.table()  # divided among a and b
        start(owner, "job", many(40))
        owner.close("job")
        threads = [threading.Thread(target=work, args=(each,)) for each in workers]
        for thread in threads:
            thread.start()
        mover = a_mover(three, "a", "b", "c")
        stack.callback(mover.close)
        for move in mover.plan():
            mover.move(move)
        wait_until(lambda: state(workers[0], "job") is JobState.FINISHED or bool(workers[0].tend()), within=MINUTE)
        stop.set()
        for thread in threads:
            thread.join(30)
        status = status_of(workers[0], "job")
        assert status.counters.done == status.counters.admitted == 40 * (1 + 3 + 9)
        assert len(set(fetched)) == len(fetched) == 520
        assert Counter(workers[1].shards.table(anew=True).values()) == {"a": 6, "b": 5, "c": 5}
        _holds_only_its_own(three, workers[0])


def _holds_only_its_own(three: Servers, frontier: SpreadFrontier) -> None:
    table = frontier.shards.table(anew=True)
    for name in ("a", "b", "c"):
        keys = [key for key in _keys(three.client(name)) if not key.startswith("shoal.shard:")]
        slots = {int(key[6:8]) for key in keys if not key.endswith(":slot")}
        assert slots <= {slot for slot, owner in table.items() if owner == name}


def test_who_knows_only_the_old_place_follows(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(20))
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    target = "b" if source == "a" else "a"
    mover = a_mover(three, "a", "b")
    assert mover.move(Move(slot, source, target)) > 0
    frontier.configure_host("h0.test", HostChange(rate=1))
    assert frontier.admit("job", many(1, 5)).admitted == 4
    assert frontier.shards.table()[slot] == target
    assert len(_all(frontier)) >= 20
    with pytest.raises(Conflict, match="has moved already"):
        mover.move(Move(slot, source, target))
    mover.close()


def test_a_mover_that_dies_leaves_the_slot_where_it_is(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(20, 3))
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    prefix = f"shoal.{slot:02d}"
    client, control = three.client(source), connect(three.control)
    control.set("shoal.jobs:mover", "alive")
    with pytest.raises(Conflict, match="somebody else"):
        a_mover(three, "a", "b", "c").move(Move(slot, source, "c"))
    client.set(f"{prefix}:slot", "moving alive")
    frontier.tend()
    assert client.get(f"{prefix}:slot") == "moving alive"
    control.delete("shoal.jobs:mover")  # its claim has run out
    frontier.tend()
    assert client.get(f"{prefix}:slot") == HERE
    assert len(_all(frontier)) == 60


def test_a_mover_that_dies_after_the_slot_has_gone_leaves_it_there(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(20, 3))
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    target = "b" if source == "a" else "a"
    mover = a_mover(three, "a", "b")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(moving, "finish", die)
        mover.move(Move(slot, source, target))
    assert three.client(source).get(f"shoal.{slot:02d}:slot") == f"moved {target}"
    frontier.tend()
    assert frontier.shards.table(anew=True)[slot] == target
    assert [key for key in _keys(three.client(source), f"shoal.{slot:02d}:*") if not key.endswith(":slot")] == []
    assert len(_all(frontier)) == 60


@pytest.mark.parametrize("to_the_same", [True, False])
def test_a_mover_that_was_held_up_changes_nothing(three: Servers, to_the_same: bool) -> None:
    """It wakes up after its claim has run out, another has moved the slot, and all its requests are settled."""
    frontier = a_frontier(three, "a", "b", "c")
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    first, second = (name for name in ("a", "b", "c") if name != source)
    start(frontier, "job", [request for host in HOSTS_OF_SLOT for request in pages(host, 3)])
    held_up, other = a_mover(three, "a", "b", "c"), a_mover(three, "a", "b", "c")
    fetched, overtaken = list[Lease](), list[int]()

    def overtake(_copied: int) -> None:
        if not overtaken:
            overtaken.append(1)
            connect(three.control).delete("shoal.jobs:mover")
            frontier.tend()
            other.move(Move(slot, source, first if to_the_same else second))
            fetched.extend(_all(frontier))

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Conflict):
        patch.setattr(moving, "KEYS_AT_ONCE", 5)
        held_up.move(Move(slot, source, first), overtake)
    assert len(fetched) == 3 * len(HOSTS_OF_SLOT)
    assert frontier.shards.table(anew=True)[slot] == (first if to_the_same else second)
    assert counters(frontier, "job").queued == 0
    assert _all(frontier) == []


def test_a_mover_that_was_held_up_deletes_nothing(three: Servers) -> None:
    """It wakes up when it is about to clear the place that another has moved the slot to meanwhile."""
    frontier = a_frontier(three, "a", "b", "c")
    start(frontier, "job", [request for host in HOSTS_OF_SLOT for request in pages(host, 3)])
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    target = next(name for name in ("a", "b", "c") if name != source)
    clear, overtaken = moving._End.clear, list[int]()  # pyright: ignore[reportPrivateUsage]

    def late(end: moving._End, mark: str, *more: Callable[[], None]) -> bool:  # pyright: ignore[reportPrivateUsage]
        if not overtaken:
            overtaken.append(1)
            connect(three.control).delete("shoal.jobs:mover")
            a_mover(three, "a", "b", "c").move(Move(slot, source, target))
        return clear(end, mark, *more)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Conflict):
        patch.setattr("shoal.frontier.moving._End.clear", late)
        a_mover(three, "a", "b", "c").move(Move(slot, source, target))
    assert frontier.shards.table(anew=True)[slot] == target
    assert len(_all(frontier)) == 3 * len(HOSTS_OF_SLOT)


HOSTS_OF_SLOT = [host for host in (f"h{n}.test" for n in range(500)) if slot_of(host) == slot_of("h0.test")]


def test_what_a_slot_has_left_behind_is_nobodys(frontier: SpreadFrontier, three: Servers) -> None:
    """Whoever knows only its old place reads there that it has gone, while it is not yet cleared."""
    other = a_frontier(three)
    start(frontier, "job", pages("h0.test", 2))
    frontier.close("job")
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    other.shards.table()
    first, second = lease(frontier)
    settle(frontier, [first])

    def keep(*_: object) -> bool:
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.frontier.moving._End.clear", keep)
        a_mover(three, "a", "b").move(Move(slot, source, "b" if source == "a" else "a"))
    frontier.admit("job", pages("h0.test", 5))
    settle(frontier, [second])
    assert counters(other, "job").done == 2
    assert counters(other, "job").queued == 3
    assert not other.jobs.ends.try_end("job")
    other.close_connections()


def test_two_names_of_one_server_are_told(three: Servers) -> None:
    """Else a move would delete what it has just copied."""
    control = connect(three.control)
    link = Path(urlsplit(three.urls["a"]).path).with_name("link")
    link.symlink_to(urlsplit(three.urls["a"]).path)
    try:
        shards = Shards.at(control, "shoal", {"a": three.urls["a"], "b": f"unix://{link}"})
        with pytest.raises(InputError, match="a and b are the same database of the same server"):
            shards.table()
    finally:
        link.unlink()


def test_a_move_that_fails_changes_nothing(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(20, 3))
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    mover = a_mover(three, "a", "b", "c")

    def fail(_copied: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mover.move(Move(slot, source, "c"), fail)
    assert frontier.shards.table(anew=True)[slot] == source
    assert [key for key in _keys(three.client("c")) if not key.endswith((":slot", ":server", ":whole", ":epoch"))] == []
    assert len(_all(frontier)) == 60


def test_a_server_can_be_retired(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(20))
    mover = a_mover(three, "a", "b")
    with pytest.raises(InputError, match="no shard 'x'"):
        mover.plan("x")
    for move in mover.plan("b"):
        mover.move(move)
    assert set(frontier.shards.table(anew=True).values()) == {"a"}
    assert len(_all(frontier)) == 20


def test_a_table_that_was_lost_is_found_again(frontier: SpreadFrontier, three: Servers) -> None:
    start(frontier, "job", many(60))
    mover = a_mover(three, "a", "b")
    for move in mover.plan("b"):
        mover.move(move)
    connect(three.control).delete("shoal.jobs:shards")
    assert set(a_frontier(three).shards.table().values()) == {"a"}


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("redis://one:6379", "number 1 is not NAME="),
        ("a=redis://one b=http://two", "number 2 is not"),
        ("a=redis://one a=redis://two", "two shards 'a'"),
        ("a=redis://one b=redis://one", "the same server"),
        (" ".join(f"s{n}=redis://h{n}" for n in range(17)), "17 shards"),
        ("a=redis://:secret@one b=:secret2@two", "number 2"),
        ("a=redis://:secret@one/0,b=redis://two/0", "'a' has no URL .* is a space"),
        ("a=redis://:secret@one/x", "'a' has no URL"),
        ("a=redis://:secret@one:99999", "'a' has no URL"),
        ("a=redis://:sec/ret@one:6379/0", "'a' has no URL"),
        ("a=unix:///socket?db=one", "'a' has no URL"),
    ],
)
def test_shards_that_cannot_be_are_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        read_shards(text)
    assert "secret" not in str(caught.value)


def test_a_shard_that_nobody_names_is_told(three: Servers) -> None:
    frontier = a_frontier(three)
    start(frontier, "job", many(30))
    other = a_frontier(three, "a")
    seen = {one.request.url.host for one in lease(other)}
    table = frontier.shards.table()
    assert {table[slot_of(host)] for host in seen} == {"a"}
    elsewhere = next(host for host in (f"h{n}.test" for n in range(30)) if table[slot_of(host)] == "b")
    with pytest.raises(RedisUnavailable, match="shard 'b', which SHOAL_SHARDS does not name"):
        other.configure_host(elsewhere, HostChange(rate=1))


def test_settlements_know_their_slots(frontier: SpreadFrontier) -> None:
    start(frontier, "job", many(10))
    leases = lease(frontier)
    assert {one.group % SLOTS for one in leases} == {slot_of(one.request.url.host) for one in leases}
    groups = {one.group for one in leases}
    assert frontier.renew(groups, MINUTE) == frozenset()
    assert frontier.renew([max(groups) + SLOTS], MINUTE) == {max(groups) + SLOTS}
    moved = replace(leases[0], group=leases[0].group + SLOTS)
    assert frontier.settle([Settlement(moved, Outcome.DONE)]).late == 1
    assert frontier.release(leases[5:]).late == 0
    assert frontier.glance(ALL_QUEUES).waits["http.batch"] == timedelta()
