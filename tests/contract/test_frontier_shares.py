"""Who gets how much: jobs by their weights, tenants by theirs, on every host and over all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
import redis

from shoal.core.manners import BURST_WINDOW_S, Manners
from shoal.core.model import ALL_QUEUES, JobState, Lane, Request
from shoal.core.spec import JobSpec
from shoal.frontier.frontier import Frontier
from tests.contract.frontier_calls import MINUTE, counters, jobs, lease, pages, prove, settle, start
from tests.contract.frontier_time import Clock, crawl
from tests.contract.keyspace import read_keys

HOST = "a.test"
FEW = 5
"""Requests of a lease, of some hundred: who gets one more than his share is not far from it."""


@pytest.fixture
def clock(client: redis.Redis, prefix: str) -> Clock:
    return Clock(client, prefix)


def start_for(frontier: Frontier, tenant: str, job: str, requests: Iterable[Request], **spec: Any) -> None:
    """A job of a tenant, without limits unless they are given."""
    limits: dict[str, Any] = {"rate": "unlimited", **spec}
    frontier.create(job, JobSpec(**limits), tenant=tenant)
    frontier.admit(job, list(requests))


def work(frontier: Frontier, rounds: int, limit: int = 100) -> Counter[str]:
    """One worker leases and settles, as fast as it can: job → pages."""
    shares: Counter[str] = Counter()
    for _ in range(rounds):
        held = lease(frontier, limit)
        shares.update(jobs(held))
        settle(frontier, held)
    return shares


def by_tenant(shares: Counter[str]) -> Counter[str]:
    """Jobs are named `tenant-number`."""
    sums: Counter[str] = Counter()
    for job, count in shares.items():
        sums[job.partition("-")[0]] += count
    return sums


# --- on one host ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("light", "heavy"), [(400, 400), (10_000, 400), (150, 10_000)])
def test_jobs_of_weight_1_and_3_share_a_host_1_to_3_whatever_their_sizes(
    frontier: Frontier, clock: Clock, light: int, heavy: int
) -> None:
    start(frontier, "light", pages(HOST, light), rate=40, parallel="unlimited")
    start(frontier, "heavy", pages(HOST, heavy), rate=40, parallel="unlimited", weight=3)
    shares = crawl(frontier, clock, 8)
    assert shares.total() >= 310
    assert shares["heavy"] / shares["light"] == pytest.approx(3, rel=0.1)


def test_a_job_with_ten_pages_does_not_wait_behind_ten_thousand(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "large", pages(HOST, 10_000), rate=20, parallel="unlimited")
    assert crawl(frontier, clock, 3).keys() == {"large"}
    start(frontier, "small", pages(HOST, 10), rate=20, parallel="unlimited")
    assert crawl(frontier, clock, 1.2)["small"] == 10


def test_a_late_job_gets_its_share_at_once_and_no_more(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "early", pages(HOST, 10_000), rate=40, parallel="unlimited")
    crawl(frontier, clock, 5)
    start(frontier, "late", pages(HOST, 10_000), rate=40, parallel="unlimited")
    shares = crawl(frontier, clock, 3)
    assert shares["late"] / shares["early"] == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_a_parallel_cap_is_shared_by_weight(frontier: Frontier, parallel: int) -> None:
    start(frontier, "light", pages(HOST, 2_000), parallel=parallel)
    start(frontier, "heavy", pages(HOST, 2_000), parallel=parallel, weight=3)
    rounds = max(200, 400 // parallel)
    shares = work(frontier, rounds)
    assert shares.total() == rounds * parallel
    assert shares["heavy"] / shares["light"] == pytest.approx(3, rel=0.1)


def test_a_jobs_other_hosts_do_not_count_on_this_one(frontier: Frontier) -> None:
    others = [page for n in range(10) for page in pages(f"h{n}.test", 500)]
    start(frontier, "light", [*pages(HOST, 1_000), *others], parallel=2)
    start(frontier, "heavy", pages(HOST, 1_000), parallel=2, weight=3)
    before = {job: counters(frontier, job).queued for job in ("light", "heavy")}
    on_host: Counter[str] = Counter()
    for _ in range(200):
        held = lease(frontier, 200)
        on_host.update(each.job for each in held if each.request.url.host == HOST)
        settle(frontier, held)
    assert on_host.total() == 400
    assert on_host["heavy"] / on_host["light"] == pytest.approx(3, rel=0.1)
    assert before["light"] - counters(frontier, "light").queued > on_host["light"] * 10


def test_jobs_with_different_rates_share_what_both_may_have(frontier: Frontier, clock: Clock) -> None:
    """The slower one has its own rate, the other one the rest of the host's."""
    start(frontier, "slow", pages(HOST, 1_000), rate=1, parallel="unlimited")
    start(frontier, "fast", pages(HOST, 1_000), rate=None, parallel="unlimited")
    shares = crawl(frontier, clock, 20, step=0.1)
    assert 18 <= shares["slow"] <= 1 + clock.now + BURST_WINDOW_S
    assert 54 <= shares["fast"] <= 1 + 4 * (clock.now + BURST_WINDOW_S) - shares["slow"]


# --- tenants ----------------------------------------------------------------------------------------------------------


def test_a_hundred_jobs_of_one_tenant_do_not_push_aside_one_of_another_on_a_host(
    frontier: Frontier, clock: Clock
) -> None:
    for n in range(100):
        start_for(frontier, "many", f"many-{n}", pages(HOST, 50), rate=100, parallel="unlimited")
    start_for(frontier, "one", "one-0", pages(HOST, 2_000), rate=100, parallel="unlimited")
    shares = by_tenant(crawl(frontier, clock, 2, limit=FEW))
    assert shares.total() > 190
    assert shares["one"] / shares["many"] == pytest.approx(1, rel=0.15)


def test_a_hundred_jobs_of_one_tenant_do_not_push_aside_one_of_another_on_many_hosts(frontier: Frontier) -> None:
    """The workers are what is scarce."""
    prove(frontier, "one.test", *(f"h{n}.test" for n in range(100)))
    for n in range(100):
        start_for(frontier, "many", f"many-{n}", pages(f"h{n}.test", 50))
    start_for(frontier, "one", "one-0", pages("one.test", 2_000))
    shares = by_tenant(work(frontier, 10, 64))
    assert shares.total() == 640
    assert shares["one"] / shares["many"] == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("hosts", [("a.test", "a.test"), ("a.test", "b.test")])
def test_tenants_share_by_their_weights(client: redis.Redis, prefix: str, clock: Clock, hosts: tuple[str, str]) -> None:
    frontier = Frontier(client, prefix, Manners(rate=100, parallel=0, tenant_weights={"gold": 3}))
    prove(frontier, *set(hosts))
    clock.let_pass(2)
    rate: Any = None if len(set(hosts)) == 1 else "unlimited"
    start_for(frontier, "gold", "gold-0", pages(hosts[0], 4_000), rate=rate)
    for n in range(3):
        start_for(frontier, "plain", f"plain-{n}", pages(hosts[1], 2_000, first=2_000 * n), rate=rate, weight=9)
    shares = by_tenant(crawl(frontier, clock, 2, limit=FEW))
    assert shares.total() > 190
    assert shares["gold"] / shares["plain"] == pytest.approx(3, rel=0.1)


def test_jobs_of_one_tenant_share_its_part_by_their_weights(frontier: Frontier, clock: Clock) -> None:
    start_for(frontier, "two", "two-0", pages(HOST, 1_000), rate=100, parallel="unlimited")
    start_for(frontier, "two", "two-1", pages(HOST, 1_000), rate=100, parallel="unlimited", weight=4)
    start_for(frontier, "one", "one-0", pages(HOST, 1_000), rate=100, parallel="unlimited")
    crawl(frontier, clock, 0.2, step=0.02)  # the first burst goes to the one that is there first
    shares = crawl(frontier, clock, 5, step=0.02)
    assert shares["two-1"] / shares["two-0"] == pytest.approx(4, rel=0.15)
    assert shares["one-0"] / (shares["two-0"] + shares["two-1"]) == pytest.approx(1, rel=0.1)


# --- nobody starves ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [65, 150])
def test_more_jobs_than_a_lease_looks_at_starve_nobody(frontier: Frontier, count: int) -> None:
    for n in range(count):
        start(frontier, f"job-{n}", pages(f"h{n}.test", 40))
    shares = work(frontier, 40, 64)
    assert len(shares) == count


def test_more_jobs_on_one_host_than_are_compared_starve_nobody(frontier: Frontier) -> None:
    for n in range(100):
        start(frontier, f"job-{n}", pages(HOST, 40), parallel=3)
    shares = work(frontier, 150)
    assert len(shares) == 100
    assert max(shares.values()) <= 3 * min(shares.values())


def test_more_tenants_than_a_lease_looks_at_starve_nobody(frontier: Frontier) -> None:
    for n in range(80):
        start_for(frontier, f"t{n}", f"t{n}-0", pages(f"h{n}.test", 40))
    assert len(by_tenant(work(frontier, 30, 64))) == 80


# --- rivals come and go -----------------------------------------------------------------------------------------------


def _two_rivals(frontier: Frontier, clock: Clock) -> None:
    for job in ("stays", "leaves"):
        start(frontier, job, pages(HOST, 1_000), rate=40, parallel="unlimited")
    assert crawl(frontier, clock, 1).keys() == {"stays", "leaves"}


def test_a_paused_rival_leaves_the_host_to_the_other(frontier: Frontier, clock: Clock) -> None:
    _two_rivals(frontier, clock)
    frontier.pause("leaves")
    assert crawl(frontier, clock, 1)["stays"] >= 38
    frontier.resume("leaves")
    shares = crawl(frontier, clock, 3)
    assert shares["leaves"] / shares["stays"] == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_cancelled_rival_leaves_the_host_to_the_other(frontier: Frontier, clock: Clock, forgotten: bool) -> None:
    _two_rivals(frontier, clock)
    assert frontier.cancel("leaves") == (JobState.CANCELLED, True)
    if forgotten:
        assert frontier.forget("leaves")
    assert crawl(frontier, clock, 1)["stays"] >= 38


def test_a_rival_that_ends_leaves_nothing_behind(
    frontier: Frontier, clock: Clock, client: redis.Redis, prefix: str
) -> None:
    start(frontier, "stays", pages(HOST, 1_000), rate=40, parallel="unlimited")
    start(frontier, "ends", pages(HOST, 5), rate=40, parallel="unlimited")
    frontier.close("ends")
    crawl(frontier, clock, 2)
    assert counters(frontier, "ends").done == 5
    assert {key.family.name for key in read_keys(client, prefix)}.isdisjoint({"rivals", "rival_jobs"})


def test_a_rival_whose_requests_all_wait_for_a_retry_leaves_the_host_to_the_other(
    frontier: Frontier, clock: Clock
) -> None:
    _two_rivals(frontier, clock)
    frontier.configure_job("leaves", JobSpec(rate=40, parallel="unlimited", lane=Lane.HIGH))
    crawl(frontier, clock, 0.1)
    assert crawl(frontier, clock, 1)["leaves"] >= 38


def test_a_job_that_changes_its_queue_takes_its_place_among_the_rivals_there(frontier: Frontier, clock: Clock) -> None:
    _two_rivals(frontier, clock)
    start(frontier, "slow", pages(HOST, 1_000), rate=40, parallel="unlimited", lane=Lane.SLOW)
    frontier.pause("stays")
    frontier.configure_job("leaves", JobSpec(rate=40, parallel="unlimited", lane=Lane.SLOW, weight=3))
    shares = crawl(frontier, clock, 4)
    assert shares.keys() == {"leaves", "slow"}
    assert shares["leaves"] / shares["slow"] == pytest.approx(3, rel=0.15)
    frontier.resume("stays")
    assert crawl(frontier, clock, 1).keys() >= {"stays"}


def test_an_urgent_job_goes_before_its_rivals_on_every_lease(frontier: Frontier, clock: Clock) -> None:
    _two_rivals(frontier, clock)
    start(frontier, "urgent", pages(HOST, 100), rate=40, parallel="unlimited", lane=Lane.HIGH)
    assert crawl(frontier, clock, 1).keys() == {"urgent"}


def test_a_slow_host_of_a_batch_is_no_rival_in_the_high_lane(frontier: Frontier) -> None:
    """Its own lane is served last, whoever else asks the host."""
    start(frontier, "batch", pages(HOST, 50), parallel=2)
    settle(frontier, lease(frontier, 1), latency=timedelta(seconds=5))
    lease(frontier)  # it moves to the slow lane
    start(frontier, "other", pages(HOST, 50), parallel=2, lane=Lane.HIGH)
    start(frontier, "urgent", pages(HOST, 50), parallel=2, lane=Lane.HIGH)
    held = lease(frontier)
    for _ in range(10):
        settle(frontier, held)
        held = lease(frontier)
        assert {each.queue for each in held} == {"http.high"}
        assert "batch" not in jobs(held)


def test_a_rival_beyond_its_budget_is_dropped_and_counted_once(frontier: Frontier, clock: Clock) -> None:
    """The place that is looked at first belongs to the other job, and the budget ends between two leases."""
    for job in ("stays", "spends"):
        start(frontier, job, pages(HOST, 200), rate=40, parallel="unlimited", bytes=1_000 if job == "spends" else None)
    spent = 0
    while not spent:
        clock.let_pass(0.1)
        held = [each for each in lease(frontier) if each.job == "spends"]
        settle(frontier, held, received=2_000)
        spent += len(held)
    frontier.close("spends")
    ended: list[str] = []
    for _ in range(10):
        clock.let_pass(0.1)
        batch = frontier.lease(queues=ALL_QUEUES, limit=100, lease_for=MINUTE)
        assert "spends" not in jobs(batch.leases)
        ended += batch.ended
    assert ended == ["spends"]
    assert counters(frontier, "spends").queued == 0
