"""What can be seen of a frontier as a whole: queues, hosts, workers, sums and events, on each server."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
import redis

from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.host_status import HostStatus
from shoal.core.job_status import Event
from shoal.core.model import ALL_QUEUES, Lane, Outcome
from shoal.core.spec import JobSpec
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import SWEEP_AT_ONCE, Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from tests.contract.frontier_calls import (
    MINUTE,
    ONE_A_MINUTE,
    SOON,
    counters,
    lease,
    let_pass,
    pages,
    reap_soon,
    settle,
    start,
)
from tests.contract.frontier_time import Clock
from tests.contract.keyspace import read_keys
from tests.waiting import wait_until

DAY_MS = 86_400_000
EMPTY = [QueueDepth(queue, 0, 0, 0, 0) for queue in ALL_QUEUES]


# --- how full ---------------------------------------------------------------------------------------------------------


def test_queues_show_what_waits_in_each(frontier: Frontier, watch: Watch) -> None:
    assert watch.queues() == EMPTY
    start(frontier, "one", pages("a.test", 5))
    start(frontier, "two", pages("b.test", 3))
    start(frontier, "urgent", pages("c.test", 2), lane=Lane.HIGH)
    held = lease(frontier, 4)
    settle(frontier, held[2:3], Outcome.RETRY, delay=MINUTE)
    high, _, batch, _, slow, _ = watch.queues()
    assert high == QueueDepth("http.high", 0, 0, 2, 0)
    assert batch == QueueDepth("http.batch", 6, 1, 1, 2)
    assert (slow, batch.pending) == (EMPTY[4], 8)
    for job in ("one", "two"):
        frontier.cancel(job)
    assert watch.queues()[::2] == [high, QueueDepth("http.batch", 0, 0, 1, 0), slow]
    settle(frontier, [*held[:2], *held[3:]])
    assert watch.queues() == EMPTY


def test_paused_job_fills_its_queue_but_is_not_due(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 5), lane=Lane.SLOW)
    frontier.pause("job")
    assert watch.queues()[4] == QueueDepth("http.slow", 5, 0, 0, 0)


def test_load_tells_of_urls_and_memory(frontier: Frontier, watch: Watch, client: redis.Redis) -> None:
    assert watch.load().urls == 0
    start(frontier, "one", pages("a.test", 5))
    start(frontier, "two", pages("b.test", 3), lane=Lane.HIGH)
    settle(frontier, lease(frontier, 4)[:1])
    load = watch.load()
    assert (load.urls, load.memory_limit) == (7, 0)
    assert load.memory > 0
    limit = 2 * load.memory
    client.config_set("maxmemory", limit)  # pyright: ignore[reportUnknownMemberType]
    try:
        assert watch.load().memory_limit == limit
    finally:
        client.config_set("maxmemory", 0)  # pyright: ignore[reportUnknownMemberType]


def test_what_could_be_leased_and_is_not_is_overdue(frontier: Frontier, watch: Watch) -> None:
    assert watch.overdue() == dict.fromkeys(ALL_QUEUES, timedelta())
    start(frontier, "one", pages("a.test", 2))
    wait_until(lambda: watch.overdue()["http.batch"] >= timedelta(milliseconds=20))
    assert {queue for queue, waited in watch.overdue().items() if waited} == {"http.batch"}
    frontier.pause("one")
    assert not watch.overdue()["http.batch"]
    frontier.resume("one")
    frontier.configure_host("a.test", HostChange(hold=timedelta(minutes=1)))
    lease(frontier)  # which finds out that the host rests
    assert not watch.overdue()["http.batch"]
    assert watch.living_jobs() == 1
    frontier.cancel("one")


def test_sums_count_outcomes_losses_and_slices_over_all_jobs(frontier: Frontier, watch: Watch) -> None:
    assert watch.stats() == {}
    start(frontier, "one", pages("a.test", 6))
    start(frontier, "two", pages("b.test", 2))
    held = lease(frontier)
    settle(frontier, held[:3])
    settle(frontier, held[3:4], Outcome.RETRY, reason="http_503")
    settle(frontier, held[4:5], Outcome.DEAD, reason="http_404")
    settle(frontier, held[5:6], Outcome.DONE, reason="redirect")
    settle(frontier, held[6:7], Outcome.ROBOTS, reason="robots")
    settle(frontier, held[:2])
    frontier.release(held[7:])
    for _ in range(3):
        frontier.crew.count_slice()
    expected = {
        "done": 3,
        "retry:http_503": 1,
        "dead:http_404": 1,
        "done:redirect": 1,
        "robots:robots": 1,
        "late": 2,
        "slices": 3,
    }
    assert watch.stats() == expected
    lost = lease(frontier, 2, SOON)
    reap_soon(frontier)
    settle(frontier, lost)
    assert watch.stats() == {**expected, "late": 4, "reaped": 2}


def test_sums_outlive_the_jobs(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 1))
    settle(frontier, lease(frontier))
    frontier.cancel("job")
    frontier.forget("job")
    assert watch.stats() == {"done": 1}


def test_expired_leases_are_counted_until_they_are_taken_back(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 3))
    lease(frontier, 1)
    assert watch.expired_leases() == 0
    for _ in range(2):
        lease(frontier, 1, SOON)
    wait_until(lambda: watch.expired_leases() == 2)
    frontier.reap()
    assert watch.expired_leases() == 0


# --- hosts ------------------------------------------------------------------------------------------------------------


def names(hosts: list[HostStatus]) -> list[str]:
    return [host.host for host in hosts]


def walk(watch: Watch, limit: int) -> list[str]:
    """All hosts, page by page."""
    found: list[str] = []
    page = watch.hosts(limit)
    while page:
        found += names(page)
        page = watch.hosts(limit, (page[-1].seen_ms, page[-1].host))
    return found


def known_host(watch: Watch, host: str) -> HostStatus:
    found = watch.host(host)
    assert found is not None
    return found


def test_host_that_came_back_is_described(frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str) -> None:
    assert watch.host("a.test:81") is None
    start(frontier, "job", pages("a.test:81", 5), parallel=3)
    frontier.learn_robots("a.test:81", 60, "https://a.test:81")
    frontier.configure_job("job", JobSpec())
    Clock(client, prefix).let_pass(60)
    (held,) = lease(frontier)
    settle(frontier, [held], latency=timedelta(milliseconds=120), hold_host=MINUTE)
    host = known_host(watch, "a.test:81")
    assert (host.rate, host.parallel, host.paused, host.latency_ms) == (None, None, False, 120)
    assert timedelta(seconds=50) < host.hold <= MINUTE
    assert timedelta(seconds=50) < host.next_slot <= MINUTE
    assert (host.in_flight, host.waiting_jobs, host.state) == (0, 0, "held")
    status = frontier.status("job")
    assert status is not None
    assert status.now_ms - 5_000 < host.seen_ms <= status.now_ms


def test_host_at_its_cap_shows_who_waits(frontier: Frontier, watch: Watch) -> None:
    frontier.configure_host("a.test", HostChange(parallel=2))
    for job in ("one", "two"):
        start(frontier, job, pages("a.test", 3))
    held = lease(frontier)
    assert not lease(frontier)
    host = known_host(watch, "a.test")
    assert (host.parallel, host.in_flight, host.waiting_jobs, host.state) == (2, 2, 2, "at_cap")
    settle(frontier, held)
    host = known_host(watch, "a.test")
    assert (host.in_flight, host.waiting_jobs, host.state) == (0, 0, "open")


def test_operators_word_is_shown(frontier: Frontier, watch: Watch) -> None:
    frontier.configure_host("a.test", HostChange(rate=ONE_A_MINUTE, parallel=0, paused=True))
    host = known_host(watch, "a.test")
    assert (host.rate, host.parallel, host.paused, host.state) == (pytest.approx(ONE_A_MINUTE), 0, True, "paused")
    frontier.configure_host("a.test", HostChange(rate=None, parallel=None, paused=False))
    host = known_host(watch, "a.test")
    assert (host.rate, host.parallel, host.paused, host.state) == (None, None, False, "open")


def test_hosts_are_listed_with_the_last_used_first(frontier: Frontier, watch: Watch) -> None:
    assert watch.hosts(10) == []
    for host in ("b.test", "a.test", "c.test", "a.test"):
        frontier.configure_host(host, HostChange(rate=1))
        let_pass(timedelta(milliseconds=2))
    assert names(watch.hosts(10)) == ["a.test", "c.test", "b.test"]
    assert names(watch.hosts(2)) == ["a.test", "c.test"]
    for limit in (1, 2, 3):
        assert walk(watch, limit) == ["a.test", "c.test", "b.test"]
    assert watch.hosts(10)[0] == watch.host("a.test")


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 50])
def test_hosts_of_the_same_moment_are_each_listed_once(frontier: Frontier, watch: Watch, limit: int) -> None:
    many = [f"h{n}.test" for n in range(7)]
    frontier.configure_host("older.test", HostChange(rate=1))
    let_pass(timedelta(milliseconds=2))
    start(frontier, "job", [page for host in many for page in pages(host, 1)])
    settle(frontier, lease(frontier))
    let_pass(timedelta(milliseconds=2))
    frontier.configure_host("newer.test", HostChange(rate=1))
    assert walk(watch, limit) == ["newer.test", *sorted(many, reverse=True), "older.test"]


def test_many_hosts_of_the_same_moment_are_each_listed_once(frontier: Frontier, watch: Watch) -> None:
    """One call settles 500 leases, each perhaps of another host."""
    many = [f"h{n}.test" for n in range(300)]
    frontier.configure_host("older.test", HostChange(rate=1))
    start(frontier, "job", [page for host in many for page in pages(host, 1)])
    settle(frontier, lease(frontier, 300))
    assert sorted(walk(watch, 50)) == sorted(["older.test", *many])


def test_host_used_between_two_pages_does_not_hide_others(frontier: Frontier, watch: Watch) -> None:
    for host in ("a.test", "b.test", "c.test"):
        frontier.configure_host(host, HostChange(rate=1))
        let_pass(timedelta(milliseconds=2))
    (last,) = watch.hosts(1)
    assert last.host == "c.test"
    frontier.configure_host("c.test", HostChange(rate=2))
    assert names(watch.hosts(10, (last.seen_ms, last.host))) == ["b.test", "a.test"]


# --- sweeping ---------------------------------------------------------------------------------------------------------


def age(client: redis.Redis, prefix: str, *hosts: str) -> None:
    """As if nobody had asked these hosts for more than a day: the list has them, their own keys are gone."""
    seconds, _ = cast(Any, client).time()
    cast(Any, client).zadd(f"{prefix}:hosts", dict.fromkeys(hosts, seconds * 1000 - DAY_MS - 1_000))


def test_hosts_unused_for_a_day_leave_the_list(
    frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str
) -> None:
    start(frontier, "job", pages("used.test", 1))
    settle(frontier, lease(frontier))
    assert frontier.sweep() == 0
    age(client, prefix, "old.test", "older.test")
    assert frontier.sweep() == 2
    assert names(watch.hosts(10)) == ["used.test"]
    assert frontier.sweep() == 0


def test_host_with_an_operators_word_stays_in_the_list(
    frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str
) -> None:
    frontier.configure_host("paused.test", HostChange(paused=True))
    frontier.configure_host("free.test", HostChange(rate=1))
    frontier.configure_host("free.test", HostChange(rate=None))
    age(client, prefix, "paused.test", "free.test")
    assert frontier.sweep() == 1
    assert names(watch.hosts(10)) == ["paused.test"]
    assert known_host(watch, "paused.test").paused


def test_long_list_is_swept_in_several_calls(
    frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str
) -> None:
    age(client, prefix, *(f"h{n}.test" for n in range(SWEEP_AT_ONCE + 1)))
    assert [frontier.sweep() for _ in range(3)] == [SWEEP_AT_ONCE, 1, 0]
    assert watch.hosts(10) == []


# --- workers ----------------------------------------------------------------------------------------------------------

BEAT = WorkerBeat("http@one:1", ("http.high", "http.batch"), 4, 2, 17, 250, 1_700_000_000_000, "0.1.0")


def test_workers_live_from_one_heartbeat_to_the_next(frontier: Frontier, watch: Watch) -> None:
    assert watch.workers() == []
    other = replace(BEAT, name="http@another:1", queues=("http.slow",))
    frontier.crew.heartbeat(BEAT)
    frontier.crew.heartbeat(other)
    assert watch.workers() == [other, BEAT]
    later = replace(BEAT, active=0, slices=18)
    frontier.crew.heartbeat(later)
    assert watch.workers() == [other, later]


def test_a_newer_or_older_worker_is_understood(
    frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str
) -> None:
    """While a fleet is brought up to date, some tell more than others know."""
    frontier.crew.heartbeat(BEAT)
    told = orjson.loads(cast(str, client.get(f"{prefix}:worker:{BEAT.name}")))
    client.set(f"{prefix}:worker:{BEAT.name}", orjson.dumps({**told, "mood": "fine"}), ex=60)
    assert watch.workers() == [BEAT]
    client.set(f"{prefix}:worker:{BEAT.name}", orjson.dumps({n: v for n, v in told.items() if n != "pace"}), ex=60)
    assert watch.workers() == [BEAT]


def test_worker_that_departs_is_gone_at_once(frontier: Frontier, watch: Watch) -> None:
    other = replace(BEAT, name="two")
    for beat in (BEAT, other):
        frontier.crew.heartbeat(beat)
    for _ in range(2):
        frontier.crew.depart(BEAT.name)
        assert watch.workers() == [other]
    frontier.crew.depart(other.name)
    assert watch.workers() == []


def test_worker_that_falls_silent_is_forgotten(
    frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str
) -> None:
    frontier.crew.heartbeat(BEAT, timedelta(seconds=1))
    assert watch.workers() == [BEAT]
    wait_until(lambda: watch.workers() == [])
    other = replace(BEAT, name="two")

    def only_the_other_is_left() -> bool:
        frontier.crew.heartbeat(other)
        (listed,) = [key.value for key in read_keys(client, prefix) if key.family.name == "workers"]
        return [name for name, _ in listed] == ["two"]

    wait_until(only_the_other_is_left)
    assert watch.workers() == [other]


# --- events -----------------------------------------------------------------------------------------------------------


def told(watch: Watch, job: str = "job") -> list[tuple[str, str]]:
    return [(event.kind, event.state) for event in watch.events_since("0-0", job)]


def test_every_change_of_a_job_is_told_once_and_in_order(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 3))
    frontier.create("job", JobSpec())
    for _ in range(2):
        frontier.pause("job")
    for _ in range(2):
        frontier.resume("job")
    frontier.configure_job("job", JobSpec(rate="unlimited", lane=Lane.HIGH))
    held = lease(frontier, 2)
    for _ in range(2):
        frontier.cancel("job")
    settle(frontier, held)
    settle(frontier, held)
    frontier.close("job")
    frontier.pause("job")
    frontier.forget("job")
    assert told(watch) == [
        ("state", "running"),
        ("state", "paused"),
        ("state", "running"),
        ("changed", "running"),
        ("state", "cancelled"),
        ("ended", "cancelled"),
    ]


def _settles_the_last(frontier: Frontier) -> None:
    frontier.close("job")
    settle(frontier, lease(frontier))


def _closes_when_dry(frontier: Frontier) -> None:
    settle(frontier, lease(frontier))
    frontier.close("job")


def _pauses_before_the_last_settle(frontier: Frontier) -> None:
    frontier.close("job")
    held = lease(frontier)
    frontier.pause("job")
    settle(frontier, held)


@pytest.mark.parametrize("end", [_settles_the_last, _closes_when_dry, _pauses_before_the_last_settle])
def test_end_of_a_job_is_told_exactly_once(frontier: Frontier, watch: Watch, end: Callable[[Frontier], None]) -> None:
    start(frontier, "job", pages("a.test", 3))
    end(frontier)
    for _ in range(2):
        frontier.close("job")
        frontier.cancel("job")
        frontier.resume("job")
        frontier.reap()
    assert [event for event in told(watch) if event[0] == "ended"] == [("ended", "finished")]
    assert told(watch)[-1] == ("ended", "finished")


def test_cancelled_job_without_leases_ends_at_once(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 3))
    frontier.cancel("job")
    assert told(watch)[1:] == [("state", "cancelled"), ("ended", "cancelled")]


def test_name_used_again_has_a_life_of_its_own(frontier: Frontier, watch: Watch) -> None:
    for _ in range(2):
        frontier.create("job", JobSpec())
        frontier.close("job")
        frontier.forget("job")
    assert told(watch) == [("state", "running"), ("ended", "finished")] * 2


def test_events_of_a_job_are_read_from_where_the_reader_stopped(frontier: Frontier, watch: Watch) -> None:
    assert (watch.last_event(), watch.events_since("0-0", "job")) == ("0-0", [])
    frontier.create("job", JobSpec())
    frontier.create("other", JobSpec())
    first = watch.last_event()
    frontier.pause("other")
    frontier.pause("job")
    frontier.cancel("job")
    assert [event.kind for event in watch.events_since(first, "job")] == ["state", "state", "ended"]
    assert {event.job for event in watch.events_since(first, "job")} == {"job"}
    second = watch.events_since(first, "job")[0].id
    assert [event.state for event in watch.events_since(second, "job")] == ["cancelled", "cancelled"]
    assert watch.events_since(watch.last_event(), "job") == []


@pytest.fixture(params=[2, 3])
def waiting(server_url: str, prefix: str, request: pytest.FixtureRequest) -> Generator[Watch]:
    """A connection of its own, which may wait, in each version of Redis' protocol."""
    client = connect(f"{server_url}?protocol={request.param}")
    yield Watch(client, prefix)
    client.close()


def test_events_that_are_there_are_given_at_once(frontier: Frontier, waiting: Watch) -> None:
    frontier.create("one", JobSpec())
    first = waiting.last_event()
    frontier.create("two", JobSpec())
    frontier.cancel("one")
    events = waiting.next_events("0-0", MINUTE)
    assert [(event.job, event.kind, event.state) for event in events] == [
        ("one", "state", "running"),
        ("two", "state", "running"),
        ("one", "state", "cancelled"),
        ("one", "ended", "cancelled"),
    ]
    assert waiting.next_events(first, MINUTE) == events[1:]
    assert waiting.last_event() == events[-1].id


def test_nothing_is_given_when_nothing_happens_in_time(frontier: Frontier, waiting: Watch) -> None:
    assert waiting.next_events("0-0", timedelta(milliseconds=10)) == []
    frontier.create("job", JobSpec())
    assert waiting.next_events(waiting.last_event(), timedelta(milliseconds=10)) == []
    assert waiting.next_events(waiting.last_event(), timedelta()) == []


def test_reader_that_waits_is_woken_by_the_next_event(frontier: Frontier, waiting: Watch, client: redis.Redis) -> None:
    frontier.create("job", JobSpec())
    last = waiting.last_event()
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(waiting.next_events, last, timedelta(seconds=8))
        wait_until(lambda: cast(Any, client).info("clients")["blocked_clients"] == 1)
        frontier.pause("job")
        (event,) = answer.result(timeout=5)
    assert replace(event, id="") == Event("", "job", "state", "paused")
    assert event.id == waiting.last_event() > last


def test_only_the_last_events_are_kept(frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str) -> None:
    pipeline = cast(Any, client).pipeline(transaction=False)
    for n in range(12_000):
        pipeline.xadd(f"{prefix}:events", {"job": "old", "kind": "state", "state": "running"}, id=f"1-{n}")
    pipeline.execute()
    frontier.create("job", JobSpec())
    assert 10_000 <= cast(Any, client).xlen(f"{prefix}:events") <= 10_200
    assert told(watch) == [("state", "running")]


# --- the connection ---------------------------------------------------------------------------------------------------


def test_frontier_that_answers_can_be_pinged(watch: Watch) -> None:
    watch.ping()


def test_frontier_that_cannot_be_reached_is_named_as_such(tmp_path: Path) -> None:
    watch = Watch.at(f"unix://{tmp_path / 'nobody'}")
    looks: list[Callable[[], object]] = [
        watch.ping,
        watch.queues,
        watch.load,
        watch.stats,
        watch.expired_leases,
        watch.workers,
        watch.last_event,
        lambda: watch.hosts(1),
        lambda: watch.host("a.test"),
        lambda: watch.events_since("0-0", "job"),
        lambda: watch.next_events("0-0", SOON),
    ]
    for look in looks:
        with pytest.raises(RedisUnavailable, match="did not answer"):
            look()
    watch.close_connections()


def test_looking_changes_nothing(frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", pages("a.test", 3), parallel=1)
    settle(frontier, lease(frontier))
    frontier.crew.heartbeat(BEAT)
    before = [(key.key, key.value) for key in read_keys(client, prefix)]
    watch.load()
    watch.stats()
    watch.expired_leases()
    watch.hosts(10)
    watch.host("b.test")
    watch.workers()
    watch.events_since("0-0", "job")
    watch.next_events("0-0", SOON)
    assert counters(frontier, "job").queued == 2
    assert [(key.key, key.value) for key in read_keys(client, prefix)] == before
