"""Budgets: pages, bytes and seconds, of a job and of each of its hosts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis

from shoal.core.model import ALL_QUEUES, JobState, LeaseBatch, Outcome, Request
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier
from tests.contract.frontier_calls import (
    MINUTE,
    counters,
    lease,
    pages,
    prove,
    settle,
    start,
    state,
    status_of,
    targets,
)
from tests.contract.frontier_time import Clock

A, B = "a.test", "b.test"


@pytest.fixture
def clock(client: redis.Redis, prefix: str) -> Clock:
    return Clock(client, prefix)


def batch_of(frontier: Frontier, limit: int = 100) -> LeaseBatch:
    return frontier.lease(queues=ALL_QUEUES, limit=limit, lease_for=MINUTE)


def change(frontier: Frontier, **spec: Any) -> JobState | None:
    limits: dict[str, Any] = {"rate": "unlimited", **spec}
    return frontier.configure_job("job", JobSpec(**limits))[0]


def refused(frontier: Frontier) -> dict[str, int]:
    """What was left out, and why."""
    reasons = status_of(frontier, "job").reasons
    return {name.removeprefix("filtered:"): n for name, n in reasons.items() if name.startswith("filtered:")}


# --- bytes ------------------------------------------------------------------------------------------------------------


def test_a_job_that_has_received_its_bytes_ends_with_the_next_lease(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 10), bytes=1_000)
    frontier.close("job")
    held = lease(frontier, 3)
    assert settle(frontier, held[:2], received=400).ended == ()
    assert settle(frontier, held[2:], received=400).ended == ()
    batch = batch_of(frontier)
    assert (batch.leases, batch.ended, batch.next_due) == ((), ("job",), None)
    assert state(frontier, "job") is JobState.FINISHED
    assert refused(frontier) == {"over_bytes": 7}
    assert counters(frontier, "job").dropped == 7


def test_what_is_under_way_when_the_bytes_are_used_up_is_finished(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 10), bytes=1_000)
    frontier.close("job")
    first, second = lease(frontier, 2)
    settle(frontier, [first], received=5_000)
    assert batch_of(frontier).ended == ()
    assert settle(frontier, [second], received=10).ended == ("job",)
    assert (counters(frontier, "job").done, counters(frontier, "job").received) == (2, 5_010)


def test_a_retry_beyond_the_budget_is_dropped_when_it_is_due(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", pages(A, 2), bytes=1_000)
    frontier.close("job")
    settle(frontier, lease(frontier, 1), received=5_000)
    held = lease(frontier)
    assert not held
    start(frontier, "late", pages(A, 1), bytes=1_000)
    frontier.close("late")
    settle(frontier, lease(frontier), Outcome.RETRY, reason="cut", received=5_000, delay=timedelta(seconds=30))
    assert counters(frontier, "late").delayed == 1
    clock.let_pass(31)
    assert batch_of(frontier).ended == ("late",)
    assert counters(frontier, "late").dropped == 1


def test_an_open_job_beyond_its_budget_takes_nothing_more(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 3), bytes=1_000)
    settle(frontier, lease(frontier, 1), received=5_000)
    assert batch_of(frontier).ended == ()
    report = frontier.admit("job", pages(A, 5, first=10))
    assert (report.admitted, report.over_budget) == (0, 5)
    assert refused(frontier) == {"over_bytes": 7}
    assert frontier.close("job") == (JobState.FINISHED, True)


def test_more_bytes_let_a_job_go_on(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 3), bytes=1_000)
    settle(frontier, lease(frontier, 1), received=5_000)
    batch_of(frontier)
    assert change(frontier, bytes=10_000) is JobState.RUNNING
    assert frontier.admit("job", pages(A, 2, first=10)).admitted == 2
    assert targets(lease(frontier)) == ["/10", "/11"]


# --- seconds ----------------------------------------------------------------------------------------------------------


def test_a_job_whose_time_is_up_ends_with_the_next_lease(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", pages(A, 10), seconds=60)
    frontier.close("job")
    clock.let_pass(1_000)  # its time begins with its first lease
    settle(frontier, lease(frontier, 1))
    clock.let_pass(55)
    settle(frontier, lease(frontier, 1))
    clock.let_pass(6)
    batch = batch_of(frontier)
    assert (batch.leases, batch.ended) == ((), ("job",))
    assert refused(frontier) == {"over_seconds": 8}


def test_a_job_that_waits_for_a_host_ends_when_its_time_is_up(frontier: Frontier, clock: Clock) -> None:
    """Nothing of it can be leased, yet somebody must look at it."""
    start(frontier, "job", pages(A, 10), rate=0.001, seconds=60)
    frontier.close("job")
    settle(frontier, lease(frontier))
    due = batch_of(frontier).next_due
    assert due is not None
    assert timedelta(seconds=55) < due <= MINUTE
    clock.let_pass(61)
    assert frontier.glance(ALL_QUEUES).due == ("http.batch",)
    assert batch_of(frontier).ended == ("job",)


def test_pauses_do_not_count(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", pages(A, 10), seconds=60)
    settle(frontier, lease(frontier, 1))
    clock.let_pass(20)
    frontier.pause("job")
    clock.let_pass(500)
    frontier.resume("job")
    assert settle(frontier, lease(frontier, 1)).late == 0
    assert status_of(frontier, "job").rested_ms == pytest.approx(500_000, abs=5_000)
    clock.let_pass(35)
    assert len(lease(frontier, 1)) == 1
    clock.let_pass(6)
    assert not lease(frontier)
    assert refused(frontier) == {"over_seconds": 7}


def test_a_pause_before_the_first_lease_counts_for_nothing(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", pages(A, 10), seconds=60)
    frontier.pause("job")
    clock.let_pass(500)
    frontier.resume("job")
    assert lease(frontier, 1)
    clock.let_pass(61)
    assert not lease(frontier)


@pytest.mark.parametrize("paused", [False, True])
def test_more_time_lets_a_job_go_on(frontier: Frontier, clock: Clock, paused: bool) -> None:
    start(frontier, "job", pages(A, 10), seconds=60)
    settle(frontier, lease(frontier, 1))
    if paused:
        frontier.pause("job")
        clock.let_pass(100)
    change(frontier, seconds=120)
    if paused:
        clock.let_pass(100)
        frontier.resume("job")
    clock.let_pass(110)
    assert len(lease(frontier, 1)) == 1
    clock.let_pass(11)
    assert not lease(frontier)


def test_a_job_can_be_given_time_without_end(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", pages(A, 10), seconds=60)
    lease(frontier, 1)
    change(frontier)
    clock.let_pass(3_000)
    lease(frontier)  # the host kept silent: it moves to the slow lane
    assert lease(frontier)


# --- pages of a host --------------------------------------------------------------------------------------------------


def test_a_host_gets_no_more_pages_than_its_part(frontier: Frontier) -> None:
    start(frontier, "job", [], host_pages=5)
    report = frontier.admit("job", [*pages(A, 8), *pages(B, 3)])
    assert (report.admitted, report.over_budget) == (8, 3)
    assert frontier.admit("job", [*pages(A, 2, first=10), *pages(B, 4, first=10)]).admitted == 2
    assert refused(frontier) == {"over_host_budget": 7}
    assert counters(frontier, "job").filtered == 7


def test_a_page_that_came_to_nothing_frees_its_part_of_the_hosts_budget(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 4), host_pages=4)
    done, dead, robots, retried = lease(frontier)
    settle(frontier, [done])
    settle(frontier, [dead], Outcome.DEAD, reason="http_404")
    settle(frontier, [robots], Outcome.ROBOTS, reason="robots")
    settle(frontier, [retried], Outcome.RETRY, reason="http_500")
    assert frontier.admit("job", pages(A, 5, first=10)).admitted == 2


def test_a_redirect_takes_no_page_of_its_own_from_a_hosts_budget(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 1), host_pages=1)
    (held,) = lease(frontier)
    target = Request(Url("https", A, "/target"), hops=1)
    assert frontier.admit("job", [target, *pages(A, 1, first=5)]).admitted == 1
    settle(frontier, [held], reason="redirect")
    assert targets(lease(frontier)) == ["/target"]
    assert frontier.admit("job", pages(A, 1, first=6)).admitted == 0


def test_a_replayed_page_counts_for_its_host_again(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 2), host_pages=2)
    held = lease(frontier)
    settle(frontier, held, Outcome.DEAD, reason="http_500")
    frontier.replay("job", "token", [(held[0].request, "http_500")])
    assert frontier.admit("job", pages(A, 5, first=10)).admitted == 1


def test_more_pages_of_a_host_let_a_job_go_on(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 2), host_pages=2)
    assert frontier.admit("job", pages(A, 2, first=10)).admitted == 0
    change(frontier, host_pages=3)
    assert frontier.admit("job", pages(A, 2, first=20)).admitted == 1


# --- bytes and seconds of a host --------------------------------------------------------------------------------------


def test_a_host_that_has_sent_its_bytes_is_asked_no_more(frontier: Frontier) -> None:
    prove(frontier, A, B)
    start(frontier, "job", [*pages(A, 5), *pages(B, 5)], host_bytes=1_000)
    held = lease(frontier, 2)
    assert {each.request.url.host for each in held} == {A, B}
    settle(frontier, [each for each in held if each.request.url.host == A], received=1_000)
    assert {each.request.url.host for each in lease(frontier)} == {B}
    assert refused(frontier) == {"over_host_bytes": 4}
    report = frontier.admit("job", [*pages(A, 2, first=10), *pages(B, 2, first=10)])
    assert (report.admitted, report.over_budget) == (2, 2)
    assert refused(frontier) == {"over_host_bytes": 6}


def test_a_host_whose_time_is_up_is_asked_no_more(frontier: Frontier, clock: Clock) -> None:
    start(frontier, "job", [*pages(A, 5)], host_seconds=60)
    settle(frontier, lease(frontier, 1))
    clock.let_pass(50)
    frontier.admit("job", pages(B, 3))
    settle(frontier, [each for _ in range(2) for each in lease(frontier, 2)])
    clock.let_pass(11)
    assert {each.request.url.host for each in lease(frontier)} == {B}
    assert "over_host_seconds" in refused(frontier)
    assert frontier.admit("job", [*pages(A, 2, first=10), *pages(B, 2, first=10)]).admitted == 2


@pytest.mark.parametrize("budget", [{"host_bytes": 1_000}, {"host_seconds": 60}])
def test_a_job_whose_last_host_is_spent_ends_with_the_lease(
    frontier: Frontier, clock: Clock, budget: dict[str, int]
) -> None:
    start(frontier, "job", pages(A, 5), **budget)
    frontier.close("job")
    settle(frontier, lease(frontier, 1), received=5_000)
    clock.let_pass(61)
    batch = batch_of(frontier)
    assert (batch.leases, batch.ended) == ((), ("job",))
    assert counters(frontier, "job").dropped == 4
    assert state(frontier, "job") is JobState.FINISHED


@pytest.mark.parametrize("budget", ["host_bytes", "host_seconds"])
def test_more_for_a_host_lets_a_job_go_on(frontier: Frontier, clock: Clock, budget: str) -> None:
    start(frontier, "job", pages(A, 5), **{budget: 100})
    settle(frontier, lease(frontier, 1), received=150)
    clock.let_pass(101)
    change(frontier, **{budget: 1_000})
    assert len(lease(frontier)) == 4


# --- several at once --------------------------------------------------------------------------------------------------


def test_the_pages_of_a_job_and_of_its_hosts_hold_together(frontier: Frontier) -> None:
    start(frontier, "job", [], pages=6, host_pages=4)
    report = frontier.admit("job", [*pages(A, 6), *pages(B, 6)])
    assert (report.admitted, report.over_budget) == (6, 6)
    assert refused(frontier) == {"over_host_budget": 2, "over_budget": 4}


def test_a_lease_names_every_job_that_it_ended_and_serves_the_rest(frontier: Frontier) -> None:
    for job in ("one", "two"):
        start(frontier, job, pages(A, 3), bytes=100)
        frontier.close(job)
        settle(frontier, [each for each in lease(frontier, 1) if each.job == job], received=100)
    start(frontier, "rest", pages(B, 2))
    batch = batch_of(frontier)
    assert sorted(batch.ended) == ["one", "two"]
    assert [each.job for each in batch.leases] == ["rest", "rest"]


def test_a_job_that_spent_its_budget_while_it_was_paused_ends_after_it_goes_on(frontier: Frontier) -> None:
    start(frontier, "job", pages(A, 3), bytes=100)
    frontier.close("job")
    held = lease(frontier, 1)
    frontier.pause("job")
    settle(frontier, held, received=500)
    assert batch_of(frontier).ended == ()
    frontier.resume("job")
    assert batch_of(frontier).ended == ("job",)
