"""What the frontier promises, one behaviour at a time, on each server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from shoal.core.job_status import Counters
from shoal.core.model import ALL_QUEUES, JobState, Lane, Lease, Level, Outcome, Rejected, Request, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from tests.contract.frontier_calls import (
    MINUTE,
    ONE_A_MINUTE,
    SOON,
    TICK_S,
    JobClock,
    counters,
    jobs,
    lease,
    lease_soon,
    let_pass,
    pages,
    prove,
    reap_soon,
    settle,
    start,
    state,
    status_of,
    targets,
)
from tests.contract.keyspace import clear, key_names, read_keys
from tests.waiting import wait_until

# --- leases -----------------------------------------------------------------------------------------------------------


def test_expired_lease_returns_to_its_host_queue_with_one_more_loss(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3))
    (lost,) = lease(frontier, 1, SOON)
    assert lost.request.losses == 0
    assert reap_soon(frontier) == (1, ())
    assert counters(frontier, "job").lost == 1
    again = lease(frontier)
    assert targets(again) == ["/0", "/1", "/2"]
    assert [lease.request.losses for lease in again] == [1, 0, 0]


def test_lease_under_way_is_not_reaped(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    lease(frontier)
    assert frontier.reap() == (0, ())


def test_late_worker_cannot_settle_what_another_has_been_given(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    first = lease(frontier, 1, SOON)
    reap_soon(frontier)
    second = lease(frontier)
    assert targets(second) == targets(first)
    assert settle(frontier, first).late == 1
    assert counters(frontier, "job").leased == 1
    assert settle(frontier, second).late == 0
    assert counters(frontier, "job").done == 1


def test_lease_from_before_a_flush_fits_no_lease_of_today(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", pages("a.test", 2))
    old = lease(frontier)
    clear(client, prefix)
    let_pass(timedelta(milliseconds=2))
    start(frontier, "job", pages("b.test", 2))
    lease(frontier)
    assert settle(frontier, old).late == 2
    assert counters(frontier, "job").leased == 2


def test_renewed_lease_lives_on_and_a_lost_one_is_named(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    (kept,) = lease(frontier, 1, SOON)
    assert frontier.renew([kept.group], MINUTE) == frozenset()
    (lost,) = lease(frontier, 1, SOON)
    assert reap_soon(frontier)[0] == 1
    assert frontier.renew([kept.group, lost.group], MINUTE) == {lost.group}
    assert settle(frontier, [kept]).late == 0


def test_release_returns_requests_in_order(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 5))
    held = lease(frontier, 4)
    assert frontier.release(held[1:]).late == 0
    again = lease(frontier)
    assert targets(again) == ["/1", "/2", "/3", "/4"]
    assert {lease.request.losses for lease in again} == {0}


def test_repeated_settle_is_late_and_harmless(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    leases = lease(frontier)
    assert settle(frontier, leases[:1]).late == 0
    before = counters(frontier, "job")
    assert settle(frontier, leases[:1], Outcome.DEAD).late == 1
    assert counters(frontier, "job") == before


def test_lease_named_twice_in_one_call_counts_once(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3))
    one, two, three = lease(frontier)
    report = frontier.settle([Settlement(one, Outcome.DONE), Settlement(one, Outcome.DEAD)])
    assert report.late == 1
    assert frontier.release([two, two]).late == 1
    assert counters(frontier, "job") == Counters(seen=3, admitted=3, queued=1, leased=1, done=1)
    settle(frontier, [three])
    assert targets(lease(frontier)) == ["/1"]


# --- politeness -------------------------------------------------------------------------------------------------------


def test_two_jobs_share_the_rate_of_a_host(frontier: Frontier) -> None:
    for job in ("one", "two"):
        start(frontier, job, pages("a.test", 5), rate=ONE_A_MINUTE, parallel="unlimited")
    assert len(lease(frontier)) == 1
    batch = frontier.lease(queues=ALL_QUEUES, limit=100, lease_for=MINUTE)
    assert not batch.leases
    assert batch.next_due is not None
    assert timedelta() < batch.next_due <= MINUTE


def test_http_and_https_of_a_host_share_its_rate(frontier: Frontier) -> None:
    both = [Request(Url(scheme, "a.test", "/")) for scheme in ("http", "https")]
    start(frontier, "job", both, rate=ONE_A_MINUTE, parallel="unlimited")
    assert len(lease(frontier)) == 1


def test_rate_is_kept_over_time(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 100), rate=100, parallel="unlimited")
    began = time.monotonic()
    leased = 0
    while leased < 20:
        leased += len(lease(frontier))
        assert leased <= 1 + 10 + 100 * (time.monotonic() - began) + 1


def test_job_without_a_rate_does_not_free_the_slots_of_its_host(frontier: Frontier) -> None:
    start(frontier, "slow", pages("a.test", 1), rate=ONE_A_MINUTE, parallel="unlimited")
    assert jobs(lease(frontier)) == {"slow": 1}
    start(frontier, "free", pages("a.test", 1))
    assert jobs(lease(frontier)) == {"free": 1}
    start(frontier, "late", pages("a.test", 1), rate=ONE_A_MINUTE, parallel="unlimited")
    assert not lease(frontier)


def test_two_jobs_share_the_parallel_cap_of_a_host(frontier: Frontier) -> None:
    for job in ("one", "two"):
        start(frontier, job, pages("a.test", 5), parallel=2)
    held = lease(frontier)
    assert len(held) == 2
    assert not lease(frontier)
    settle(frontier, held[:1])
    assert len(lease(frontier)) == 1


def _settles(frontier: Frontier, held: Sequence[Lease]) -> None:
    settle(frontier, held)


def _settles_as_retry(frontier: Frontier, held: Sequence[Lease]) -> None:
    settle(frontier, held, Outcome.RETRY, delay=MINUTE)


def _cancels_and_settles(frontier: Frontier, held: Sequence[Lease]) -> None:
    frontier.cancel(held[0].job)
    settle(frontier, held)


def _pauses_and_releases(frontier: Frontier, held: Sequence[Lease]) -> None:
    frontier.pause(held[0].job)
    frontier.release(held)


def _pauses_and_dies(frontier: Frontier, held: Sequence[Lease]) -> None:
    frontier.pause(held[0].job)
    frontier.renew([held[0].group], SOON)
    reap_soon(frontier)


@pytest.mark.parametrize(
    "give_back", [_settles, _settles_as_retry, _cancels_and_settles, _pauses_and_releases, _pauses_and_dies]
)
def test_whatever_frees_a_host_wakes_the_job_that_waits_for_it(
    frontier: Frontier, give_back: Callable[[Frontier, Sequence[Lease]], None]
) -> None:
    start(frontier, "one", pages("a.test", 1), parallel=1)
    held = lease(frontier)
    start(frontier, "two", pages("a.test", 1), parallel=1)
    assert not lease(frontier)
    assert frontier.glance(ALL_QUEUES).due == ()
    give_back(frontier, held)
    assert jobs(lease(frontier)) == {"two": 1}


def test_hold_keeps_the_host_quiet_for_every_job(frontier: Frontier) -> None:
    hold = timedelta(milliseconds=300)
    start(frontier, "one", pages("a.test", 2))
    held = lease(frontier, 1)
    began = time.monotonic()
    settle(frontier, held, Outcome.RETRY, hold_host=hold)
    start(frontier, "two", [*pages("a.test", 1), *pages("b.test", 1)])
    assert [held.request.url.host for held in lease(frontier)] == ["b.test"]
    assert jobs(lease_soon(frontier)) == {"one": 2, "two": 1}
    assert time.monotonic() - began >= hold.total_seconds() - TICK_S


def test_short_hold_does_not_cut_a_longer_one(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3))
    one, two, _ = lease(frontier)
    settle(frontier, [one], hold_host=MINUTE)
    settle(frontier, [two], hold_host=SOON)
    frontier.admit("job", pages("a.test", 1, first=9))
    batch = frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=MINUTE)
    assert batch.next_due is not None
    assert batch.next_due > timedelta(seconds=50)


# --- order and shares -------------------------------------------------------------------------------------------------


def test_high_lane_goes_first_on_every_lease(frontier: Frontier) -> None:
    start(frontier, "batch", pages("a.test", 50))
    assert jobs(lease(frontier, 5)) == {"batch": 5}
    for first in (0, 3):
        frontier.create("urgent", JobSpec(rate="unlimited", lane=Lane.HIGH))
        frontier.admit("urgent", pages("b.test", 3, first=first))
        assert jobs(lease(frontier, 5)) == {"urgent": 3, "batch": 2}


def test_levels_order_the_queue_of_a_host(frontier: Frontier) -> None:
    last, normal, first = (pages("a.test", 2, first=10 * level, level=level) for level in reversed(Level))
    start(frontier, "job", [*last, *normal, *first])
    assert targets(lease(frontier)) == ["/0", "/1", "/10", "/11", "/20", "/21"]


def test_shares_follow_weights(frontier: Frontier) -> None:
    for job, weight in (("light", 1), ("heavy", 3)):
        start(frontier, job, [page for n in range(20) for page in pages(f"{job}{n}.test", 20)], weight=weight)
    shares = Counter[str]()
    for _ in range(20):
        shares += jobs(lease(frontier, 20))
    assert shares.total() == 400
    assert shares["heavy"] == pytest.approx(300, abs=16)


def test_late_small_job_gets_its_share_at_once(frontier: Frontier) -> None:
    start(frontier, "large", [page for n in range(500) for page in pages(f"h{n}.test", 4)])
    for _ in range(5):
        assert jobs(lease(frontier)) == {"large": 100}
    start(frontier, "small", [page for n in range(30) for page in pages(f"s{n}.test", 1)])
    assert jobs(lease(frontier)) == {"large": 70, "small": 30}


def test_idle_job_does_not_save_up_its_share(frontier: Frontier) -> None:
    prove(frontier, "idle.test", "busy.test")
    start(frontier, "idle", pages("idle.test", 1))
    assert jobs(lease(frontier)) == {"idle": 1}
    start(frontier, "busy", pages("busy.test", 2_000))
    for _ in range(20):
        assert jobs(lease(frontier, 50)) == {"busy": 50}
    frontier.admit("idle", pages("idle.test", 400, first=1))
    shares = Counter[str]()
    for _ in range(8):
        shares += jobs(lease(frontier, 50))
    assert shares["busy"] == pytest.approx(200, abs=50)


def test_hosts_of_a_job_take_turns(frontier: Frontier) -> None:
    start(frontier, "job", [*pages("a.test", 50), *pages("b.test", 50)])
    assert Counter(held.request.url.host for held in lease(frontier, 20)) == {"a.test": 10, "b.test": 10}


def test_retry_becomes_due_after_its_delay(frontier: Frontier) -> None:
    delay = timedelta(milliseconds=60)
    start(frontier, "job", pages("a.test", 1))
    held = lease(frontier)
    began = time.monotonic()
    settle(frontier, held, Outcome.RETRY, delay=delay, reason="http_500")
    assert counters(frontier, "job").delayed == 1
    (again,) = lease_soon(frontier)
    assert time.monotonic() - began >= delay.total_seconds() - TICK_S
    assert (again.request.attempt, again.request.level) == (1, Level.FIRST)
    assert counters(frontier, "job").retries == 1


def test_retry_is_not_taken_up_early_by_a_job_that_has_other_work(frontier: Frontier) -> None:
    delay = timedelta(milliseconds=40)
    start(frontier, "job", pages("a.test", 1_000))
    held = lease(frontier, 1)
    began = time.monotonic()
    settle(frontier, held, Outcome.RETRY, delay=delay)
    wait_until(lambda: targets(lease(frontier, 1)) == ["/0"])
    assert time.monotonic() - began >= delay.total_seconds() - TICK_S


# --- a job's life -----------------------------------------------------------------------------------------------------


def test_url_is_admitted_once(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    report = frontier.admit("job", [*pages("a.test", 3), Rejected(Url("https", "b.test", "/"), "other_host")], 4)
    assert (report.admitted, report.duplicates, report.filtered) == (1, 2 + 4, 1)
    status = frontier.status("job")
    assert status is not None
    assert status.reasons == {"filtered:other_host": 1}


def test_budget_stops_admission_and_is_freed_by_a_page_that_dies(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2), pages=2)
    assert frontier.admit("job", pages("a.test", 2, first=2)).over_budget == 2
    one, two = lease(frontier)
    settle(frontier, [one], Outcome.DONE)
    assert frontier.admit("job", pages("a.test", 1, first=4)).over_budget == 1
    settle(frontier, [two], Outcome.DEAD)
    report = frontier.admit("job", pages("a.test", 2, first=5))
    assert (report.admitted, report.over_budget) == (1, 1)


def test_paused_job_hands_out_nothing_until_it_is_resumed(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    assert frontier.pause("job") is JobState.PAUSED
    frontier.admit("job", pages("b.test", 1))
    assert not lease(frontier)
    assert frontier.resume("job") is JobState.RUNNING
    assert len(lease(frontier)) == 3


def test_end_of_a_job_is_reported_exactly_once(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    one, two = lease(frontier)
    assert frontier.close("job") == (JobState.RUNNING, False)
    assert settle(frontier, [one]).ended == ()
    assert settle(frontier, [two]).ended == ("job",)
    assert settle(frontier, [two]).ended == ()
    assert frontier.close("job") == (JobState.FINISHED, False)
    assert frontier.cancel("job") == (JobState.FINISHED, False)


def test_open_job_does_not_end_when_it_runs_dry(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    assert settle(frontier, lease(frontier)).ended == ()
    assert frontier.close("job") == (JobState.FINISHED, True)


def test_job_does_not_end_while_a_retry_waits(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    frontier.close("job")
    assert settle(frontier, lease(frontier), Outcome.RETRY, delay=SOON).ended == ()
    assert settle(frontier, lease_soon(frontier), Outcome.DEAD).ended == ("job",)


def test_links_are_let_in_some_at_a_time_so_that_nobody_waits_for_all(
    frontier: Frontier, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.frontier.frontier.FOUND_AT_ONCE", 10)
    start(frontier, "job", pages("a.test", 1))
    before = _scripts_run(client)
    report = frontier.admit("job", pages("a.test", 25), 7)
    assert _scripts_run(client) - before == 3
    assert (report.admitted, report.duplicates) == (24, 8)
    assert targets(lease(frontier)) == [f"/{number}" for number in range(25)]


def _scripts_run(client: redis.Redis) -> int:
    return cast(Any, client).info("commandstats")["cmdstat_evalsha"]["calls"]


def test_ended_job_admits_nothing(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    frontier.cancel("job")
    report = frontier.admit("job", pages("a.test", 2, first=1))
    assert (report.state, report.admitted) == (JobState.CANCELLED, 0)
    assert counters(frontier, "job").seen == 1


def test_unknown_job_admits_nothing(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    report = frontier.admit("job", pages("a.test", 1))
    assert (report.state, report.admitted) == (None, 0)
    assert key_names(client, prefix) == []


@pytest.mark.parametrize("outcome", Outcome)
def test_cancelled_job_ends_with_its_last_settle(frontier: Frontier, outcome: Outcome) -> None:
    start(frontier, "job", pages("a.test", 5))
    one, two = lease(frontier, 2)
    assert frontier.cancel("job") == (JobState.CANCELLED, False)
    assert counters(frontier, "job").dropped == 3
    assert settle(frontier, [one], outcome).ended == ()
    assert settle(frontier, [two], outcome).ended == ("job",)
    assert counters(frontier, "job").pending == 0


def test_cancel_drops_retries_that_wait(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", pages("a.test", 2))
    settle(frontier, lease(frontier, 1), Outcome.RETRY)
    assert frontier.cancel("job") == (JobState.CANCELLED, True)
    assert counters(frontier, "job").dropped == 2
    assert {key.family.name for key in read_keys(client, prefix)}.isdisjoint({"queue", "ready", "delayed", "due"})


def test_cancelled_job_ends_with_its_last_release_or_loss(frontier: Frontier) -> None:
    for job in ("released", "lost"):
        start(frontier, job, pages("a.test", 2))
        held = lease(frontier, 1, SOON)
        frontier.cancel(job)
        ended = frontier.release(held).ended if job == "released" else reap_soon(frontier)[1]
        assert ended == (job,)
        assert counters(frontier, job).dropped == 2


def test_job_that_is_not_over_is_not_forgotten(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    assert not frontier.forget("job")
    assert state(frontier, "job") is JobState.RUNNING


def test_forget_leaves_no_keys(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", [*pages("a.test", 1_000), *pages("b.test", 10)], parallel=5)
    held = lease(frontier)
    settle(frontier, held[:3], Outcome.RETRY, reason="http_500", latency=timedelta(seconds=1))
    settle(frontier, held[3:5], Outcome.DEAD, reason="http_404")
    frontier.cancel("job")
    settle(frontier, held[5:])
    assert frontier.forget("job")
    assert frontier.status("job") is None
    left = read_keys(client, prefix)
    lasting = {"sequence", "depth", "stats", "events", "hosts", "turn", "tenants"}
    assert {key.family.name for key in left if key.ttl_ms > 0} == {"host"}
    assert {key.family.name for key in left} == {"host"} | lasting
    assert [set(key.value.values()) for key in left if key.family.name == "depth"] == [{"0"}]


def test_forgotten_name_can_be_used_again(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    assert not frontier.create("job", JobSpec())
    frontier.cancel("job")
    frontier.forget("job")
    start(frontier, "job", pages("a.test", 1))
    assert len(lease(frontier)) == 1


def test_jobs_are_known_from_their_creation_until_they_are_forgotten(frontier: Frontier) -> None:
    assert frontier.known_jobs() == []
    start(frontier, "two", pages("a.test", 1))
    frontier.create("one", JobSpec())
    assert frontier.known_jobs() == ["one", "two"]
    frontier.cancel("two")
    assert frontier.known_jobs() == ["one", "two"]
    frontier.forget("two")
    assert frontier.known_jobs() == ["one"]


def test_jobs_that_ended_are_named_until_they_are_forgotten(
    frontier: Frontier, client: redis.Redis, prefix: str
) -> None:
    for job in ("running", "two", "one"):
        start(frontier, job, pages("a.test", 1))
    for job in ("two", "one"):
        frontier.cancel(job)
    wait_until(lambda: frontier.ended_jobs(timedelta()) == ["one", "two"])
    assert frontier.ended_jobs(MINUTE) == []
    JobClock(client, prefix, "two").set_back(ended=MINUTE + timedelta(seconds=1))
    assert frontier.ended_jobs(MINUTE) == ["two"]
    frontier.forget("two")
    assert frontier.ended_jobs(MINUTE) == []
    assert frontier.ended_jobs(timedelta()) == ["one"]


def test_several_jobs_are_looked_at_in_the_order_asked(frontier: Frontier) -> None:
    start(frontier, "one", pages("a.test", 1))
    start(frontier, "two", pages("b.test", 2))
    settle(frontier, lease(frontier, 1), Outcome.DEAD, reason="gone", latency=timedelta(milliseconds=7))
    found = frontier.statuses(["two", "none", "one"])
    assert [status and (status.job, status.counters.admitted) for status in found] == [("two", 2), None, ("one", 1)]
    assert [status and replace(status, now_ms=0) for status in found] == [
        status and replace(status, now_ms=0) for status in map(frontier.status, ("two", "none", "one"))
    ]
    assert frontier.statuses([]) == []


def test_job_is_open_until_it_is_closed(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    assert status_of(frontier, "job").open
    frontier.close("job")
    assert not status_of(frontier, "job").open


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(client: redis.Redis, prefix: str) -> JobClock:
    return JobClock(client, prefix)


def about(pages_a_second: float) -> object:
    return pytest.approx(pages_a_second, rel=0.2)


def test_rate_counts_from_the_first_lease_until_five_seconds_have_passed(frontier: Frontier, clock: JobClock) -> None:
    start(frontier, "job", pages("a.test", 100))
    assert status_of(frontier, "job").rate == 0
    held = lease(frontier, 20)
    clock.set_back(started=timedelta(seconds=4))
    settle(frontier, held[:12])
    assert status_of(frontier, "job").rate == about(12 / 4)


def test_rate_is_taken_over_the_last_five_to_ten_seconds(frontier: Frontier, clock: JobClock) -> None:
    start(frontier, "job", pages("a.test", 100))
    held = lease(frontier, 50)
    clock.set_back(started=timedelta(seconds=6))
    settle(frontier, held[:30])
    assert status_of(frontier, "job").rate == about(30 / 6)
    clock.set_back(since=timedelta(seconds=10), mark=timedelta(seconds=4))
    settle(frontier, held[30:40])
    assert status_of(frontier, "job").rate == about(40 / 10)
    clock.set_back(since=timedelta(seconds=11), mark=timedelta(seconds=5))
    settle(frontier, held[40:42])
    assert status_of(frontier, "job").rate == about(12 / 5)


def test_only_pages_that_are_done_make_a_rate(frontier: Frontier, clock: JobClock) -> None:
    start(frontier, "job", pages("a.test", 10))
    held = lease(frontier)
    clock.set_back(started=timedelta(seconds=2))
    settle(frontier, held[:4], Outcome.DEAD)
    settle(frontier, held[4:8], Outcome.RETRY)
    assert status_of(frontier, "job").rate == 0
    settle(frontier, held[8:])
    assert status_of(frontier, "job").rate == about(2 / 2)


def test_job_that_has_just_begun_has_no_boundless_rate(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 10))
    settle(frontier, lease(frontier, 8))
    assert 0 < status_of(frontier, "job").rate <= 8


def test_time_to_the_end_follows_from_the_rate_while_the_job_runs(frontier: Frontier, clock: JobClock) -> None:
    start(frontier, "job", pages("a.test", 30))
    assert status_of(frontier, "job").eta is None
    held = lease(frontier, 25)
    clock.set_back(started=timedelta(seconds=2))
    settle(frontier, held[:20])
    eta = status_of(frontier, "job").eta
    assert eta is not None
    assert eta.total_seconds() == pytest.approx(10 / (20 / 2), rel=0.2)
    frontier.pause("job")
    assert status_of(frontier, "job").eta is None


def test_ended_job_has_neither_rate_nor_time_to_the_end(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 5))
    frontier.close("job")
    settle(frontier, lease(frontier))
    status = status_of(frontier, "job")
    assert (status.state, status.rate, status.eta) == (JobState.FINISHED, 0, None)


# --- API keys ---------------------------------------------------------------------------------------------------------


def test_api_key_may_ask_a_burst_at_once_and_then_at_its_rate(frontier: Frontier) -> None:
    assert [frontier.throttle("key", ONE_A_MINUTE, 3) for _ in range(3)] == [timedelta()] * 3
    wait = frontier.throttle("key", ONE_A_MINUTE, 3)
    assert timedelta(seconds=55) < wait <= MINUTE
    assert frontier.throttle("other", ONE_A_MINUTE, 3) == timedelta()


def test_refused_request_of_an_api_key_costs_nothing(frontier: Frontier) -> None:
    frontier.throttle("key", ONE_A_MINUTE, 1)
    assert all(timedelta() < frontier.throttle("key", ONE_A_MINUTE, 1) <= MINUTE for _ in range(20))


def test_api_key_keeps_its_rate_over_time(frontier: Frontier) -> None:
    rate, burst, passed = 100.0, 5.0, 0
    began = time.monotonic()
    while passed < 15:
        passed += frontier.throttle("key", rate, burst) == timedelta()
        assert passed <= burst + rate * (time.monotonic() - began) + 1


def test_api_key_may_ask_again_after_the_time_that_it_was_told(frontier: Frontier) -> None:
    assert frontier.throttle("key", 4, 1) == timedelta()
    wait = frontier.throttle("key", 4, 1)
    assert timedelta() < wait <= timedelta(milliseconds=250)
    let_pass(wait)
    assert frontier.throttle("key", 4, 1) == timedelta()


def test_api_key_may_always_ask_once(frontier: Frontier) -> None:
    assert frontier.throttle("key", ONE_A_MINUTE, 0) == timedelta()
    assert frontier.throttle("key", ONE_A_MINUTE, 0) > timedelta()


def test_api_key_that_rests_leaves_nothing_behind(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    frontier.throttle("key", 10, 1)
    (stored,) = read_keys(client, prefix)
    assert stored.family.name == "limit"
    assert 0 < stored.ttl_ms <= 1_101


# --- doorbells and the connection -------------------------------------------------------------------------------------


def test_one_ring_is_enough_until_it_is_answered(frontier: Frontier) -> None:
    assert [frontier.claim_ring("http.high") for _ in range(2)] == [True, False]
    frontier.answer_ring("http.high")
    assert frontier.claim_ring("http.high")


def test_scripts_are_loaded_again_when_the_server_has_lost_them(frontier: Frontier, client: redis.Redis) -> None:
    start(frontier, "job", pages("a.test", 1))
    client.script_flush()
    assert len(lease(frontier)) == 1


def test_refused_connection_is_named_as_such(tmp_path: Path) -> None:
    frontier = Frontier.at(f"unix://{tmp_path / 'nobody'}")
    operations: list[Callable[[], object]] = [
        lambda: lease(frontier),
        lambda: frontier.status("job"),
        frontier.known_jobs,
        lambda: frontier.ended_jobs(MINUTE),
        frontier.crew.count_slice,
        lambda: frontier.crew.depart("worker"),
        lambda: frontier.claim_ring("http.high"),
        lambda: frontier.answer_ring("http.high"),
    ]
    for operation in operations:
        with pytest.raises(RedisUnavailable, match="did not answer"):
            operation()


def test_a_server_that_refuses_to_write_is_unavailable_and_not_a_fault_of_ours(
    client: redis.Redis, frontier: Frontier
) -> None:
    """What a full disk or a lost replica does to Redis; here it is asked for a replica that it does not have."""
    client.config_set("min-replicas-to-write", 1)  # pyright: ignore[reportUnknownMemberType]
    try:
        with pytest.raises(RedisUnavailable, match="Redis refuses to work"):
            frontier.create("refused", JobSpec())
    finally:
        client.config_set("min-replicas-to-write", 0)  # pyright: ignore[reportUnknownMemberType]
    assert frontier.status("refused") is None
