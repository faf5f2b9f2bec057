"""Dead requests that are tried again, and jobs that come back for it after they were forgotten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
import redis

from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState, Lane, Lease, Level, Outcome, Rejected, Request, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import ADMIT_AT_ONCE, Frontier
from shoal.frontier.watch import Watch
from tests.contract.frontier_calls import (
    MINUTE,
    counters,
    jobs,
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
from tests.contract.keyspace import key_names, read_keys

FREE = JobSpec(rate="unlimited")


@pytest.fixture
def clock(client: redis.Redis, prefix: str) -> Clock:
    return Clock(client, prefix)


def let_die(frontier: Frontier, leases: Sequence[Lease], reason: str) -> list[tuple[Request, str]]:
    """What the dead letters say afterwards."""
    settle(frontier, leases, Outcome.DEAD, reason=reason)
    return [(held.request, reason) for held in leases]


def all_dead(count: int) -> JobStatus:
    return JobStatus("job", JobState.FINISHED, Counters(seen=count, admitted=count, dead=count), {"dead:gone": count})


# --- replay -----------------------------------------------------------------------------------------------------------


def test_dead_requests_are_tried_once_more_and_before_the_others(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 4, level=Level.LAST))
    dead = let_die(frontier, lease(frontier, 2), "http_500")
    assert frontier.replay("job", "token", dead) is JobState.RUNNING
    assert counters(frontier, "job") == Counters(seen=4, admitted=4, queued=4)
    again = lease(frontier)
    assert targets(again) == ["/0", "/1", "/2", "/3"]
    assert [held.request.level for held in again] == [Level.FIRST] * 2 + [Level.LAST] * 2


def test_replayed_request_keeps_what_it_carries(frontier: Frontier) -> None:
    start(frontier, "job", [Request(Url("http", "a.test:81", "/x?y=1"), depth=3)])
    ((request, reason),) = let_die(frontier, lease(frontier), "timeout")
    frontier.replay("job", "token", [(replace(request, attempt=2, hops=1, losses=1), reason)])
    (again,) = lease(frontier)
    assert again.request == replace(request, attempt=2, hops=1, losses=1, level=Level.FIRST)


def test_replay_takes_back_the_reasons_of_death(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 5))
    held = lease(frontier)
    gone, timeouts = let_die(frontier, held[:2], "http_410"), let_die(frontier, held[2:4], "timeout")
    nameless = let_die(frontier, held[4:], "")
    frontier.replay("job", "token", [*gone, timeouts[0], *nameless])
    assert status_of(frontier, "job").reasons == {"dead:timeout": 1}
    assert counters(frontier, "job").dead == 1


def test_replay_of_the_same_token_changes_nothing(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    one, two = let_die(frontier, lease(frontier), "http_500")
    for _ in range(2):
        assert frontier.replay("job", "token", [one]) is JobState.RUNNING
        assert counters(frontier, "job") == Counters(seen=2, admitted=2, queued=1, dead=1)
    assert targets(lease(frontier)) == ["/0"]
    frontier.replay("job", "token", [one])
    assert counters(frontier, "job").leased == 1
    frontier.replay("job", "another", [two])
    assert counters(frontier, "job") == Counters(seen=2, admitted=2, queued=1, leased=1)


def test_replay_cut_short_is_completed_by_its_token(frontier: Frontier) -> None:
    count = ADMIT_AT_ONCE + 500
    dead = [(page, "gone") for page in pages("a.test", count)]
    assert frontier.restore("job", FREE, all_dead(count))
    frontier.replay("job", "token", dead[:ADMIT_AT_ONCE])
    assert counters(frontier, "job").queued == ADMIT_AT_ONCE
    for _ in range(2):
        assert frontier.replay("job", "token", dead) is JobState.RUNNING
        assert counters(frontier, "job") == Counters(seen=count, admitted=count, queued=count)
        assert status_of(frontier, "job").reasons == {}
    frontier.pause("job")
    prove(frontier, "a.test")
    frontier.resume("job")
    assert len(lease(frontier, count)) == 1_000


def test_replayed_request_may_die_again(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    for token in ("first", "second"):
        dead = let_die(frontier, lease(frontier), "http_500")
        assert status_of(frontier, "job").reasons == {"dead:http_500": 1}
        frontier.replay("job", token, dead)
    settle(frontier, lease(frontier))
    assert counters(frontier, "job") == Counters(seen=1, admitted=1, done=1)


def test_replay_is_nothing_new_to_the_job(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2), pages=2)
    dead = let_die(frontier, lease(frontier, 1), "http_500")
    frontier.replay("job", "token", dead)
    report = frontier.admit("job", pages("a.test", 3))
    assert (report.admitted, report.duplicates, report.over_budget) == (0, 2, 1)


def test_closed_job_goes_on_until_its_replayed_requests_are_done(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 2))
    frontier.close("job")
    one, two = lease(frontier)
    dead = let_die(frontier, [one], "http_500")
    frontier.replay("job", "token", dead)
    assert settle(frontier, [two]).ended == ()
    assert settle(frontier, lease(frontier)).ended == ("job",)


def test_paused_job_takes_its_dead_back_and_stays_paused(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    dead = let_die(frontier, lease(frontier), "http_500")
    frontier.pause("job")
    assert frontier.replay("job", "token", dead) is JobState.PAUSED
    assert not lease(frontier)
    frontier.resume("job")
    assert len(lease(frontier)) == 1


def test_replay_waits_for_the_host_like_any_request(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 3), parallel=1)
    dead = let_die(frontier, lease(frontier), "http_500")
    (held,) = lease(frontier)
    assert not lease(frontier)
    frontier.replay("job", "token", dead)
    assert not lease(frontier)
    settle(frontier, [held])
    assert targets(lease(frontier)) == ["/0"]


def test_job_that_has_ended_replays_nothing(frontier: Frontier) -> None:
    start(frontier, "finished", pages("a.test", 1))
    start(frontier, "cancelled", pages("b.test", 2))
    held = lease(frontier, 3)
    dead = let_die(frontier, [held for held in held if held.job == "finished"], "http_500")
    frontier.close("finished")
    assert frontier.replay("finished", "token", dead) is JobState.FINISHED
    assert counters(frontier, "finished").dead == 1
    one, _ = (held for held in held if held.job == "cancelled")
    dead = let_die(frontier, [one], "http_500")
    frontier.cancel("cancelled")
    assert frontier.replay("cancelled", "token", dead) is JobState.CANCELLED
    assert counters(frontier, "cancelled").dead == 1
    assert not lease(frontier)


def test_unknown_job_replays_nothing(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    assert frontier.replay("job", "token", [(pages("a.test", 1)[0], "http_500")]) is None
    assert key_names(client, prefix) == []


# --- a forgotten job comes back ---------------------------------------------------------------------------------------


def live_and_be_forgotten(frontier: Frontier, spec: JobSpec) -> tuple[JobStatus, list[tuple[Request, str]]]:
    """A job with an end of every kind. (its last sums, its dead letters)"""
    frontier.create("job", spec)
    out_of_scope = [Rejected(Url("https", "b.test", "/"), "other_host")]
    frontier.admit("job", [*pages("a.test", 8), *out_of_scope], 3)
    held = lease(frontier)
    frontier.release(held[7:])
    settle(frontier, held[:3], received=1_000)
    dead = let_die(frontier, held[3:5], "http_404") + let_die(frontier, held[5:6], "timeout")
    settle(frontier, held[6:7], Outcome.ROBOTS, reason="robots")
    (last,) = lease(frontier)
    frontier.close("job")
    assert frontier.settle([Settlement(last, Outcome.DONE, "redirect")]).ended == ("job",)
    status = status_of(frontier, "job")
    assert frontier.forget("job")
    return status, dead


def test_forgotten_job_comes_back_with_its_sums(frontier: Frontier) -> None:
    status, _ = live_and_be_forgotten(frontier, FREE)
    assert frontier.restore("job", FREE, status)
    assert frontier.known_jobs() == ["job"]
    restored = status_of(frontier, "job")
    assert (restored.state, restored.open, restored.ended_ms) == (JobState.RUNNING, True, None)
    assert restored.counters == status.counters
    assert restored.reasons == status.reasons
    assert restored.started_ms == status.started_ms
    assert not lease(frontier)


def test_restored_job_tries_its_dead_again_and_ends_once_more(frontier: Frontier, watch: Watch) -> None:
    status, dead = live_and_be_forgotten(frontier, FREE)
    frontier.restore("job", FREE, status)
    frontier.replay("job", "token", dead)
    assert frontier.close("job") == (JobState.RUNNING, False)
    assert not status_of(frontier, "job").open
    held = lease(frontier)
    assert sorted(targets(held)) == sorted(request.url.target for request, _ in dead)
    assert settle(frontier, held[:1], Outcome.DEAD, reason="http_404").ended == ()
    assert settle(frontier, held[1:]).ended == ("job",)
    expected = replace(status.counters, dead=1, done=status.counters.done + 2)
    assert counters(frontier, "job") == expected
    assert state(frontier, "job") is JobState.FINISHED
    assert status_of(frontier, "job").reasons["dead:http_404"] == 1
    told = [(event.kind, event.state) for event in watch.events_since("0-0", "job")]
    assert told == [("state", "running"), ("ended", "finished")] * 2
    assert frontier.forget("job")


def test_restored_job_remembers_what_it_has_seen(frontier: Frontier) -> None:
    status, _ = live_and_be_forgotten(frontier, FREE)
    frontier.restore("job", FREE, status)
    frontier.remember("job", [(page.url.fingerprint, page.url.host) for page in pages("a.test", 8)])
    assert counters(frontier, "job") == status.counters
    report = frontier.admit("job", pages("a.test", 9))
    assert (report.admitted, report.duplicates) == (1, 8)
    assert targets(lease(frontier)) == ["/8"]


def test_restored_job_keeps_to_its_budget(frontier: Frontier) -> None:
    """Ten pages were allowed: eight are admitted; three died, one was dropped and one only pointed elsewhere."""
    spec = FREE.model_copy(update={"pages": 10})
    status, _ = live_and_be_forgotten(frontier, spec)
    assert status.redirects == 1
    frontier.restore("job", spec, status)
    report = frontier.admit("job", pages("c.test", 10))
    assert (report.admitted, report.over_budget) == (10 - (8 - 3 - 1 - 1), 3)


def test_restored_job_has_all_its_time_once_more(frontier: Frontier, clock: Clock) -> None:
    spec = FREE.model_copy(update={"seconds": 60.0})
    status, dead = live_and_be_forgotten(frontier, spec)
    assert status.started_ms is not None
    assert status.ended_ms is not None
    hour = 3_600_000
    status = replace(status, started_ms=status.started_ms - hour, ended_ms=status.ended_ms - hour)
    frontier.restore("job", spec, status)
    frontier.replay("job", "token", dead)
    clock.let_pass(55)
    assert len(lease(frontier, 1)) == 1
    clock.let_pass(6)
    assert not lease(frontier)
    assert status_of(frontier, "job").reasons["filtered:over_seconds"] == 2


def test_restored_job_that_is_given_more_time_has_it_from_its_return_on(frontier: Frontier, clock: Clock) -> None:
    spec = FREE.model_copy(update={"seconds": 60.0})
    status, dead = live_and_be_forgotten(frontier, spec)
    assert status.started_ms is not None
    status = replace(status, started_ms=status.started_ms - 3_600_000)
    frontier.restore("job", spec, status)
    frontier.replay("job", "token", dead)
    frontier.configure_job("job", FREE.model_copy(update={"seconds": 120.0}))
    clock.let_pass(115)
    assert len(lease(frontier, 1)) == 1
    clock.let_pass(6)
    assert not lease(frontier)


def test_the_time_between_end_and_return_does_not_count_as_work(frontier: Frontier) -> None:
    status, _ = live_and_be_forgotten(frontier, FREE)
    assert status.started_ms is not None
    began, day = status.started_ms - 86_400_000, timedelta(days=1)
    status = replace(status, started_ms=began, ended_ms=began + 20_000, rested_ms=5_000)
    frontier.restore("job", FREE, status)
    assert timedelta(seconds=15) <= status_of(frontier, "job").elapsed < day / 2


def test_restored_job_has_the_limits_and_the_lane_of_its_spec(frontier: Frontier) -> None:
    spec = JobSpec(rate="unlimited", parallel=1, lane=Lane.SLOW)
    status, dead = live_and_be_forgotten(frontier, FREE)
    frontier.restore("job", spec, status)
    frontier.replay("job", "token", dead)
    assert not frontier.lease(queues=["http.high", "http.batch"], limit=10, lease_for=MINUTE).leases
    assert len(lease(frontier)) == 1


def test_restored_job_with_nothing_to_do_ends_when_it_is_closed(frontier: Frontier) -> None:
    status, _ = live_and_be_forgotten(frontier, FREE)
    frontier.restore("job", FREE, status)
    assert frontier.close("job") == (JobState.FINISHED, True)
    assert counters(frontier, "job") == status.counters
    assert frontier.forget("job")


def test_job_that_is_known_is_not_restored(frontier: Frontier) -> None:
    status, _ = live_and_be_forgotten(frontier, FREE)
    start(frontier, "job", pages("a.test", 2))
    before = status_of(frontier, "job")
    assert not frontier.restore("job", FREE, status)
    after = status_of(frontier, "job")
    assert replace(after, now_ms=before.now_ms) == before
    assert jobs(lease(frontier)) == {"job": 2}


def test_job_that_never_began_can_be_restored(frontier: Frontier) -> None:
    frontier.create("job", FREE)
    frontier.close("job")
    status = status_of(frontier, "job")
    frontier.forget("job")
    assert frontier.restore("job", FREE, status)
    assert status_of(frontier, "job").started_ms is None
    assert frontier.admit("job", pages("a.test", 1)).admitted == 1


def test_unknown_job_remembers_nothing(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    frontier.remember("job", [(1, "a.test"), (2, "a.test"), (3, "a.test")])
    assert key_names(client, prefix) == []


@pytest.mark.parametrize("count", [1, 190, 191, 100_000])
def test_remembered_fingerprints_stay_compact(frontier: Frontier, client: redis.Redis, prefix: str, count: int) -> None:
    seen = pages("a.test", count)
    status = JobStatus("job", JobState.FINISHED, Counters(seen=count, admitted=count, done=count))
    frontier.restore("job", FREE, status)
    known = [(page.url.fingerprint, page.url.host) for page in seen]
    for _ in range(2):
        frontier.remember("job", known)
    buckets = [key for key in read_keys(client, prefix) if key.family.name == "seen"]
    assert {key.encoding for key in buckets} == {"intset"}
    assert sum(len(key.value) for key in buckets) == count
    assert {int(key.names["B"]) for key in buckets} <= set(range(math.ceil(count / 190)))

    assert frontier.admit("job", seen[-5_000:]).duplicates == min(count, 5_000)
    assert frontier.admit("job", pages("b.test", 2_000)).admitted == 2_000
    assert frontier.admit("job", [*seen[:2_000], *pages("b.test", 2_000)]).duplicates == min(count, 2_000) + 2_000
    buckets = [key for key in read_keys(client, prefix) if key.family.name == "seen"]
    assert {key.encoding for key in buckets} == {"intset"}
    assert {int(key.names["B"]) for key in buckets} <= set(range(math.ceil((count + 2_000) / 190)))

    frontier.cancel("job")
    frontier.forget("job")
    assert "seen" not in {key.family.name for key in read_keys(client, prefix)}


def test_restored_job_has_no_rate_before_it_fetches_again(frontier: Frontier) -> None:
    status, _ = live_and_be_forgotten(frontier, FREE)
    assert status.started_ms is not None
    an_hour_ago = replace(status, started_ms=status.now_ms - timedelta(hours=1) // timedelta(milliseconds=1))
    many = replace(an_hour_ago.counters, seen=36_010, admitted=36_009, done=36_005)
    frontier.restore("job", FREE, replace(an_hour_ago, counters=many))
    assert status_of(frontier, "job").rate == 0
