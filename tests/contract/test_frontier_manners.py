"""How hosts are treated: whose limits hold, and what is learnt from a host's answers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
import redis

from shoal.core.host_status import Breaker, HostStatus
from shoal.core.manners import BURST_WINDOW_S, Limit, LimitSource, Manners, Signal
from shoal.core.model import JobState, Lane, Lease, Mark, Outcome, Settlement
from shoal.core.spec import JobSpec
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from tests.contract.frontier_calls import (
    MINUTE,
    SOON,
    counters,
    jobs,
    lease,
    let_pass,
    pages,
    prove,
    reap_soon,
    settle,
    start,
    status_of,
)
from tests.contract.frontier_time import Clock, crawl
from tests.contract.keyspace import host_fields

HOST = "a.test"
ORIGIN = "https://a.test"
BATCH, SLOW = "http.batch", "http.slow"


@pytest.fixture
def clock(client: redis.Redis, prefix: str) -> Clock:
    return Clock(client, prefix)


def known(watch: Watch, host: str = HOST) -> HostStatus:
    status = watch.host(host)
    assert status is not None
    return status


def decisions(watch: Watch, host: str = HOST) -> list[str]:
    """The newest first."""
    return [decision.what for decision in known(watch, host).decisions]


def answer(frontier: Frontier, leases: Sequence[Lease], signal: Signal, reason: str, **more: Any) -> None:
    """What was not OK is tried again, and was no attempt."""
    settle(frontier, leases, Outcome.RETRY, signal=signal, reason=reason, counts=False, **more)


def at_most(rate: float, clock: Clock, since: float = 0) -> float:
    """The requests that a bucket allows until now."""
    return 1 + rate * (clock.now - since + BURST_WINDOW_S)


def refuse(frontier: Frontier, leases: Sequence[Lease]) -> None:
    answer(frontier, leases, Signal.DOWN, "refused")


def lease_of(frontier: Frontier, queue: str, limit: int = 100) -> tuple[Lease, ...]:
    return frontier.lease(queues=[queue], limit=limit, lease_for=MINUTE).leases


# --- whose limits hold ------------------------------------------------------------------------------------------------

OPERATOR, JOB, ROBOTS, DEFAULT = LimitSource.OPERATOR, LimitSource.JOB, LimitSource.ROBOTS, LimitSource.DEFAULT


@pytest.mark.parametrize(
    ("operator", "job", "delay", "robots", "holds"),
    [
        (3.0, 5.0, 0.5, True, (3.0, OPERATOR)),
        (0.0, 5.0, 0.5, True, (0.0, OPERATOR)),
        (None, 5.0, 0.5, True, (5.0, JOB)),
        (None, 1.0, 0.5, True, (1.0, JOB)),
        (None, "unlimited", 0.5, True, (0.0, JOB)),
        (None, None, 0.5, True, (2.0, ROBOTS)),
        (None, None, 0.05, True, (7.0, DEFAULT)),
        (None, None, 0.5, False, (7.0, DEFAULT)),
        (None, None, None, True, (7.0, DEFAULT)),
    ],
)
def test_the_strongest_word_on_a_rate_holds(
    client: redis.Redis,
    prefix: str,
    operator: float | None,
    job: float | str | None,
    delay: float | None,
    robots: bool,
    holds: tuple[float, LimitSource],
) -> None:
    frontier = Frontier(client, prefix, Manners(rate=7, parallel=9))
    if operator is not None:
        frontier.configure_host(HOST, HostChange(rate=operator))
    frontier.learn_robots(HOST, delay, ORIGIN)
    Clock(client, prefix).let_pass(1)
    start(frontier, "job", pages(HOST, 20), rate=job, robots=robots, parallel="unlimited")
    first = lease(frontier)[0]
    assert first.limit is not None
    assert (first.limit.rate, first.limit.source) == holds


@pytest.mark.parametrize(
    ("operator", "job", "most"), [(3, 2, 3), (0, 2, 64), (None, 2, 2), (None, "unlimited", 64), (None, None, 5)]
)
def test_the_strongest_word_on_a_parallel_cap_holds(
    client: redis.Redis, prefix: str, operator: int | None, job: int | str | None, most: int
) -> None:
    """A host that never answered takes 64 where there is no cap."""
    frontier = Frontier(client, prefix, Manners(rate=0, parallel=5))
    if operator is not None:
        frontier.configure_host(HOST, HostChange(parallel=operator))
    start(frontier, "job", pages(HOST, 100), rate=None, parallel=job)
    assert len(lease(frontier)) == most
    assert not lease(frontier)


def test_a_host_that_has_answered_takes_as_much_as_there_is(frontier: Frontier) -> None:
    start(frontier, "job", pages(HOST, 300))
    held = lease(frontier, 300)
    assert len(held) == 64
    settle(frontier, held[:1])
    assert len(lease(frontier, 300)) == 300 - 64


def test_an_operators_word_on_the_rate_holds_for_jobs_that_run(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", pages(HOST, 200), rate=50, parallel="unlimited")
    assert len(lease(frontier)) == 6
    frontier.configure_host(HOST, HostChange(rate=1))
    assert 10 <= crawl(frontier, clock, 10, step=0.25)["job"] <= at_most(1, clock)


@pytest.mark.parametrize("rate", [0.5, 4, 25, 200])
def test_a_bucket_holds_one_request_and_a_tenth_of_a_second(frontier: Frontier, clock: Clock, rate: float) -> None:
    start(frontier, "job", pages(HOST, 1_000), rate=rate, parallel="unlimited")
    burst = 1 + int(rate * BURST_WINDOW_S)
    for _ in range(2):
        held = lease(frontier, 500)
        assert len(held) == burst
        more = lease(frontier, 500)
        assert len(more) <= 1 + rate * 0.05
        settle(frontier, [*held, *more])  # what is under way for ten seconds would make the host a slow one
        clock.let_pass(10)


def test_a_slow_job_does_not_slow_others(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "slow", pages(HOST, 50), rate=0.1, parallel="unlimited")
    start(frontier, "other", pages(HOST, 500), rate=None, parallel="unlimited")
    shares = crawl(frontier, clock, 20, step=0.1)
    assert 2 <= shares["slow"] <= at_most(0.1, clock)
    assert 76 <= shares["slow"] + shares["other"] <= at_most(4, clock)


def test_a_slow_job_keeps_its_rate_when_it_is_woken(frontier: Frontier, clock: Clock) -> None:
    """It waits at its own cap, and each return wakes it."""
    start(frontier, "slow", pages(HOST, 50), rate=0.5, parallel=1)
    assert 5 <= crawl(frontier, clock, 10, step=0.25)["slow"] <= at_most(0.5, clock)


def test_a_slow_job_keeps_its_rate_when_its_links_come_one_by_one(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "slow", pages(HOST, 1), rate=0.5, parallel="unlimited")
    asked = 0
    for _ in range(40):
        held = lease(frontier)
        asked += len(held)
        frontier.admit("slow", pages(HOST, len(held), first=asked))
        settle(frontier, held)
        clock.let_pass(0.25)
    assert 5 <= asked <= at_most(0.5, clock)


def test_a_slow_job_keeps_its_rate_when_it_is_changed(frontier: Frontier) -> None:
    start(frontier, "slow", pages(HOST, 50), rate=0.5, parallel="unlimited")
    assert len(lease(frontier)) == 1
    frontier.configure_job("slow", JobSpec(rate=0.5, parallel="unlimited", weight=2))
    let_pass(timedelta(milliseconds=250))
    assert not lease(frontier)


# --- exact over many callers ------------------------------------------------------------------------------------------


def _in_threads(server_url: str, prefix: str, count: int, work: Any) -> None:
    clients = [connect(server_url) for _ in range(count)]
    try:
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(work, Frontier(client, prefix)) for client in clients]:
                done.result()
    finally:
        for client in clients:
            client.close()


def test_the_rate_is_one_for_all_workers_and_jobs(frontier: Frontier, server_url: str, prefix: str) -> None:
    rate = 60
    for job, lane in (("one", Lane.BATCH), ("two", Lane.BATCH), ("urgent", Lane.HIGH)):
        start(frontier, job, pages(HOST, 500), rate=rate, parallel="unlimited", lane=lane)
    began = time.monotonic()
    counts: list[int] = []

    def work(frontier: Frontier) -> None:
        while time.monotonic() - began < 1:
            counts.append(len(lease(frontier, 20)))

    _in_threads(server_url, prefix, 6, work)
    elapsed = time.monotonic() - began
    assert rate / 2 <= sum(counts) <= 1 + rate * (elapsed + BURST_WINDOW_S)


def test_the_cap_is_one_for_all_workers_and_jobs(frontier: Frontier, server_url: str, prefix: str) -> None:
    for job, lane in (("one", Lane.BATCH), ("two", Lane.BATCH), ("urgent", Lane.HIGH)):
        start(frontier, job, pages(HOST, 200), parallel=3, lane=lane)
    lock, most, under_way = threading.Lock(), 0, 0

    def work(frontier: Frontier) -> None:
        nonlocal most, under_way
        for _ in range(60):
            held = lease(frontier, 2)
            with lock:
                under_way += len(held)
                most = max(most, under_way)
            with lock:
                under_way -= len(held)
            settle(frontier, held)

    _in_threads(server_url, prefix, 6, work)
    assert 1 <= most <= 3
    assert sum(counters(frontier, job).done for job in ("one", "two", "urgent")) >= 60


# --- robots.txt -------------------------------------------------------------------------------------------------------


def test_a_crawl_delay_is_kept_by_jobs_that_obey_robots(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    frontier.learn_robots(HOST, 5, ORIGIN)
    start(frontier, "job", pages(HOST, 50), rate=None)
    assert crawl(frontier, clock, 30, step=0.5)["job"] == pytest.approx(6, abs=1)
    assert known(watch).crawl_delay == 5
    assert decisions(watch) == ["crawl_delay"]
    frontier.learn_robots(HOST, None, ORIGIN)
    clock.let_pass(5)
    assert crawl(frontier, clock, 5, step=0.1)["job"] == pytest.approx(20, abs=2)
    assert known(watch).crawl_delay is None


def test_a_robots_file_is_fetched_by_one_at_a_time(frontier: Frontier) -> None:
    assert frontier.claim_robots(ORIGIN)
    assert not frontier.claim_robots(ORIGIN)
    assert frontier.claim_robots("http://a.test")
    frontier.learn_robots(HOST, None, ORIGIN)
    assert frontier.claim_robots(ORIGIN)


# --- the throttle -----------------------------------------------------------------------------------------------------


def _with_pace(frontier: Frontier, *, rate: float = 8, parallel: str | None = "unlimited") -> None:
    """A host that was asked at this rate, and that wants half."""
    start(frontier, "job", pages(HOST, 2_000), rate=rate, parallel=parallel)
    answer(frontier, lease(frontier, 1), Signal.BUSY, "http_429")


def test_a_busy_host_is_asked_at_half_the_rate(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    _with_pace(frontier)
    host = known(watch)
    assert (host.pace, host.state, host.reason) == (4, "slowed", "http_429: 8 → 4 a second")
    clock.let_pass(2)
    held = lease(frontier, 1)
    assert held[0].limit == Limit(4.0, 0, LimitSource.THROTTLE)
    began = clock.now
    assert 18 <= crawl(frontier, clock, 5, holding=True)["job"] <= at_most(4, clock, began)


def test_the_rate_is_cut_once_a_second_at_most(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 500), rate=80, parallel="unlimited")
    for held in lease(frontier):
        answer(frontier, [held], Signal.BUSY, "http_503")
    assert known(watch).pace == 40
    for expected in (20, 10):
        clock.let_pass(1.1)
        answer(frontier, lease(frontier), Signal.SLOW, "timeout")
        assert known(watch).pace == expected
    assert decisions(watch) == ["slowed"] * 3


def test_the_rate_has_a_floor(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 500), rate=1, parallel="unlimited")
    for _ in range(8):
        answer(frontier, lease(frontier), Signal.BUSY, "http_429")
        clock.let_pass(30)
    assert known(watch).pace == pytest.approx(0.1)


def test_a_host_that_is_well_again_is_found_again_step_by_step(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    _with_pace(frontier)
    paces: list[float] = []
    for _ in range(60):
        clock.let_pass(1)
        settle(frontier, lease(frontier, 1))
        pace = known(watch).pace
        if pace is None:
            break
        paces.append(pace)
    assert paces == sorted(paces)
    assert max(after - before for before, after in pairwise(paces)) <= 8 / 20 + 0.001
    assert known(watch).pace is None
    assert known(watch).state == "open"
    assert known(watch).reason == "back to 8 a second"
    clock.let_pass(1)
    assert lease(frontier, 1)[0].limit == Limit(8.0, 0, LimitSource.JOB)


def test_a_long_silence_is_no_reason_to_climb_faster(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    _with_pace(frontier)
    clock.let_pass(3_000)
    settle(frontier, lease(frontier, 1))
    assert known(watch).pace == pytest.approx(4.4, abs=0.01)


def test_an_error_of_the_page_changes_no_rate(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    _with_pace(frontier)
    clock.let_pass(2)
    settle(frontier, lease(frontier), Outcome.DEAD, reason="http_500", signal=Signal.ALIVE)
    assert known(watch).pace == 4
    assert known(watch).decisions[0].reason == "http_429: 8 → 4 a second"


def test_rising_latency_cuts_the_rate_before_the_host_complains(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 500), rate=10, parallel="unlimited")
    for latency in (100, 110, 90, 100):
        settle(frontier, lease(frontier), latency=timedelta(milliseconds=latency))
        clock.let_pass(1)
    assert known(watch).pace is None
    settle(frontier, lease(frontier), latency=timedelta(seconds=5))
    host = known(watch)
    assert host.pace == 7.5
    assert "answers in 15" in host.decisions[0].reason
    assert "usually in 1" in host.decisions[0].reason
    assert decisions(watch) == ["slowed"]


def test_a_steady_slow_host_is_not_cut(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 500), rate=10, parallel="unlimited", lane=Lane.HIGH)
    for _ in range(5):
        settle(frontier, lease(frontier), latency=timedelta(seconds=5))
        clock.let_pass(1)
    assert known(watch).pace is None


def test_a_busy_host_without_limits_gets_one(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    """Half of what it was lately asked."""
    prove(frontier, HOST)
    start(frontier, "job", pages(HOST, 5_000))
    assert crawl(frontier, clock, 3, step=0.1, limit=10)["job"] == 300
    answer(frontier, lease(frontier, 10), Signal.BUSY, "http_429")
    assert known(watch).pace == pytest.approx(50, rel=0.3)


def test_a_host_without_limits_that_is_busy_at_once_is_asked_half_of_what_is_under_way(
    frontier: Frontier, watch: Watch
) -> None:
    start(frontier, "job", pages(HOST, 500))
    held = lease(frontier, 20)
    answer(frontier, held, Signal.BUSY, "http_429", latency=timedelta(seconds=1))
    assert known(watch).pace == 10


def test_a_retry_after_is_not_shortened(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 10))
    first, second, *rest = lease(frontier, 3)
    answer(frontier, [first], Signal.BUSY, "http_429", hold_host=MINUTE)
    answer(frontier, [second], Signal.BUSY, "http_429", hold_host=timedelta(seconds=2))
    settle(frontier, rest)
    host = known(watch)
    assert timedelta(seconds=55) < host.hold <= MINUTE
    assert (host.state, host.decisions[0].what) == ("held", "held")
    assert host.decisions[0].reason == "http_429: it asked for 60 s"
    clock.let_pass(50)
    assert not lease(frontier)
    clock.let_pass(10)
    assert lease(frontier)


def test_a_retry_that_was_no_attempt_counts_for_nothing(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 1))
    for _ in range(3):
        answer(frontier, lease(frontier), Signal.BUSY, "http_429")
        clock.let_pass(60)
    (held,) = lease(frontier)
    assert held.request.attempt == 0
    assert counters(frontier, "job").retries == 0
    assert status_of(frontier, "job").reasons == {}
    assert watch.stats() == {}


# --- the breaker ------------------------------------------------------------------------------------------------------


def trip(frontier: Frontier, *, count: int = 40, **spec: Any) -> None:
    """A host that refused five times."""
    start(frontier, "job", pages(HOST, count), **spec)
    refuse(frontier, lease(frontier, 5))


def test_a_host_that_refuses_five_times_in_a_row_is_left_alone(frontier: Frontier, watch: Watch) -> None:
    trip(frontier)
    assert not lease(frontier)
    host = known(watch)
    assert (host.breaker, host.state) == (Breaker.TRIPPED, "tripped")
    assert timedelta(seconds=1) < host.probe_in <= timedelta(seconds=2)
    assert host.reason == "refused 5 times in a row: next probe in 2 s"


def test_an_answer_in_between_counts_from_the_beginning(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 40))
    refuse(frontier, lease(frontier, 4))
    settle(frontier, lease(frontier, 1))
    refuse(frontier, lease(frontier, 4))
    assert known(watch).breaker is Breaker.CLOSED
    refuse(frontier, lease(frontier, 1))
    assert known(watch).breaker is Breaker.TRIPPED


def test_one_probe_at_a_time_finds_out_whether_it_still_refuses(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    trip(frontier)
    start(frontier, "other", pages(HOST, 5))
    clock.let_pass(2)
    (probe,) = lease(frontier)
    assert probe.mark is Mark.PROBE
    assert not lease(frontier)
    clock.let_pass(20)
    assert not lease(frontier)
    settle(frontier, [probe])
    assert (known(watch).breaker, known(watch).reason) == (Breaker.CLOSED, "it answers again")
    again = lease(frontier)
    assert {held.mark for held in again} == {Mark.NONE}
    assert len(again) > 10


def test_probes_become_rarer_and_then_the_host_is_down(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    trip(frontier)
    for wait in (2, 4, 8, 16, 30):
        assert wait - 1 < known(watch).probe_in.total_seconds() <= wait
        clock.let_pass(wait - 1)
        assert not lease(frontier)
        clock.let_pass(1)
        (probe,) = lease(frontier)
        assert probe.mark is Mark.PROBE
        refuse(frontier, [probe])
    assert (known(watch).breaker, known(watch).state) == (Breaker.DOWN, "down")
    assert "given up for 300 s" in known(watch).reason
    doomed = lease(frontier)
    assert {held.mark for held in doomed} == {Mark.DOOMED}
    assert len(doomed) == 40
    settle(frontier, doomed[:-1], Outcome.DEAD, reason="host_down")
    frontier.release(doomed[-1:])
    clock.let_pass(301)
    assert known(watch).breaker is Breaker.TRIPPED
    (probe,) = lease(frontier)
    assert probe.mark is Mark.PROBE
    refuse(frontier, [probe])
    assert known(watch).breaker is Breaker.DOWN
    assert timedelta(seconds=500) < known(watch).probe_in <= timedelta(seconds=600)


def test_a_host_that_is_down_needs_no_rate_to_be_given_up(frontier: Frontier, clock: Clock) -> None:
    trip(frontier, rate=50, parallel=5)
    for wait in (2, 4, 8, 16, 30):
        clock.let_pass(wait)
        refuse(frontier, lease(frontier))
    assert len(lease(frontier)) == 40


def test_any_answer_closes_the_breaker(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 40))
    late = lease(frontier, 1)
    refuse(frontier, lease(frontier, 5))
    assert not lease(frontier)
    settle(frontier, late, Outcome.DEAD, reason="http_500", signal=Signal.ALIVE)
    assert known(watch).breaker is Breaker.CLOSED
    assert decisions(watch) == ["reached", "tripped"]
    assert lease(frontier)


def test_the_probe_of_a_dead_worker_is_given_again(frontier: Frontier, clock: Clock) -> None:
    trip(frontier)
    clock.let_pass(2)
    assert lease(frontier, lease_for=SOON)[0].mark is Mark.PROBE
    assert reap_soon(frontier) == (1, ())
    (again,) = lease(frontier)
    assert (again.mark, again.request.losses) == (Mark.PROBE, 1)


def test_a_released_probe_is_given_again(frontier: Frontier, clock: Clock) -> None:
    trip(frontier)
    clock.let_pass(2)
    frontier.release(lease(frontier))
    assert [held.mark for held in lease(frontier)] == [Mark.PROBE]


def test_a_probe_that_asked_nobody_is_given_again(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    trip(frontier)
    clock.let_pass(2)
    settle(frontier, lease(frontier), Outcome.ROBOTS, reason="robots")
    assert known(watch).breaker is Breaker.TRIPPED
    assert [held.mark for held in lease(frontier)] == [Mark.PROBE]


def test_requests_from_before_neither_block_the_probe_nor_let_out_another(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", pages(HOST, 40))
    released, refused, *_ = lease(frontier, 3)
    refuse(frontier, lease(frontier, 5))
    clock.let_pass(2)
    assert not lease(frontier)  # it kept silent: it moves to the slow lane
    assert [held.mark for held in lease(frontier)] == [Mark.PROBE]
    frontier.release([released])
    refuse(frontier, [refused])
    assert not lease(frontier)


def test_a_probe_that_is_renewed_stays_the_only_one(frontier: Frontier, clock: Clock) -> None:
    trip(frontier)
    clock.let_pass(2)
    (probe,) = lease(frontier, lease_for=timedelta(seconds=10))
    clock.let_pass(9)
    frontier.renew([probe.group], MINUTE)
    clock.let_pass(15)
    assert frontier.glance([BATCH]).expired == 0
    assert not lease(frontier)


def test_a_dead_host_stands_in_no_other_hosts_way(frontier: Frontier, clock: Clock) -> None:
    trip(frontier)
    frontier.admit("job", pages("b.test", 5))
    assert {held.request.url.host for held in lease(frontier)} == {"b.test"}


# --- lanes ------------------------------------------------------------------------------------------------------------


def test_a_host_that_proves_slow_moves_to_the_slow_lane_and_back(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", [*pages(HOST, 40), *pages("b.test", 1)])
    slow = [held for held in lease(frontier, 4) if held.request.url.host == HOST]
    settle(frontier, slow, latency=timedelta(seconds=5))
    assert known(watch).lane is Lane.SLOW
    assert not [held for held in lease_of(frontier, BATCH) if held.request.url.host == HOST]
    moved = lease_of(frontier, SLOW, 8)
    assert {held.request.url.host for held in moved} == {HOST}
    assert {held.queue for held in moved} == {SLOW}
    for held in moved:
        settle(frontier, [held], latency=timedelta(milliseconds=50))
    assert known(watch).lane is None
    assert decisions(watch) == ["fast_lane", "slow_lane"]
    assert not lease_of(frontier, SLOW)
    back = lease_of(frontier, BATCH)
    assert {held.queue for held in back} == {BATCH}
    assert counters(frontier, "job").leased == len(back) + 1


def test_new_pages_of_a_slow_host_join_it_in_the_slow_lane(frontier: Frontier) -> None:
    start(frontier, "job", pages(HOST, 3))
    settle(frontier, lease(frontier, 1), latency=timedelta(seconds=5))
    assert not lease_of(frontier, BATCH)
    frontier.admit("job", pages(HOST, 3, first=10))
    assert not lease_of(frontier, BATCH)
    held = lease_of(frontier, SLOW)
    assert len(held) == 5
    settle(frontier, held, Outcome.RETRY, latency=timedelta(seconds=5))
    assert not lease_of(frontier, BATCH)
    assert len(lease_of(frontier, SLOW)) == 5


def test_a_host_that_keeps_silent_moves_to_the_slow_lane(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 40))
    held = lease(frontier, 3)
    clock.let_pass(1.5)
    assert len(lease_of(frontier, BATCH, 1)) == 1
    clock.let_pass(1)
    assert not lease_of(frontier, BATCH)
    assert known_lane(watch, frontier, held) is Lane.SLOW
    assert lease_of(frontier, SLOW)


def known_lane(watch: Watch, frontier: Frontier, held: Sequence[Lease]) -> Lane | None:
    """A host is listed once something came back."""
    frontier.release(held[:1])
    assert known(watch).reason.startswith("no answer for 2")
    return known(watch).lane


def test_a_host_that_nobody_asks_is_not_silent(frontier: Frontier, clock: Clock, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 40))
    settle(frontier, lease(frontier, 1))
    clock.let_pass(60)
    assert len(lease_of(frontier, BATCH, 1)) == 1
    assert known(watch).lane is None


@pytest.mark.parametrize("lane", [Lane.HIGH, Lane.SLOW])
def test_urgent_and_slow_jobs_stay_in_their_lanes(frontier: Frontier, watch: Watch, lane: Lane) -> None:
    start(frontier, "job", pages(HOST, 40), lane=lane)
    settle(frontier, lease(frontier, 1), latency=timedelta(seconds=5))
    assert known(watch).lane is Lane.SLOW
    assert {held.queue for held in lease(frontier)} == {f"http.{lane}"}


def test_a_job_in_the_slow_lane_can_be_paused_moved_and_cancelled(frontier: Frontier) -> None:
    start(frontier, "job", pages(HOST, 40))
    held = lease(frontier, 2)
    settle(frontier, held[:1], latency=timedelta(seconds=5))
    assert not lease_of(frontier, BATCH)
    frontier.pause("job")
    assert not lease(frontier)
    frontier.resume("job")
    assert lease_of(frontier, SLOW, 1)
    frontier.configure_job("job", JobSpec(rate="unlimited", lane=Lane.HIGH))
    assert not lease_of(frontier, SLOW)
    assert lease_of(frontier, "http.high", 1)
    frontier.configure_job("job", JobSpec(rate="unlimited"))
    assert not lease_of(frontier, BATCH)
    assert lease_of(frontier, SLOW, 1)
    assert frontier.cancel("job") == (JobState.CANCELLED, False)
    assert counters(frontier, "job").dropped == 40 - 5
    assert frontier.glance([BATCH, SLOW]).waits == {}


def test_a_batch_takes_no_more_from_a_queue_than_it_should(frontier: Frontier) -> None:
    prove(frontier, HOST)
    start(frontier, "slow", pages(HOST, 40), lane=Lane.SLOW)
    start(frontier, "batch", pages("b.test", 40))
    batch = frontier.lease(queues=[BATCH, SLOW], limit=50, lease_for=MINUTE, most={SLOW: 3})
    assert jobs(batch.leases) == {"batch": 40, "slow": 3}
    assert batch.next_due is None
    assert not frontier.lease(queues=[SLOW], limit=50, lease_for=MINUTE, most={SLOW: 0}).leases


# --- strangers: addresses and domains ---------------------------------------------------------------------------------


def introduce(frontier: Frontier, where: dict[str, tuple[str, str]]) -> None:
    """Every stranger's address and domain is found out; what is no stranger is given back."""
    for _ in range(len(where)):
        for held in lease(frontier):
            if held.mark is Mark.STRANGER:
                assert frontier.meet(held, *where[held.request.url.host]).late == 0
            else:
                frontier.release([held])


def test_a_host_that_was_not_met_is_leased_once(client: redis.Redis, prefix: str, watch: Watch) -> None:
    frontier = Frontier(client, prefix, Manners(rate=0, parallel=0, address_parallel=3))
    for job in ("one", "two"):
        start(frontier, job, pages(HOST, 20), rate=None)
    (held,) = lease(frontier)
    assert held.mark is Mark.STRANGER
    assert not lease(frontier)
    assert frontier.meet(held, "192.0.2.1", "a.test").late == 0
    host = known(watch)
    assert (host.address, host.group, host.in_flight) == ("192.0.2.1", "", 0)
    met = lease(frontier)
    assert [each.mark for each in met] == [Mark.NONE] * 3
    assert sum(counters(frontier, job).queued for job in ("one", "two")) == 40 - 3


def test_a_stranger_whose_worker_died_is_leased_again(client: redis.Redis, prefix: str) -> None:
    frontier = Frontier(client, prefix, Manners(address_parallel=3))
    start(frontier, "job", pages(HOST, 20), rate=None)
    (held,) = lease(frontier, lease_for=SOON)
    reap_soon(frontier)
    assert frontier.meet(held, "192.0.2.1", "a.test").late == 1
    assert lease(frontier)


def test_what_was_found_out_too_late_is_forgotten_after_a_day(client: redis.Redis, prefix: str) -> None:
    """The fixture looks for keys that nobody would ever drop."""
    frontier = Frontier(client, prefix, Manners(address_parallel=3, by_domain=True))
    start(frontier, "job", pages(HOST, 1), rate=None)
    (held,) = lease(frontier)
    frontier.release([held])
    frontier.cancel("job")
    client.delete(f"{prefix}:host:{HOST}")
    assert frontier.meet(held, "192.0.2.1", "a.test").late == 1


def test_twenty_hosts_at_one_address_are_one_server(client: redis.Redis, prefix: str, watch: Watch) -> None:
    frontier = Frontier(client, prefix, Manners(rate=0, parallel=0, address_parallel=4))
    hosts = [f"h{n}.test" for n in range(20)]
    start(frontier, "job", [page for host in hosts for page in pages(host, 5)], rate=None)
    introduce(frontier, dict.fromkeys(hosts, ("192.0.2.1", "")))
    held = list(lease(frontier))
    assert len(held) == 4
    assert not lease(frontier)
    for _ in range(10):
        settle(frontier, [held.pop(0)])
        held += lease(frontier)
        assert len(held) == 4
    settle(frontier, held[:3])
    held = [*held[3:], *lease(frontier)]
    assert len(held) == 4
    assert Counter(known(watch, host).address for host in hosts) == {"192.0.2.1": 20}
    assert host_fields(client, prefix, "#192.0.2.1")["inflight"] == "4"


def test_a_host_that_moved_counts_where_it_lives_now(client: redis.Redis, prefix: str, clock: Clock) -> None:
    frontier = Frontier(client, prefix, Manners(rate=0, parallel=0, address_parallel=4))
    start(frontier, "job", [*pages(HOST, 20), *pages("b.test", 20)], rate=None)
    introduce(frontier, {HOST: ("192.0.2.1", ""), "b.test": ("192.0.2.1", "")})
    held = lease(frontier)
    assert len(held) == 4
    settle(frontier, [each for each in held if each.request.url.host == HOST])
    stay = [each for each in held if each.request.url.host != HOST]
    clock.let_pass(3_700)
    introduce(frontier, {HOST: ("192.0.2.2", ""), "b.test": ("192.0.2.1", "")})
    moved = [each for each in lease(frontier) if each.request.url.host == HOST]
    assert len(moved) == 4
    assert host_fields(client, prefix, "#192.0.2.2")["inflight"] == "4"
    settle(frontier, [*moved, *stay])
    assert host_fields(client, prefix, "#192.0.2.2")["inflight"] == "0"


def test_requests_under_way_move_with_their_host(client: redis.Redis, prefix: str) -> None:
    """Whoever met it first, and whatever was leased before."""
    careless = Frontier(client, prefix)
    careful = Frontier(client, prefix, Manners(address_parallel=9, by_domain=True))
    start(careless, "job", pages(HOST, 20), parallel=5)
    held = lease(careless, 3)
    careful.meet(held[0], "192.0.2.1", "test")
    for bucket in (HOST, "#192.0.2.1", "@test"):
        assert host_fields(client, prefix, bucket)["inflight"] == "2"
    careful.meet(held[1], "192.0.2.2", "")
    assert host_fields(client, prefix, "#192.0.2.1")["inflight"] == "0"
    assert host_fields(client, prefix, "#192.0.2.2")["inflight"] == "1"
    settle(careful, held[2:])
    assert host_fields(client, prefix, "#192.0.2.2")["inflight"] == "0"


def _domain(client: redis.Redis, prefix: str, manners: Manners) -> Frontier:
    frontier = Frontier(client, prefix, manners)
    hosts = [f"h{n}.shop.test" for n in range(5)]
    start(frontier, "job", [page for host in hosts for page in pages(host, 40)], rate=None)
    introduce(frontier, dict.fromkeys(hosts, ("", "shop.test")))
    return frontier


def test_hosts_of_one_domain_share_a_bucket(client: redis.Redis, prefix: str, clock: Clock, watch: Watch) -> None:
    frontier = _domain(client, prefix, Manners(rate=5, parallel=0, by_domain=True))
    began = clock.now
    assert 50 <= crawl(frontier, clock, 10, step=0.05)["job"] <= at_most(5, clock, began)
    assert known(watch, "h0.shop.test").group == "@shop.test"


def test_hosts_of_one_domain_share_a_cap(client: redis.Redis, prefix: str) -> None:
    frontier = _domain(client, prefix, Manners(rate=0, parallel=3, by_domain=True))
    held = lease(frontier)
    assert len(held) == 3
    settle(frontier, held[:1])
    assert len(lease(frontier)) == 1


def test_a_domain_is_throttled_held_paused_and_set_as_one(
    client: redis.Redis, prefix: str, clock: Clock, watch: Watch
) -> None:
    frontier = _domain(client, prefix, Manners(rate=8, parallel=0, by_domain=True))
    clock.let_pass(2)
    held = lease(frontier, 1)
    answer(frontier, held, Signal.BUSY, "http_429", hold_host=timedelta(seconds=30))
    domain = known(watch, "@shop.test")
    assert (domain.pace, domain.state) == (4, "held")
    clock.let_pass(29)
    assert not lease(frontier)
    clock.let_pass(2)
    assert lease(frontier)
    frontier.configure_host("@shop.test", HostChange(paused=True))
    clock.let_pass(5)
    assert not lease(frontier)
    frontier.configure_host("@shop.test", HostChange(paused=False, parallel=7))
    held = lease(frontier, 1)
    assert held[0].limit == Limit(4.0, 7, LimitSource.THROTTLE)


@pytest.mark.parametrize(
    ("word", "back"),
    [(HostChange(rate=0.001), HostChange(rate=None)), (HostChange(hold=MINUTE), HostChange(hold=timedelta()))],
    ids=["rate", "hold"],
)
def test_a_word_on_a_domain_that_is_taken_back_wakes_its_hosts(
    client: redis.Redis, prefix: str, clock: Clock, word: HostChange, back: HostChange
) -> None:
    frontier = _domain(client, prefix, Manners(rate=0, parallel=0, by_domain=True))
    start(frontier, "other", pages("far.test", 3), rate=0.001)
    introduce(frontier, {f"h{n}.shop.test": ("", "shop.test") for n in range(5)} | {"far.test": ("", "far.test")})
    frontier.configure_host("@shop.test", word)
    while held := lease(frontier):
        settle(frontier, held)
    clock.let_pass(5)
    assert not lease(frontier)
    frontier.configure_host("@shop.test", back)
    assert {held.request.url.host for held in lease(frontier, 5)} == {f"h{n}.shop.test" for n in range(5)}


# --- what people see --------------------------------------------------------------------------------------------------


def test_the_last_ten_decisions_are_kept(frontier: Frontier, watch: Watch) -> None:
    for rate in range(1, 15):
        frontier.configure_host(HOST, HostChange(rate=rate))
    kept = known(watch).decisions
    assert [decision.reason for decision in kept] == [f"an operator: {rate} a second" for rate in range(14, 4, -1)]
    assert [decision.at_ms for decision in kept] == sorted((decision.at_ms for decision in kept), reverse=True)


def test_an_operators_words_can_be_read_and_are_written_down_only_when_they_change_something(
    frontier: Frontier, watch: Watch
) -> None:
    everything = HostChange(rate=2, parallel=4, paused=True, hold=timedelta(seconds=4))
    for change in (
        everything,
        HostChange(rate=2, parallel=4, paused=True),
        HostChange(rate=None, parallel=4, paused=False, hold=timedelta()),
        HostChange(rate=None, parallel=4, paused=False, hold=timedelta()),
        HostChange(rate=0, parallel=0, hold=timedelta(minutes=10)),
        HostChange(),
        HostChange(rate=0.1, parallel=None),
        HostChange(rate=0.0125),
        HostChange(rate=1234.5),
    ):
        frontier.configure_host(HOST, change)
    assert [decision.reason.removeprefix("an operator: ") for decision in reversed(known(watch).decisions)] == [
        "2 a second, 4 at once, paused, held for 4 s",
        "rate back to what jobs say, resumed, hold ended",
        "no limit of the rate, any number at once, held for 10 min",
        "6 a minute, number at once back to what jobs say",
        "45 an hour",
        "1234 a second",
    ]


def test_a_lease_says_which_lane_and_what_limits_it_came_under(frontier: Frontier) -> None:
    start(frontier, "job", pages(HOST, 5), rate=3, parallel=2)
    held = lease(frontier)
    assert [(each.queue, each.mark, each.limit) for each in held] == [
        (BATCH, Mark.NONE, Limit(3.0, 2, LimitSource.JOB))
    ]


def test_settling_tells_nothing_about_a_host_that_was_not_asked(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages(HOST, 5))
    held = lease(frontier)
    frontier.settle([Settlement(each, Outcome.FILTERED, "scope") for each in held])
    host = known(watch)
    assert (host.pace, host.breaker, host.lane, host.decisions) == (None, Breaker.CLOSED, None, ())


# --- requests beside the leases ---------------------------------------------------------------------------------


def test_who_drops_in_takes_a_turn_like_any_other(client: redis.Redis, prefix: str, clock: Clock) -> None:
    frontier = Frontier(client, prefix, Manners(rate=2))
    start(frontier, "job", pages(HOST, 20), rate=None)
    assert [frontier.drop_in(HOST), len(lease(frontier))] == [timedelta(), 0]
    clock.let_pass(0.5)
    assert len(lease(frontier)) == 1
    wait = frontier.drop_in(HOST)
    assert wait is not None
    assert timedelta(seconds=0.3) < wait <= timedelta(seconds=0.5)


def test_nobody_drops_in_where_nothing_may_be_asked(client: redis.Redis, prefix: str) -> None:
    frontier = Frontier(client, prefix, Manners(rate=2))
    for change, allowed in ((HostChange(paused=True), False), (HostChange(paused=False), True)):
        frontier.configure_host(HOST, change)
        assert (frontier.drop_in(HOST) is not None) == allowed
    frontier.configure_host(HOST, HostChange(hold=timedelta(minutes=1)))
    assert frontier.drop_in(HOST) is None


def test_who_drops_in_at_a_host_without_a_limit_need_not_wait(client: redis.Redis, prefix: str) -> None:
    frontier = Frontier(client, prefix, Manners(rate=0))
    assert [frontier.drop_in(HOST) for _ in range(3)] == [timedelta()] * 3
