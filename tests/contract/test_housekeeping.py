"""What nobody waits for: ends that were missed, data that was given up, lists that grow; a little at a time."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
import structlog

from shoal import housekeeping
from shoal.core.ledger import Ask
from shoal.core.model import ALL_QUEUES, JobState, Outcome, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.errors import ArchiveUnavailable, RedisUnavailable, StoreUnavailable
from shoal.frontier.host_change import HostChange
from shoal.frontier.scripts import connect
from shoal.store import tables
from shoal.store.claims import Claim
from shoal.store.items import ItemRow
from shoal.store.job_rows import NewJob
from shoal.store.page_rows import DeadLetter, PageRow
from shoal.wiring import redis_urls
from tests.contract.api import NOW_MS, Desk, a_desk
from tests.contract.keyspace import key_names
from tests.waiting import wait_until

URL = "http://shop.example/"
AT_ONCE = timedelta(seconds=-2)
DAY_MS = 86_400_000


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "PATIENCE", AT_ONCE)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _end_unseen(desk: Desk, job: str) -> None:
    """A worker settles the last request, and dies before it writes the end down."""
    leases = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=10, lease_for=timedelta(minutes=1)).leases
    report = desk.platform.frontier.settle([Settlement(lease, Outcome.DONE) for lease in leases])
    assert report.ended == (job,)


# --- ends ------------------------------------------------------------------------------------------------------------


def test_an_end_that_nobody_wrote_down_is_recorded(each: Desk, impatient: None) -> None:
    job = each.submit(URL)
    _end_unseen(each, job)
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.state is JobState.RUNNING
    each.platform.housekeeper.tick()
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.status is not None
    assert (row.state, row.status.counters.done) == (JobState.FINISHED, 1)
    assert each.platform.frontier.known_jobs() == []


def test_an_end_of_just_now_is_left_to_the_worker(desk: Desk) -> None:
    assert timedelta(seconds=1) <= housekeeping.PATIENCE <= timedelta(minutes=1)
    job = desk.submit(URL)
    _end_unseen(desk, job)
    desk.platform.housekeeper.tick()
    assert desk.platform.frontier.known_jobs() == [job]


def test_jobs_that_run_are_left_alone(desk: Desk, impatient: None) -> None:
    job, paused, open_ = desk.submit(URL), desk.submit(URL + "2"), desk.submit(open=True)
    desk.platform.control.pause(paused)
    for _ in range(3):
        desk.platform.housekeeper.tick()
    assert [desk.state(name) for name in (job, paused, open_)] == [JobState.RUNNING, JobState.PAUSED, JobState.RUNNING]
    assert sorted(desk.platform.frontier.known_jobs()) == sorted([job, paused, open_])


def test_who_looked_before_the_end_does_not_undo_it(each: Desk) -> None:
    job = each.submit(URL)
    before = each.platform.frontier.status(job)
    assert before is not None
    each.work()
    each.platform.jobs.record(before)
    assert each.state(job) is JobState.FINISHED
    after = each.platform.jobs.get(job)
    assert after is not None
    assert after.status is not None
    each.platform.jobs.reopen(before, (after.status.ended_ms or 0) + 1)
    assert each.state(job) is JobState.FINISHED


# --- submissions -----------------------------------------------------------------------------------------------------


def test_a_submission_of_just_now_is_left_to_who_submits(desk: Desk) -> None:
    desk.platform.jobs.create(NewJob("job1", JobSpec(), _now_ms()), [[URL]])
    desk.platform.housekeeper.tick()
    assert desk.platform.frontier.known_jobs() == []


def test_an_old_submission_is_completed(each: Desk) -> None:
    spec = JobSpec(follow=False, rate="unlimited")
    each.platform.jobs.create(NewJob("job1", spec, _now_ms() - 60_000, request_id="r7"), [[URL], [URL + "2"]])
    each.platform.housekeeper.tick()
    assert each.rings == [("http.batch", "r7")]
    assert sorted(each.work()) == [URL, URL + "2"]
    assert each.state("job1") is JobState.FINISHED


def test_a_clock_that_is_an_hour_behind_puts_no_submission_off(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.platform.jobs.create(NewJob("job1", JobSpec(follow=False), _now_ms() - 60_000), [[URL]])
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * 10**9)
    desk.platform.housekeeper.tick()
    assert desk.platform.frontier.known_jobs() == ["job1"]


def test_many_old_submissions_are_completed_round_by_round(desk: Desk) -> None:
    spec = JobSpec(follow=False, rate="unlimited")
    for n in range(230):
        desk.platform.jobs.create(NewJob(f"job{n}", spec, 1), [[f"{URL}{n}"]])
    for _ in range(3):
        desk.platform.housekeeper.tick()
    assert len(desk.work()) == 230
    assert desk.platform.jobs.submissions.cut_short(_now_ms()) == []


# --- removal ---------------------------------------------------------------------------------------------------------


def _fill(desk: Desk, job: str, rows: int) -> None:
    urls = [parse(f"{URL}{n}") for n in range(rows)]
    pages = [
        PageRow(job, url.fingerprint, str(url), url.host, 200, 0, 0, "text/html", "", 1, 1.0, NOW_MS) for url in urls
    ]
    items = [ItemRow(job, row.fingerprint, 0, row.url, {}) for row in pages]
    letters = [DeadLetter(job, row.fingerprint, row.url, row.host, "dead", "x", "", 0, 1, 1) for row in pages]
    desk.platform.pages.write(pages, items, letters)


def _rows(desk: Desk, job: str) -> int:
    with desk.platform.engine.connect() as connection:
        return sum(
            connection.execute(sa.select(sa.func.count()).where(table.c.job == job)).scalar_one()
            for table in (tables.pages, tables.items, tables.dead_letters, tables.submissions, tables.idempotency)
        )


def test_a_large_job_is_removed_a_little_at_a_time(each: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "REMOVE_BATCHES", 2)
    remove = each.platform.pages.remove

    def remove_some(job: str) -> bool:
        return remove(job, 40)

    monkeypatch.setattr(each.platform.pages, "remove", remove_some)
    job, other = each.submit(URL, name="large"), each.submit(URL)
    _fill(each, job, 200)
    _fill(each, other, 10)
    each.platform.control.delete(job)
    left = [_rows(each, job)]
    while left[-1]:
        each.platform.housekeeper.tick()
        left.append(_rows(each, job))
        assert len(left) < 10
    assert len(left) > 3
    assert left == sorted(left, reverse=True)
    assert _rows(each, other) == 31
    assert each.platform.jobs.given_up() == []


def test_everything_of_a_deleted_job_goes(each: Desk) -> None:
    each.platform.intake.submit(JobSpec(urls=(URL,), follow=False), claim=Claim("key", "digest"))
    (row,) = each.platform.jobs.newest(1)
    each.work()
    each.archive.close()
    each.platform.control.delete(row.id)
    assert (each.platform.settings.archive_path / row.id).is_dir()
    each.platform.housekeeper.tick()
    assert not (each.platform.settings.archive_path / row.id).exists()
    assert _rows(each, row.id) == 0
    client = connect(redis_urls(each.platform.settings).frontier)
    assert not [key for key in key_names(client, each.platform.settings.prefix) if row.id in key]
    client.close()


def test_a_deleted_job_whose_worker_died_is_removed_when_its_leases_have_run_out(desk: Desk) -> None:
    job = desk.submit(URL)
    leased = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=timedelta(minutes=1)).leases
    desk.platform.control.delete(job)
    desk.platform.housekeeper.tick()
    assert desk.platform.jobs.given_up() == [job]
    desk.platform.frontier.renew([lease.group for lease in leased], timedelta(milliseconds=1))
    wait_until(lambda: desk.platform.watch.expired_leases() == 1)
    desk.platform.housekeeper.tick()
    assert desk.platform.jobs.given_up() == []


def test_one_job_that_cannot_be_removed_holds_up_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [desk.submit(f"{URL}{n}") for n in range(5)]
    desk.work()
    for job in jobs:
        desk.platform.control.delete(job)
    stubborn = desk.platform.jobs.given_up()[0]
    rmtree = shutil.rmtree

    def refuse(path: Path, *args: Any, **more: Any) -> None:
        if path.name == stubborn:
            raise PermissionError(13, "not yours")
        rmtree(path, *args, **more)

    with monkeypatch.context() as patch, structlog.testing.capture_logs() as logs:
        patch.setattr(shutil, "rmtree", refuse)
        desk.platform.housekeeper.tick()
    assert desk.platform.jobs.given_up() == [stubborn]
    (failed,) = [entry for entry in logs if entry["event"] == "chore_failed"]
    assert (failed["job"], "not yours" in failed["error"]) == (stubborn, True)
    desk.platform.housekeeper.tick()
    assert desk.platform.jobs.given_up() == []


# --- what grows, what fails ------------------------------------------------------------------------------------------


def test_idempotency_keys_are_kept_for_a_day(each: Desk) -> None:
    for age, name in ((2 * DAY_MS, "old"), (DAY_MS // 2, "new")):
        new = NewJob(name, JobSpec(), _now_ms() - age)
        each.platform.jobs.submissions.mark_admitted(each.platform.jobs.create(new, [], Claim(name, "d")))
    each.platform.housekeeper.tick()
    with each.platform.engine.connect() as connection:
        assert list(connection.execute(sa.select(tables.idempotency.c.key)).scalars()) == ["new"]


def _ask(at_ms: int, job: str = "job1") -> Ask:
    return Ask(at_ms, "shop.example", job, URL, 200)


def test_the_ledger_is_kept_for_as_long_as_is_said(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, ledger_days=2) as desk:
        times = [_now_ms() - age * DAY_MS // 2 for age in (9, 5, 3, 1)]
        desk.platform.pages.write([], [], [], [_ask(at) for at in times])
        desk.platform.housekeeper.tick()
        assert [entry.ask.at_ms for entry in desk.platform.ledger.read("shop.example")] == times[2:]


def test_the_ledger_has_no_more_rows_than_is_said(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "TRIM_BATCHES", 1)
    with a_desk(valkey_url, tmp_path, ledger_rows=1_000) as desk:
        desk.platform.pages.write([], [], [], [_ask(_now_ms()) for _ in range(8_000)])
        left: list[int] = []
        for _ in range(3):
            desk.platform.housekeeper.tick()
            left.append(desk.platform.ledger.summary("shop.example").requests)
    assert left == [3_000, 1_000, 1_000]


def test_what_a_deleted_job_asked_stays_in_the_ledger(each: Desk) -> None:
    job = each.submit(URL)
    each.work()
    each.platform.pages.write([], [], [], [_ask(_now_ms(), job)])
    each.platform.control.delete(job)
    each.platform.housekeeper.tick()
    assert _rows(each, job) == 0
    assert [entry.ask.job for entry in each.platform.ledger.read("shop.example")] == [job]


def test_hosts_that_nobody_asks_for_leave_the_list(desk: Desk) -> None:
    desk.platform.hosts.set("kept.example", HostChange(rate=1.0))
    desk.platform.frontier.configure_host("passing.example", HostChange(hold=timedelta(seconds=1)))
    client = cast(Any, connect(redis_urls(desk.platform.settings).frontier))
    key = f"{desk.platform.settings.prefix}:hosts"
    client.zadd(key, {"kept.example": 1, "passing.example": 1})
    desk.platform.housekeeper.tick()
    assert client.zrange(key, 0, -1) == ["kept.example"]
    client.close()


@pytest.mark.parametrize(
    ("owner", "call", "error"),
    [
        ("jobs.submissions", "cut_short", StoreUnavailable("gone")),
        ("frontier", "ended_jobs", RedisUnavailable("gone")),
        ("jobs", "given_up", StoreUnavailable("gone")),
        ("archive", "remove", ArchiveUnavailable("gone")),
        ("frontier", "sweep", RedisUnavailable("gone")),
        ("jobs", "forget_claims", StoreUnavailable("gone")),
    ],
)
def test_a_chore_that_fails_is_logged_and_the_others_are_done(
    desk: Desk, impatient: None, monkeypatch: pytest.MonkeyPatch, owner: str, call: str, error: Exception
) -> None:
    def fail(*_: object) -> Any:
        raise error

    deleted, ended = desk.submit(URL + "1"), desk.submit(URL + "2")
    desk.platform.control.delete(deleted)
    _end_unseen(desk, ended)
    desk.platform.jobs.create(NewJob("cut", JobSpec(follow=False), 1), [[URL]])
    with monkeypatch.context() as patch, structlog.testing.capture_logs() as logs:
        patch.setattr(attrgetter(owner)(desk.platform), call, fail)
        desk.platform.housekeeper.tick()
    assert len([entry for entry in logs if entry["event"] == "chore_failed"]) == 1
    done = [
        desk.platform.frontier.status("cut") is not None,
        desk.platform.frontier.status(ended) is None,
        desk.platform.jobs.given_up() == [],
    ]
    assert done.count(False) <= 1
    desk.platform.housekeeper.tick()
    assert desk.platform.frontier.status("cut") is not None
    assert desk.platform.frontier.status(ended) is None
    assert desk.platform.jobs.given_up() == []


def test_two_housekeepers_at_once_do_no_harm(valkey_url: str, tmp_path: Path, impatient: None) -> None:
    with a_desk(valkey_url, tmp_path) as one:
        spec = JobSpec(follow=False, rate="unlimited")
        for n in range(30):
            one.platform.jobs.create(NewJob(f"job{n}", spec, 1), [[f"{URL}{n}"]])
        with a_desk(valkey_url, tmp_path, prefix=one.platform.settings.prefix) as two, ThreadPoolExecutor(2) as pool:
            ticks = [pool.submit(desk.platform.housekeeper.tick) for desk in (one, two, one, two)]
            for tick in ticks:
                tick.result(30)
        assert len(one.work()) == 30
        assert one.platform.jobs.count_by_state() == {JobState.FINISHED: 30}
