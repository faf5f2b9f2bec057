"""What people change while jobs run: a job's limits and lane, and how a host is treated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
import redis

from shoal.core.fleet import QueueDepth
from shoal.core.job_status import JobStatus
from shoal.core.model import ALL_QUEUES, AdmitReport, JobState, Lane, Level, Outcome, Request
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.watch import Watch
from tests.contract.frontier_calls import (
    MINUTE,
    ONE_A_MINUTE,
    SOON,
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
    targets,
)
from tests.contract.keyspace import StoredKey, key_names, read_keys

DAY_MS = 86_400_000
HIGH, BATCH, SLOW = ALL_QUEUES[::2]


def change_job(frontier: Frontier, job: str, **spec: Any) -> JobState | None:
    """A job without limits, unless they are given."""
    limits: dict[str, Any] = {"rate": "unlimited", **spec}
    return frontier.configure_job(job, JobSpec(**limits))[0]


def only_key(client: redis.Redis, prefix: str, family: str) -> StoredKey:
    (found,) = [key for key in read_keys(client, prefix) if key.family.name == family]
    return found


# --- a job's limits ---------------------------------------------------------------------------------------------------


def test_a_smaller_page_budget_drops_what_came_last_and_may_end_the_job(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 10))
    frontier.close("job")
    held = lease(frontier, 3)
    assert frontier.configure_job("job", JobSpec(rate="unlimited", pages=5)) == (JobState.RUNNING, False)
    status = state_of(frontier)
    assert (status.counters.queued, status.counters.dropped, status.reasons["filtered:over_budget"]) == (2, 5, 5)
    assert status.counters.reconciles
    settle(frontier, held, Outcome.DONE)
    assert frontier.configure_job("job", JobSpec(rate="unlimited", pages=1)) == (JobState.FINISHED, True)
    assert state_of(frontier).counters.reconciles


def state_of(frontier: Frontier) -> JobStatus:
    status = frontier.status("job")
    assert status is not None
    return status


def test_new_rate_of_a_job_holds_from_the_next_lease(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 10))
    assert len(lease(frontier, 3)) == 3
    assert change_job(frontier, "job", rate=ONE_A_MINUTE, parallel="unlimited") is JobState.RUNNING
    assert len(lease(frontier)) == 1
    assert not lease(frontier)


def test_lower_cap_of_a_job_counts_the_requests_under_way(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 10), parallel=4)
    held = lease(frontier)
    change_job(frontier, "job", parallel=2)
    settle(frontier, held[:2])
    assert not lease(frontier)
    settle(frontier, held[2:3])
    assert len(lease(frontier)) == 1


def test_higher_cap_of_a_job_holds_when_the_next_request_comes_back(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 10), parallel=1)
    held = lease(frontier)
    change_job(frontier, "job", parallel=5)
    settle(frontier, held)
    assert len(lease(frontier)) == 5


def test_new_budget_of_a_job_counts_what_it_has_admitted(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2), pages=2)
    assert frontier.admit("job", pages("a.test", 1, first=2)).over_budget == 1
    change_job(frontier, "job", pages=4)
    report = frontier.admit("job", pages("a.test", 3, first=3))
    assert (report.admitted, report.over_budget) == (2, 1)
    change_job(frontier, "job", pages=1)
    assert frontier.admit("job", pages("a.test", 1, first=6)).over_budget == 1
    change_job(frontier, "job")
    assert frontier.admit("job", pages("a.test", 50, first=7)).admitted == 50


def test_new_weight_of_a_job_changes_its_share(frontier: Frontier) -> None:
    for job in ("one", "two"):
        start(frontier, job, [page for n in range(20) for page in pages(f"{job}{n}.test", 20)])
    lease(frontier, 20)
    change_job(frontier, "two", weight=3)
    shares = Counter[str]()
    for _ in range(18):
        shares += jobs(lease(frontier, 20))
    assert shares["two"] == pytest.approx(270, abs=20)


# --- a job's lane -----------------------------------------------------------------------------------------------------


def test_job_moves_to_another_lane_with_all_that_it_has(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 6))
    start(frontier, "other", pages("b.test", 2))
    held = [held for held in lease(frontier, 100) if held.job == "job"]
    settle(frontier, held[:2], Outcome.RETRY, delay=MINUTE)
    frontier.release(held[2:3])
    before = [QueueDepth(HIGH, 0, 0, 0, 0), QueueDepth(BATCH, 1, 2, 3 + 2, 1), QueueDepth(SLOW, 0, 0, 0, 0)]
    assert watch.queues()[::2] == before
    change_job(frontier, "job", lane=Lane.HIGH)
    after = [QueueDepth(HIGH, 1, 2, 3, 1), QueueDepth(BATCH, 0, 0, 2, 0), QueueDepth(SLOW, 0, 0, 0, 0)]
    assert watch.queues()[::2] == after
    assert not frontier.lease(queues=[BATCH, SLOW], limit=100, lease_for=MINUTE).leases
    assert frontier.glance(ALL_QUEUES).due == (HIGH,)
    again = frontier.lease(queues=[HIGH], limit=100, lease_for=MINUTE).leases
    assert targets(again) == targets(held[2:3])


@pytest.mark.parametrize("outcome", Outcome)
def test_request_leased_before_the_move_is_settled_in_the_new_lane(
    frontier: Frontier, watch: Watch, outcome: Outcome
) -> None:
    start(frontier, "job", pages("a.test", 3))
    held = lease(frontier)
    change_job(frontier, "job", lane=Lane.SLOW)
    assert settle(frontier, held, outcome, delay=MINUTE).late == 0
    retries = 3 if outcome is Outcome.RETRY else 0
    assert watch.queues()[::2] == [
        QueueDepth(HIGH, 0, 0, 0, 0),
        QueueDepth(BATCH, 0, 0, 0, 0),
        QueueDepth(SLOW, 0, retries, 0, 1 if retries else 0),
    ]


def test_request_leased_before_the_move_returns_to_the_new_lane(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    lost, given = lease(frontier, 1, SOON) + lease(frontier, 1)
    change_job(frontier, "job", lane=Lane.SLOW)
    frontier.release([given])
    assert reap_soon(frontier) == (1, ())
    again = frontier.lease(queues=[SLOW], limit=100, lease_for=MINUTE).leases
    assert sorted(targets(again)) == sorted(targets([lost, given]))


def test_job_that_moved_ends_in_its_new_lane(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", pages("a.test", 2))
    held = lease(frontier, 1)
    change_job(frontier, "job", lane=Lane.HIGH)
    held += lease(frontier)
    frontier.close("job")
    assert settle(frontier, held).ended == ("job",)
    assert {key.family.name for key in read_keys(client, prefix)}.isdisjoint({"due", "due_jobs", "turn_jobs"})


def test_paused_job_moves_without_being_woken(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    frontier.pause("job")
    assert change_job(frontier, "job", lane=Lane.HIGH) is JobState.PAUSED
    assert frontier.glance(ALL_QUEUES).waits == {}
    frontier.resume("job")
    assert frontier.glance(ALL_QUEUES).due == (HIGH,)


def test_change_does_not_bring_back_a_job_that_has_ended(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    frontier.cancel("job")
    assert change_job(frontier, "job", lane=Lane.HIGH) is JobState.CANCELLED
    assert state(frontier, "job") is JobState.CANCELLED
    assert not lease(frontier)
    assert frontier.forget("job")


def test_unknown_job_cannot_be_changed(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    assert change_job(frontier, "job") is None
    assert key_names(client, prefix) == []


# --- an operator's word -----------------------------------------------------------------------------------------------


def test_operators_limits_are_stronger_than_the_jobs(frontier: Frontier) -> None:
    frontier.configure_host("a.test", HostChange(rate=ONE_A_MINUTE))
    frontier.configure_host("b.test", HostChange(parallel=3))
    frontier.configure_host("c.test", HostChange(hold=MINUTE))
    frontier.configure_host("d.test", HostChange(rate=0, parallel=0))
    frontier.configure_host("e.test", HostChange(paused=True))
    everywhere = [page for host in "abcde" for page in pages(f"{host}.test", 20)]
    start(frontier, "job", everywhere, rate=1000, parallel=10)
    assert Counter(held.request.url.host for held in lease(frontier)) == {"a.test": 1, "b.test": 3, "d.test": 20}


def test_operator_who_lifts_a_cap_wakes_the_jobs_that_wait(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 5), parallel=1)
    lease(frontier)
    frontier.configure_host("a.test", HostChange(parallel=3))
    assert len(lease(frontier)) == 2


def test_what_is_not_named_is_kept(frontier: Frontier, watch: Watch) -> None:
    frontier.configure_host("a.test", HostChange(rate=2.5, parallel=3, paused=True, hold=MINUTE))
    for change in (HostChange(), HostChange(rate=2.5), HostChange(parallel=3), HostChange(paused=True)):
        frontier.configure_host("a.test", change)
        host = watch.host("a.test")
        assert host is not None
        assert (host.rate, host.parallel, host.paused, host.state) == (2.5, 3, True, "paused")
        assert timedelta(seconds=50) < host.hold <= MINUTE


def test_limit_taken_back_leaves_the_host_to_the_jobs_and_zero_does_not(frontier: Frontier, watch: Watch) -> None:
    frontier.configure_host("a.test", HostChange(rate=ONE_A_MINUTE, parallel=1))
    start(frontier, "job", pages("a.test", 50), rate="unlimited", parallel=4)
    held = lease(frontier)
    assert len(held) == 1
    frontier.configure_host("a.test", HostChange(rate=None, parallel=None))
    host = watch.host("a.test")
    assert host is not None
    assert (host.rate, host.parallel) == (None, None)
    settle(frontier, held)
    assert len(lease(frontier)) == 4
    frontier.configure_host("a.test", HostChange(parallel=0))
    assert len(lease(frontier)) == 45


def test_hold_is_ended_by_a_hold_of_no_time(frontier: Frontier, watch: Watch) -> None:
    frontier.configure_host("a.test", HostChange(hold=MINUTE))
    frontier.configure_host("a.test", HostChange(hold=timedelta()))
    host = watch.host("a.test")
    assert host is not None
    assert (host.hold, host.state) == (timedelta(), "open")
    start(frontier, "job", pages("a.test", 1))
    assert len(lease(frontier)) == 1


def test_operators_word_outlives_the_day(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    for word in (HostChange(rate=0), HostChange(parallel=1), HostChange(paused=True)):
        frontier.configure_host("a.test", word)
        assert only_key(client, prefix, "host").ttl_ms == -1
        frontier.configure_host("a.test", HostChange(rate=None, parallel=None, paused=False))
        assert 0 < only_key(client, prefix, "host").ttl_ms <= DAY_MS


def test_use_does_not_shorten_the_life_of_an_operators_word(
    frontier: Frontier, client: redis.Redis, prefix: str
) -> None:
    start(frontier, "job", pages("a.test", 2))
    settle(frontier, lease(frontier, 1))
    assert 0 < only_key(client, prefix, "host").ttl_ms <= DAY_MS
    frontier.configure_host("a.test", HostChange(parallel=5))
    settle(frontier, lease(frontier, 1), hold_host=SOON, latency=MINUTE)
    assert only_key(client, prefix, "host").ttl_ms == -1


# --- a paused host ----------------------------------------------------------------------------------------------------


def test_paused_host_is_asked_by_no_job_until_it_goes_on(frontier: Frontier) -> None:
    start(frontier, "old", [*pages("a.test", 3), *pages("b.test", 1)])
    frontier.configure_host("a.test", HostChange(paused=True))
    start(frontier, "new", pages("a.test", 2), lane=Lane.HIGH)
    assert [held.request.url.host for held in lease(frontier)] == ["b.test"]
    assert not lease(frontier)
    assert frontier.glance(ALL_QUEUES).waits == {}
    frontier.configure_host("a.test", HostChange(paused=False))
    assert jobs(lease(frontier)) == {"old": 3, "new": 2}


def test_whatever_comes_to_a_paused_host_waits_with_the_rest(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 4))
    settled, retried, released, lost = (*lease(frontier, 3), *lease(frontier, 1, SOON))
    frontier.configure_host("a.test", HostChange(paused=True))
    settle(frontier, [settled])
    settle(frontier, [retried], Outcome.RETRY)
    frontier.release([released])
    reap_soon(frontier)
    frontier.admit("job", pages("a.test", 1, first=9))
    assert not lease(frontier)
    assert counters(frontier, "job").queued == 4
    frontier.configure_host("a.test", HostChange(paused=False))
    assert sorted(targets(lease(frontier))) == sorted([*targets([retried, released, lost]), "/9"])


def at_the_cap(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3), parallel=1)
    lease(frontier)
    assert not lease(frontier)
    frontier.configure_host("a.test", HostChange(paused=True))
    lease(frontier)


def after_a_return(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3), parallel=1)
    held = lease(frontier)
    frontier.configure_host("a.test", HostChange(paused=True))
    lease(frontier)
    settle(frontier, held)
    lease(frontier)


def from_the_beginning(frontier: Frontier) -> None:
    frontier.configure_host("a.test", HostChange(paused=True))
    start(frontier, "job", pages("a.test", 3))
    lease(frontier)


@pytest.mark.parametrize("paused", [at_the_cap, after_a_return, from_the_beginning])
def test_jobs_wait_for_a_paused_host_as_long_as_it_takes(
    frontier: Frontier, client: redis.Redis, prefix: str, paused: Callable[[Frontier], None]
) -> None:
    """Those at a cap are remembered for a day only: longer than any request takes, but not than an operator may."""
    paused(frontier)
    waiters = only_key(client, prefix, "waiters")
    assert ({waiter for waiter, _ in waiters.value}, waiters.ttl_ms) == ({"job a.test"}, -1)
    frontier.configure_host("a.test", HostChange(paused=False, parallel=0))
    assert jobs(lease(frontier)) == {"job": counters(frontier, "job").leased - (paused is at_the_cap)}
    assert "waiters" not in {key.family.name for key in read_keys(client, prefix)}


def test_jobs_wait_for_a_cap_a_day_at_most(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", pages("a.test", 2), parallel=1)
    lease(frontier)
    assert 0 < only_key(client, prefix, "waiters").ttl_ms <= DAY_MS


def test_job_cancelled_at_a_paused_host_waits_no_longer(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    frontier.configure_host("a.test", HostChange(paused=True))
    start(frontier, "job", pages("a.test", 2))
    assert not lease(frontier)
    assert frontier.cancel("job") == (JobState.CANCELLED, True)
    assert "waiters" not in {key.family.name for key in read_keys(client, prefix)}


def test_hold_and_pause_do_not_replace_each_other(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    frontier.configure_host("a.test", HostChange(paused=True, hold=SOON))
    let_pass(SOON)
    assert not lease(frontier)
    frontier.configure_host("a.test", HostChange(paused=False, hold=timedelta(milliseconds=300)))
    assert not lease(frontier)
    assert len(lease_soon(frontier)) == 1


# --- what waited for the old word -------------------------------------------------------------------------------------


def test_job_whose_rate_is_raised_does_not_wait_out_the_old_one(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3), rate=ONE_A_MINUTE, parallel="unlimited")
    assert len(lease(frontier)) == 1
    change_job(frontier, "job")
    assert len(lease(frontier)) == 2


def test_job_whose_cap_is_raised_does_not_wait_for_a_request_to_come_back(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3), parallel=1)
    assert len(lease(frontier)) == 1
    change_job(frontier, "job", parallel=3)
    assert len(lease(frontier)) == 2


def test_host_whose_rate_is_lifted_is_asked_at_once(frontier: Frontier) -> None:
    frontier.configure_host("a.test", HostChange(rate=ONE_A_MINUTE))
    start(frontier, "job", pages("a.test", 3))
    assert len(lease(frontier)) == 1
    frontier.configure_host("a.test", HostChange(rate=None))
    assert len(lease(frontier)) == 2


def test_host_whose_hold_is_ended_is_asked_at_once(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3))
    settle(frontier, lease(frontier, 1), hold_host=MINUTE)
    assert not lease(frontier)
    frontier.configure_host("a.test", HostChange(hold=timedelta()))
    assert len(lease(frontier)) == 2


def test_hold_of_more_than_a_day_lasts_as_long_as_was_said(
    frontier: Frontier, client: redis.Redis, prefix: str
) -> None:
    frontier.configure_host("a.test", HostChange(hold=timedelta(days=3)))
    assert only_key(client, prefix, "host").ttl_ms > 2 * DAY_MS


# --- submitted URLs ---------------------------------------------------------------------------------------------------


def test_submitted_urls_are_let_in_as_any_others_at_the_front_level(frontier: Frontier) -> None:
    urls = [parse(f"{scheme}://{host}/p/{n}?q={n % 7}") for n in range(2_500) for scheme, host in SUBMITTED_TO]
    spec = JobSpec(rate="unlimited")
    prove(frontier, "a.test", "b.test:8443")
    reports: list[AdmitReport] = []
    taken: list[set[Request]] = []
    for name, admit in (("one", frontier.admit_submitted), ("two", _admit_as_requests(frontier))):
        frontier.create(name, spec, expected=len(urls))
        reports.append(admit(name, [*urls, urls[0]]))
        taken.append({each.request for _ in range(6) for each in lease(frontier, 1_000)})
        frontier.cancel(name)
    assert reports[0] == reports[1]
    assert (reports[0].admitted, reports[0].duplicates) == (5_000, 1)
    assert taken[0] == taken[1]
    assert len(taken[0]) == 5_000


def test_urls_are_let_in_also_where_the_server_forgets_the_script_on_the_way(
    frontier: Frontier, client: redis.Redis
) -> None:
    start(frontier, "job", [])

    class Forgetful(list[Url]):
        def __getitem__(self, chosen: Any) -> Any:
            client.script_flush()
            return cast(Any, super()).__getitem__(chosen)

    report = frontier.admit_submitted("job", Forgetful(Url("http", "a.test", f"/{n}") for n in range(5_000)))
    assert (report.state, report.admitted) == (JobState.RUNNING, 5_000)


def test_a_call_that_fails_leaves_no_answer_behind_for_the_next(frontier: Frontier) -> None:
    start(frontier, "job", [])
    urls = [Url("http", "a.test", f"/{n}") for n in range(5_000)]
    with pytest.raises(KeyError):  # the second call cannot be made, and the first is under way
        frontier.admit_submitted("job", [*urls[:3_000], Url("ftp", "a.test", "/")])
    report = frontier.admit_submitted("job", urls)
    assert report.admitted + report.duplicates == 5_000
    status = frontier.status("job")
    assert status is not None
    assert status.counters.admitted == 5_000


def _admit_as_requests(frontier: Frontier) -> Callable[[str, list[Url]], AdmitReport]:
    return lambda job, urls: frontier.admit(job, [Request(url, level=Level.FIRST) for url in urls])


SUBMITTED_TO = (("http", "a.test"), ("https", "b.test:8443"))
