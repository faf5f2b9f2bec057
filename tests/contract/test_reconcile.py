"""Damage done to a frontier and its stores by hand; the housekeeping finds it, puts it right, logs and counts it."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
import structlog

from shoal import leftovers, reconcile
from shoal.core.fleet import WorkerBeat
from shoal.core.model import ALL_QUEUES, JobState, Lease
from shoal.core.url import parse
from shoal.errors import StoreUnavailable
from shoal.frontier.audit import Recount
from shoal.frontier.scripts import connect
from shoal.store import tables
from shoal.store.archive import ArchiveWriter, Exchange
from shoal.store.dead import DeadLetters, Selection
from shoal.store.ended import EndedJobs, Outdated
from shoal.store.items import ItemRow
from shoal.store.page_rows import DeadLetter, FoundLinks, PageRow
from shoal.wiring import redis_urls
from tests.contract.api import NOW_MS, Desk, a_desk, some_dead
from tests.contract.keyspace import clear, host_fields, leaks, read_keys, wrong_depths
from tests.waiting import wait_until

URL = "http://shop.example/"
AT_ONCE = timedelta()
DAY_S = 86_400


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "STILL", AT_ONCE)
    monkeypatch.setattr(reconcile, "SETTLED", -timedelta(seconds=5))
    monkeypatch.setattr(leftovers, "SECOND_LOOK", AT_ONCE)
    monkeypatch.setattr(leftovers, "PATIENCE", AT_ONCE, raising=False)


@contextmanager
def redis_of(desk: Desk) -> Generator[tuple[Any, str]]:
    """(a hand in Redis, the prefix)"""
    client = connect(redis_urls(desk.platform.settings).frontier)
    try:
        yield cast(Any, client), desk.platform.settings.prefix
    finally:
        client.close()


def tick(desk: Desk, rounds: int = 2) -> dict[str, int]:
    """Some rounds of the housekeeping, each with every chore; what was put right."""
    before = desk.platform.watch.stats()
    with redis_of(desk) as (client, prefix):
        for _ in range(rounds):
            for chore in desk.platform.housekeeper.chores():
                client.delete(f"{prefix}:chore:{chore.name}")
            with structlog.testing.capture_logs() as logs:
                desk.platform.housekeeper.tick()
            assert [entry for entry in logs if entry["event"] == "chore_failed"] == []
    after = desk.platform.watch.stats()
    counted = {name: n - before.get(name, 0) for name, n in after.items() if name.startswith("repaired:")}
    return {name.removeprefix("repaired:"): n for name, n in counted.items() if n}


def lease(desk: Desk, limit: int = 10) -> tuple[Lease, ...]:
    return desk.platform.frontier.lease(queues=ALL_QUEUES, limit=limit, lease_for=timedelta(minutes=1)).leases


def reconciles(desk: Desk, job: str) -> bool:
    status = desk.platform.control.status(job)
    return status.counters.reconciles


# --- nothing to do ---------------------------------------------------------------------------------------------------


def test_a_frontier_in_order_is_left_as_it_is(each: Desk) -> None:
    jobs = [each.submit(f"{URL}{n}", f"http://other.example/{n}") for n in range(3)]
    each.platform.control.pause(jobs[0])
    each.submit(open=True)
    held = lease(each, 2)
    before = [each.platform.frontier.status(job) for job in jobs]
    assert tick(each, 3) == {}
    after = [each.platform.frontier.status(job) for job in jobs]
    assert [status and status.counters for status in after] == [status and status.counters for status in before]
    each.platform.frontier.release(held)
    each.platform.control.resume(jobs[0])
    assert len(each.work()) == 6


def test_a_chore_is_done_once_in_its_time_by_all_who_keep_house(
    desk: Desk, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    with a_desk(valkey_url, tmp_path, prefix=desk.platform.settings.prefix) as other:
        for each in (desk, other):
            monkeypatch.setattr(each.platform.housekeeper.leftovers, "rows", lambda: done.append("rows"))
            monkeypatch.setattr(each.platform.housekeeper.reconciler, "reap", lambda: done.append("reap"))
        for each in (desk, other, desk):
            each.platform.housekeeper.tick()
    assert (done.count("rows"), done.count("reap")) == (1, 3)


def test_a_chore_that_failed_does_not_wait_for_its_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def fail() -> None:
        tried.append("rows")
        raise StoreUnavailable("gone")

    monkeypatch.setattr(desk.platform.housekeeper.leftovers, "rows", fail)
    for _ in range(2):
        desk.platform.housekeeper.tick()
    assert len(tried) == 2


# --- leases and rings ------------------------------------------------------------------------------------------------


def test_expired_leases_come_back_although_no_worker_asks(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(5)))
    groups = {held.group for held in lease(each, 3)}
    each.platform.frontier.renew(groups, timedelta(milliseconds=1))
    wait_until(lambda: each.platform.watch.expired_leases() == 1)
    with structlog.testing.capture_logs() as logs:
        each.platform.housekeeper.tick()
    assert [entry["count"] for entry in logs if entry.get("what") == "leases"] == [3]
    status = each.platform.frontier.status(job)
    assert status is not None
    assert (status.counters.queued, status.counters.leased, status.counters.lost) == (5, 0, 3)
    assert each.platform.watch.stats()["repaired:leases"] == 3
    assert len(each.work()) == 5


def test_the_end_of_a_cancelled_job_whose_worker_died_is_written_down(each: Desk) -> None:
    job = each.submit(URL)
    groups = {held.group for held in lease(each)}
    each.platform.control.cancel(job)
    each.platform.frontier.renew(groups, timedelta(milliseconds=1))
    wait_until(lambda: each.platform.watch.expired_leases() == 1)
    tick(each, 1)
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.state is JobState.CANCELLED
    assert each.platform.frontier.known_jobs() == []


def _beat(active: int) -> WorkerBeat:
    return WorkerBeat("w1", ("http.batch",), 2, active, 1, 50, NOW_MS, "0")


@pytest.mark.parametrize(("active", "rung", "expected"), [(1, False, 1), (2, False, 0), (1, True, 0)])
def test_a_lost_ring_is_rung_again_when_a_worker_is_free(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, active: int, rung: bool, expected: int
) -> None:
    monkeypatch.setattr(reconcile, "RING_LIFETIME", timedelta(seconds=-2))
    desk.submit(URL)
    desk.rings.clear()
    desk.platform.frontier.crew.heartbeat(_beat(active))
    if rung:
        desk.platform.frontier.claim_ring("http.batch")
    assert tick(desk, 1).get("rings", 0) == expected
    assert desk.rings == [("http.batch", "")] * expected


def test_work_of_just_now_is_left_to_its_own_ring(desk: Desk) -> None:
    desk.submit(URL)
    desk.platform.frontier.crew.heartbeat(_beat(0))
    assert tick(desk, 1) == {}


# --- jobs that do not move -------------------------------------------------------------------------------------------


def test_a_job_whose_requests_have_vanished_is_rebuilt(each: Desk) -> None:
    job = each.submit(URL, URL + "2")
    each.work(at_most=1)
    with redis_of(each) as (client, prefix):
        client.delete(f"{prefix}:queue:{job}:shop.example:0", f"{prefix}:ready:{job}")
        repairs = tick(each, 3)
        assert not wrong_depths(read_keys(client, prefix))
    assert repairs == {"missing_requests": 1}
    each.work()
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.status is not None
    assert row.state is JobState.FINISHED
    assert (row.status.counters.done, row.status.counters.dropped, row.status.counters.reconciles) == (2, 0, True)
    assert each.platform.frontier.known_jobs() == []


def test_leases_that_have_vanished_do_not_keep_a_job_from_its_end(desk: Desk) -> None:
    job = desk.submit(URL, URL + "2")
    (held, *_) = lease(desk)
    with redis_of(desk) as (client, prefix):
        client.delete(f"{prefix}:lease:{held.group}")
        client.zrem(f"{prefix}:leases", held.group)
    assert tick(desk, 3)["missing_requests"] == 2
    assert len(desk.work()) == 2
    assert desk.state(job) is JobState.FINISHED
    assert reconciles(desk, job)


def test_a_host_that_fell_out_of_the_lists_is_found_by_its_queue(desk: Desk) -> None:
    job = desk.submit(f"{URL}1", f"{URL}2", "http://other.example/")
    with redis_of(desk) as (client, prefix):
        client.zrem(f"{prefix}:ready:{job}", "shop.example")
    assert len(desk.work()) == 1
    assert tick(desk, 3) == {"lost_places": 1}
    assert sorted(desk.work()) == [f"{URL}1", f"{URL}2"]
    assert desk.state(job) is JobState.FINISHED


def test_a_job_that_fell_out_of_its_rotation_comes_back(desk: Desk) -> None:
    job = desk.submit(URL)
    with redis_of(desk) as (client, prefix):
        client.delete(f"{prefix}:due:http.batch", f"{prefix}:due:http.batch:default")
    assert desk.work() == []
    assert tick(desk, 3) == {"lost_places": 1}
    assert desk.work() == [URL]
    assert desk.state(job) is JobState.FINISHED


def test_sums_that_leave_requests_out_are_put_right(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(4)))
    with redis_of(desk) as (client, prefix):
        client.hincrby(f"{prefix}:job:{job}", "queued", -3)
        client.hincrby(f"{prefix}:depth:http.batch", "queued", -3)
        assert tick(desk, 3) == {"sums": 3}
        assert not wrong_depths(read_keys(client, prefix))
    status = desk.platform.frontier.status(job)
    assert status is not None
    assert (status.counters.queued, status.counters.admitted) == (4, 4)
    assert len(desk.work()) == 4
    assert desk.state(job) is JobState.FINISHED


def test_a_job_that_moves_is_not_looked_at_closely(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(4)))
    asked: list[str] = []
    compare = desk.platform.frontier.audit.compare

    def noted(name: str) -> Recount | None:
        asked.append(name)
        return compare(name)

    monkeypatch.setattr(desk.platform.frontier.audit, "compare", noted)
    for _ in range(3):
        tick(desk, 1)
        desk.work(at_most=1)
    assert asked == []
    tick(desk, 3)
    assert asked == [job, job]


# --- sums against rows -----------------------------------------------------------------------------------------------


def _page(job: str, url: str) -> PageRow:
    parsed = parse(url)
    return PageRow(job, parsed.fingerprint, url, parsed.host, 200, 0, 0, "text/html", "", 1, 1.0, NOW_MS)


def _letter(job: str, url: str) -> DeadLetter:
    parsed = parse(url)
    return DeadLetter(job, parsed.fingerprint, url, parsed.host, "dead", "http_404", "", 0, 1, 1)


def test_the_last_sums_of_a_job_say_what_the_rows_say(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(4)))
    each.work()
    with each.platform.engine.begin() as connection:
        connection.execute(sa.delete(tables.pages).where(tables.pages.c.url == f"{URL}1"))
    assert tick(each) == {"counters": 1}
    counters = each.platform.control.status(job).counters
    assert (counters.done, counters.dropped, counters.reconciles) == (3, 1, True)
    assert tick(each) == {}


def test_a_request_with_a_page_is_not_dead(each: Desk) -> None:
    """One worker was too late with the page, the other had found nothing."""
    job = each.submit(f"{URL}1", f"{URL}2", f"{URL}3")
    each.work(some_dead("2", "3"))
    each.platform.pages.write([_page(job, f"{URL}2")], [], [])
    assert tick(each) == {"counters": 1}
    counters = each.platform.control.status(job).counters
    assert (counters.done, counters.dead, counters.dropped, counters.reconciles) == (2, 1, 0, True)
    assert [letter.url for letter in each.platform.pages.dead_letters(job)] == [f"{URL}3"]


def test_pages_beyond_what_was_admitted_are_counted_too(each: Desk) -> None:
    job = each.submit(URL)
    each.work()
    each.platform.pages.write([_page(job, f"{URL}more")], [], [])
    assert tick(each) == {"counters": 1}
    counters = each.platform.control.status(job).counters
    assert (counters.done, counters.admitted, counters.seen, counters.reconciles) == (2, 2, 2, True)


def test_the_corrected_sums_keep_what_else_is_known_of_the_job(each: Desk) -> None:
    job = each.submit(f"{URL}1", f"{URL}2")
    each.work(some_dead("2"))
    before = each.platform.control.status(job)
    each.platform.pages.write([_page(job, f"{URL}more")], [], [])
    tick(each)
    after = each.platform.control.status(job)
    assert (after.reasons, after.started_ms, after.ended_ms) == (before.reasons, before.started_ms, before.ended_ms)


def test_a_running_job_with_other_sums_than_rows_is_named(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(4)))
    each.work(at_most=2)
    tick(each, 1)
    with each.platform.engine.begin() as connection:
        connection.execute(sa.delete(tables.pages).where(tables.pages.c.job == job))
    with redis_of(each) as (client, prefix), structlog.testing.capture_logs() as logs:
        client.delete(f"{prefix}:chore:sums")
        each.platform.housekeeper.tick()
    assert [(e["job"], e["done"], e["pages"]) for e in logs if e["event"] == "sums_differ"] == [(job, 2, 0)]


def test_a_replay_of_what_was_stored_late_leaves_no_dead_request_without_a_letter(each: Desk) -> None:
    """The page came after the letter; the replay finds it, and takes the letter away without a second try."""
    job = each.submit(f"{URL}1", f"{URL}2", open=True)
    each.work(some_dead("2"))
    each.platform.pages.write([_page(job, f"{URL}2")], [], [])
    assert each.platform.intake.replay(each.platform.control.job(job), Selection()) == 1
    assert each.work() == []
    each.platform.control.close(job)
    assert tick(each) == {"counters": 1}
    counters = each.platform.control.status(job).counters
    assert (counters.seen, counters.admitted, counters.done, counters.dead, counters.dropped) == (2, 2, 2, 0, 0)
    assert list(each.platform.pages.dead_letters(job)) == []
    assert tick(each) == {}


def test_sums_of_a_job_whose_dead_letters_are_on_their_way_back_are_left_alone(each: Desk) -> None:
    """Their rows are gone, and the sums must still have them: the frontier takes them off when it has the requests."""
    job = each.submit(f"{URL}1", f"{URL}2")
    each.work(some_dead("2"))
    ended = EndedJobs(each.platform.engine)
    (found,) = ended.between(0, 2**53, 10)
    letters = DeadLetters(each.platform.engine)
    assert letters.take(job, Selection(), 1, letters.newest(job))
    assert ended.correct(found) == 0
    assert each.platform.control.status(job).counters.dead == 1
    assert each.platform.intake.complete(job)
    assert each.work() == [f"{URL}2"]
    counters = each.platform.control.status(job).counters
    assert (counters.done, counters.dead, counters.reconciles) == (2, 0, True)


def test_a_clock_that_is_an_hour_behind_does_not_hide_jobs_that_have_ended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = desk.submit(URL)
    desk.work()
    desk.platform.pages.write([_page(job, f"{URL}more")], [], [])
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * 10**9)
    assert tick(desk) == {"counters": 1}


# --- ends that were lost ---------------------------------------------------------------------------------------------


def _row(desk: Desk, job: str) -> Any:
    with desk.platform.engine.connect() as connection:
        return connection.execute(sa.select(tables.jobs).where(tables.jobs.c.id == job)).one()


def test_a_cancelled_job_that_redis_has_lost_ends_with_the_sums_of_its_rows(each: Desk) -> None:
    """Its leases were out: the one who was to settle the last of them cannot any more."""
    job = each.submit(*(f"{URL}{n}" for n in range(5)))
    each.work(some_dead("0"), at_most=2)
    held = lease(each, 1)
    each.platform.control.cancel(job)
    with redis_of(each) as (client, prefix):
        clear(client, prefix)
    assert _row(each, job).ended_ms is None
    each.platform.frontier.release(held)
    assert tick(each) == {"lost_ends": 1}
    row = _row(each, job)
    assert row.state == "cancelled"
    assert abs(row.ended_ms - time.time_ns() // 10**6) < 3_600_000
    status = each.platform.control.status(job)
    assert (status.state, status.ended_ms) == (JobState.CANCELLED, row.ended_ms)
    counters = status.counters
    assert (counters.admitted, counters.done, counters.dead, counters.dropped) == (5, 1, 1, 3)
    assert counters.reconciles
    assert [job.id for job in each.platform.retention.outdated(Outdated(2**53))] == [job]
    assert tick(each) == {}


def test_a_cancelled_job_whose_leases_are_out_is_left_to_who_settles_them(each: Desk) -> None:
    job = each.submit(URL)
    held = lease(each)
    each.platform.control.cancel(job)
    assert tick(each) == {}
    assert _row(each, job).ended_ms is None
    each.platform.frontier.release(held)
    tick(each)
    assert _row(each, job).state == "cancelled"


# --- hosts -----------------------------------------------------------------------------------------------------------


def test_a_host_that_is_said_to_be_busy_is_asked_again(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(6)), rate=1000, parallel=2)
    held = lease(desk)
    assert len(held) == 2
    assert lease(desk) == ()
    with redis_of(desk) as (client, prefix):
        client.delete(f"{prefix}:lease:{held[0].group}")
        client.zrem(f"{prefix}:leases", held[0].group)
        assert int(host_fields(client, prefix, "shop.example")["inflight"]) == 2
        assert tick(desk, 1) == {"hosts": 1}
        assert int(host_fields(client, prefix, "shop.example")["inflight"]) == 0
    wait_until(lambda: bool(desk.work()))
    tick(desk, 3)
    wait_until(lambda: bool(desk.work()) or desk.state(job) is JobState.FINISHED)


def test_a_host_that_is_said_to_be_idle_is_asked_no_more_than_it_may(desk: Desk) -> None:
    desk.submit(*(f"{URL}{n}" for n in range(6)), rate=1000, parallel=2)
    assert len(lease(desk)) == 2
    with redis_of(desk) as (client, prefix):
        client.delete(f"{prefix}:host:shop.example")
        assert tick(desk, 1) == {"hosts": 1}
        assert int(host_fields(client, prefix, "shop.example")["inflight"]) == 2
    assert lease(desk) == ()


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_of_a_job_that_the_frontier_does_not_know_are_dropped(desk: Desk) -> None:
    job, other = desk.submit(f"{URL}1"), desk.submit(f"{URL}2")
    desk.platform.control.pause(other)
    with redis_of(desk) as (client, prefix):
        client.delete(f"{prefix}:job:{job}")
        client.srem(f"{prefix}:jobs", job)
        client.hset(f"{prefix}:reasons:gone1", "dead:x", 1)
        client.zadd(f"{prefix}:turn:http.batch:default", {job: 1})
        repairs = tick(desk, 3)
        assert list(repairs) == ["keys"]
        assert leaks(read_keys(client, prefix)) == []
        assert not [key for key in client.keys(f"{prefix}:*") if job in key or "gone1" in key]
        assert client.zrange(f"{prefix}:due:http.batch:default", 0, -1) == []
    desk.platform.control.resume(other)
    assert desk.work() == [f"{URL}2"]


def test_a_job_that_is_missing_in_the_list_comes_back(desk: Desk) -> None:
    job = desk.submit(URL)
    with redis_of(desk) as (client, prefix):
        client.srem(f"{prefix}:jobs", job)
    assert tick(desk, 1) == {"unlisted_jobs": 1}
    assert desk.platform.frontier.known_jobs() == [job]
    assert desk.work() == [URL]


def test_a_lease_group_without_a_deadline_is_reaped(desk: Desk) -> None:
    desk.submit(URL)
    lease(desk)
    with redis_of(desk) as (client, prefix):
        client.delete(f"{prefix}:leases")
    assert tick(desk, 2) == {"lease_groups": 1, "leases": 1}
    assert desk.work() == [URL]


def _remove_row(desk: Desk, job: str) -> None:
    with desk.platform.engine.begin() as connection:
        connection.execute(sa.delete(tables.submissions).where(tables.submissions.c.job == job))
        connection.execute(sa.delete(tables.jobs).where(tables.jobs.c.id == job))


def test_a_job_that_the_database_does_not_have_leaves_the_frontier(each: Desk) -> None:
    gone, other = each.submit(f"{URL}1", f"{URL}2"), each.submit(f"{URL}3")
    held = lease(each, 1)
    _remove_row(each, gone)
    assert tick(each) == {"unknown_jobs": 1}
    assert each.platform.frontier.known_jobs() == [other]
    with redis_of(each) as (client, prefix):
        assert [key for key in client.keys(f"{prefix}:*") if gone in key] == []
        assert leaks(read_keys(client, prefix)) == []
    each.platform.frontier.release(held)
    assert each.work() == [f"{URL}3"]


def test_a_removed_job_that_comes_back_with_an_older_redis_is_dropped_at_once(each: Desk) -> None:
    each.platform.recovery.look()
    job = each.submit(URL)
    spec = each.platform.control.job(job).spec
    each.platform.control.delete(job)
    tick(each, 1)
    each.platform.frontier.create(job, spec)
    with redis_of(each) as (client, prefix):
        client.set(f"{prefix}:epoch", 0)
    each.platform.recovery.look()
    assert each.platform.frontier.known_jobs() == []


def test_a_name_in_the_list_of_jobs_with_nothing_behind_it_goes(desk: Desk) -> None:
    with redis_of(desk) as (client, prefix):
        client.sadd(f"{prefix}:jobs", "gone1")
    assert tick(desk) == {"unknown_jobs": 1}
    assert desk.platform.frontier.known_jobs() == []


def test_a_job_without_a_row_is_looked_at_twice(each: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that has gone back for a moment, or another one by mistake, costs no job."""
    monkeypatch.setattr(leftovers, "PATIENCE", timedelta(minutes=1))
    job = each.submit(URL)
    row = {**_row(each, job)._mapping}
    _remove_row(each, job)
    assert tick(each, 3) == {}
    with each.platform.engine.begin() as connection:
        connection.execute(sa.insert(tables.jobs).values(row))
    monkeypatch.setattr(leftovers, "PATIENCE", AT_ONCE)
    assert tick(each, 3) == {}
    _remove_row(each, job)
    assert tick(each, 1) == {}
    assert tick(each, 1) == {"unknown_jobs": 1}


@pytest.mark.parametrize("end", ["finished", "cancelled", "budget"])
def test_a_job_that_has_ended_leaves_no_key(desk: Desk, end: str) -> None:
    """Others may remember it for a day: whose turn it was on a host that they share, who waited for its place."""
    spec: dict[str, Any] = {"host_pages": 50, "host_bytes": 10**9, "host_seconds": 3600} if end == "budget" else {}
    urls = [f"http://{host}.example/{n}" for host in "abc" for n in range(5)]
    job = desk.submit(*urls, rate=1000, parallel=2, **spec)
    rival = desk.submit(*(f"{url}?rival" for url in urls), rate=1000, parallel=2)
    held = (*lease(desk, 4), *lease(desk, 4))
    if end == "cancelled":
        desk.platform.control.cancel(job)
    for ended in desk.platform.frontier.release(held).ended:
        desk.platform.ending.finalise(ended)
    for name in (rival,) if end == "cancelled" else (job, rival):
        desk.platform.control.edit(name, {"rate": "unlimited", "parallel": "unlimited"})
    wait_until(lambda: (desk.work(some_dead("3")), tick(desk, 1), desk.platform.frontier.known_jobs() == [])[2])
    with redis_of(desk) as (client, prefix):
        stored = read_keys(client, prefix)
        assert [key.key for key in stored if job in key.key] == []
        mention = [key for key in stored if job in str(key.value) and key.family.name != "events"]
        assert [str(key) for key in mention if key.ttl_ms < 0] == []
        assert {key.family.name for key in mention} <= {"rival_jobs", "waiters", "host"}
        assert leaks(stored) == []


# --- what is left over in the stores ---------------------------------------------------------------------------------


def _age(path: Path, seconds: float = 2 * DAY_S) -> None:
    old = time.time() - seconds
    for each in (*path.glob("*"), path):
        os.utime(each, (old, old))


def _folder(desk: Desk, job: str, *names: str) -> Path:
    folder = desk.platform.settings.archive_path / job
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def _own(desk: Desk, seconds: float = 3 * DAY_S) -> None:
    """The desk's database has used its archive for so long."""
    tick(desk, 1)
    (owner,) = (desk.platform.settings.archive_path / ".owners").iterdir()
    _age(owner, seconds)


def _writer(desk: Desk) -> ArchiveWriter:
    return ArchiveWriter(desk.platform.settings.archive_path, 10**6, desk.platform.owner.name)


def test_an_archive_folder_of_no_job_goes_when_it_is_old(each: Desk) -> None:
    _own(each)
    old, new = _folder(each, "gone1", "1.warc.gz"), _folder(each, "gone2", "1.warc.gz")
    _age(old)
    assert tick(each, 1) == {"archive_folders": 1}
    assert (old.exists(), new.exists()) == (False, True)


def test_segments_that_no_row_points_to_go_at_the_second_look(each: Desk) -> None:
    _own(each)
    job = each.submit(URL)
    each.work()
    each.archive.close()
    folder = _folder(each, job, "1-torn-0001.warc.gz", "notes.txt")
    _age(folder)
    fresh = folder / "2-new-0001.warc.gz"
    fresh.write_bytes(b"x")
    assert tick(each, 1) == {}
    assert tick(each, 1) == {"segments": 1}
    assert sorted(path.name for path in folder.iterdir() if "-0001" not in path.name) == ["notes.txt"]
    assert fresh.exists()
    page = each.platform.control.page(job, URL)
    assert page.archive is not None
    assert each.platform.archive.read(page.archive).status == 200


def test_nothing_goes_from_an_archive_that_another_database_uses(
    desk: Desk, valkey_url: str, tmp_path: Path, postgres: Any
) -> None:
    old = _folder(desk, "gone1", "1.warc.gz")
    home = tmp_path / "other"
    with a_desk(valkey_url, home, postgres.new_database(), archive_dir=desk.platform.settings.archive_path) as other:
        tick(other, 1)
        tick(desk, 1)
        for owner in (desk.platform.settings.archive_path / ".owners").iterdir():
            _age(owner, 3 * DAY_S)
        _age(old)
        assert tick(desk, 1) == tick(other, 1) == {}
        assert old.exists()


def test_a_database_is_an_owner_from_its_first_segment_on(
    desk: Desk, valkey_url: str, tmp_path: Path, postgres: Any
) -> None:
    """Also when nobody has kept house for it so far."""
    with a_desk(
        valkey_url, tmp_path / "other", postgres.new_database(), archive_dir=desk.platform.settings.archive_path
    ) as other:
        _own(other)
        writer = _writer(desk)
        writer.append("job1", Exchange(URL, 200, "OK", (), b"x", NOW_MS))
        writer.close()
        folder = desk.platform.settings.archive_path / "job1"
        _age(folder)
        assert tick(other, 2) == {}
        assert len(list(folder.iterdir())) == 1


def test_a_database_is_an_owner_before_it_has_anything_in_the_archive(each: Desk) -> None:
    tick(each, 1)
    assert len(list((each.platform.settings.archive_path / ".owners").iterdir())) == 1


def test_what_was_in_the_archive_before_the_database_came_stays(each: Desk) -> None:
    """Somebody moved to another database: to this one the folders of the other are of no job."""
    _own(each)
    job = each.submit(URL)
    each.work()
    before, both = _folder(each, "gone1", "1.warc.gz"), _folder(each, "gone2", "1.warc.gz", "2.warc.gz")
    _age(before, 4 * DAY_S)
    _age(both)
    _age(both / "1.warc.gz", 4 * DAY_S)
    segment = _folder(each, job, "1-other-0001.warc.gz") / "1-other-0001.warc.gz"
    _age(segment, 4 * DAY_S)
    assert tick(each, 3) == {}
    assert (before.exists(), both.exists(), segment.exists()) == (True, True, True)


def test_keeping_house_does_not_make_the_database_come_later(each: Desk) -> None:
    _own(each)
    (owner,) = (each.platform.settings.archive_path / ".owners").iterdir()
    before = owner.stat().st_mtime
    tick(each, 2)
    writer = _writer(each)
    writer.append("job1", Exchange(URL, 200, "OK", (), b"x", NOW_MS))
    writer.close()
    assert owner.stat().st_mtime == before


def test_rows_of_no_job_go(each: Desk) -> None:
    job = each.submit(URL)
    each.work()
    page = _page("gone1", URL)
    each.platform.pages.write([page], [ItemRow("gone1", 1, 0, URL, {})], [_letter("gone1", f"{URL}2")])
    each.platform.jobs.submissions.mark_admitted([each.platform.jobs.submissions.keep("gone2", [URL], 1)])
    each.platform.pages.write([], [], [], found=[FoundLinks("gone3", 1, (URL,)), FoundLinks(job, 1, (URL,))])
    assert tick(each, 1) == {"rows": 5}
    with each.platform.engine.connect() as connection:
        assert connection.execute(sa.select(tables.links.c.job)).scalars().all() == [job]
    assert each.platform.pages.count("gone1") == 0
    assert each.platform.pages.count(job) == 1


# --- counting --------------------------------------------------------------------------------------------------------


def test_repairs_are_a_metric_and_no_outcome(desk: Desk) -> None:
    desk.submit(URL)
    lease(desk)
    with redis_of(desk) as (client, prefix):
        client.delete(f"{prefix}:leases")
    tick(desk)
    text = desk.get("/metrics").get_data(as_text=True)
    assert 'shoal_repairs_total{what="leases"} 1.0' in text
    assert 'shoal_repairs_total{what="lease_groups"} 1.0' in text
    assert "repaired" not in text
    assert not [name for name in desk.get("stats").get_json()["outcomes"] if name.startswith("repaired")]
