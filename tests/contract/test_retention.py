"""How long jobs are kept, and the one way in which they go."""

from __future__ import annotations

import time
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shoal.core.model import ALL_QUEUES, JobState
from shoal.frontier.scripts import connect
from shoal.store import tables
from shoal.store.dead import DeadLetters, Selection
from shoal.store.ended import EndedJobs, Outdated
from shoal.store.submissions import REMOVE_AT_ONCE
from shoal.store.vacuum import vacuum
from shoal.wiring import redis_urls
from tests.contract.api import Desk, a_desk, refused, some_dead, told
from tests.contract.databases import DATABASES, a_database

URL = "http://shop.example/"
DAY_MS = 86_400_000


@pytest.fixture(params=DATABASES)
def monthly(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    """One whose operator keeps jobs for thirty days."""
    with a_desk(valkey_url, tmp_path, a_database(request, tmp_path), keep_days=30) as desk:
        yield desk


def ended(desk: Desk, days_ago: float, **settings: Any) -> str:
    """A job that ended so long ago."""
    job = desk.submit(f"{URL}{days_ago}", **settings)
    desk.work()
    at = time.time_ns() // 1_000_000 - int(days_ago * DAY_MS)
    with desk.platform.engine.begin() as connection:
        connection.execute(sa.update(tables.jobs).where(tables.jobs.c.id == job).values(ended_ms=at))
    return job


def keep_house(desk: Desk) -> list[str]:
    """One round with every chore; the jobs that there are then."""
    client = connect(redis_urls(desk.platform.settings).frontier)
    for chore in desk.platform.housekeeper.chores():
        client.delete(f"{desk.platform.settings.prefix}:chore:{chore.name}")
    client.close()
    desk.platform.housekeeper.tick()
    return sorted(row.id for row in desk.platform.jobs.newest(100))


def rows(desk: Desk, job: str) -> int:
    named = (tables.pages, tables.items, tables.dead_letters, tables.submissions, tables.idempotency)
    with desk.platform.engine.connect() as connection:
        counts = [
            connection.execute(sa.select(sa.func.count()).where(table.c.job == job)).scalar_one() for table in named
        ]
        return sum(counts) + len(connection.execute(sa.select(tables.jobs).where(tables.jobs.c.id == job)).all())


def test_without_a_word_jobs_are_kept_for_ever(each: Desk) -> None:
    job = ended(each, 3000)
    assert keep_house(each) == [job]


def test_a_job_is_kept_for_as_long_as_it_says(each: Desk) -> None:
    ended(each, 2, keep="1d")
    kept = [ended(each, 0.5, keep="1d"), ended(each, 40), each.submit(URL, keep="1h")]
    assert keep_house(each) == sorted(kept)


def test_a_clock_that_runs_ahead_removes_no_job_before_its_time(each: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = ended(each, 0.5, keep="1d")
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 30 * DAY_MS * 10**6)
    assert keep_house(each) == [job]


def test_a_job_that_does_not_say_is_kept_for_as_long_as_the_operator_says(monthly: Desk) -> None:
    ended(monthly, 31)
    ended(monthly, 20, keep="7d")
    kept = [ended(monthly, 29), ended(monthly, 31, keep="90d"), ended(monthly, 3000, keep="forever")]
    assert keep_house(monthly) == sorted(kept)


def test_everything_of_a_job_whose_time_has_come_goes(each: Desk) -> None:
    spec = {"urls": [f"{URL}1", f"{URL}2"], "follow": False, "rate": "unlimited", "keep": "1d"}
    job = told(each.post("jobs", spec, headers={"Idempotency-Key": "k1"}), 202)["id"]
    each.work(some_dead("2"))
    each.archive.close()
    folder = each.platform.settings.archive_path / job
    assert rows(each, job) == 5
    assert folder.is_dir()
    with each.platform.engine.begin() as connection:
        connection.execute(sa.update(tables.jobs).where(tables.jobs.c.id == job).values(ended_ms=1))
    assert keep_house(each) == []
    assert (rows(each, job), folder.exists()) == (0, False)


def test_how_long_a_job_is_kept_can_be_changed_after_its_end(each: Desk) -> None:
    job = ended(each, 2, keep="1d")
    assert told(each.patch(f"jobs/{job}", {"keep": "forever"}))["spec"]["keep"] == "forever"
    assert keep_house(each) == [job]
    told(each.patch(f"jobs/{job}", {"keep": "1h"}))
    assert keep_house(each) == []


def test_what_nobody_can_mean_is_refused(each: Desk) -> None:
    for keep in (30, "soon", True, "100000d", -1):
        refused(each.post("jobs", {"urls": [URL], "keep": keep}), 422)


def test_a_job_whose_dead_letters_wait_for_another_try_stays(each: Desk) -> None:
    job = each.submit(URL, keep="1h")
    each.work(some_dead("/"))
    with each.platform.engine.begin() as connection:
        connection.execute(sa.update(tables.jobs).where(tables.jobs.c.id == job).values(ended_ms=1))
    letter = each.platform.pages.letters_after(job, 0)[0][0]
    assert DeadLetters(each.platform.engine).take(job, Selection(), 1, letter) is not None
    assert each.platform.retention.outdated(Outdated(time.time_ns())) == []


def test_a_job_that_has_gone_on_since_it_was_found_stays(each: Desk) -> None:
    job = each.submit(URL)
    each.work(some_dead("/"))
    (found,) = each.platform.retention.outdated(Outdated(time.time_ns()))
    each.platform.intake.replay(each.platform.control.job(job), Selection())
    assert each.platform.retention.give_up(found) is False
    assert each.state(job) is JobState.RUNNING
    assert each.work() == [URL]


def test_a_job_that_was_called_back_while_it_was_given_up_is_ended_and_goes(each: Desk) -> None:
    job = each.submit(URL)
    held = each.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=timedelta(minutes=1)).leases
    each.platform.jobs.give_up(job, 1)
    assert each.platform.retention.remove(job, 1) is False
    each.platform.frontier.release(held)
    assert each.platform.retention.remove(job, 1) is True
    assert rows(each, job) == 0


def test_jobs_are_chosen_by_age_state_and_label(each: Desk) -> None:
    old, new, labelled = ended(each, 9), ended(each, 1), ended(each, 8, labels=["nightly"])
    cancelled = each.submit(URL)
    each.platform.control.cancel(cancelled)
    now = time.time_ns() // 1_000_000 + 1_000

    def chosen(wanted: Outdated) -> list[str]:
        return [job.id for job in EndedJobs(each.platform.engine).outdated(wanted)]

    assert chosen(Outdated(now)) == [old, labelled, new, cancelled]
    assert chosen(Outdated(now - 5 * DAY_MS)) == [old, labelled]
    assert chosen(Outdated(now, (JobState.CANCELLED,))) == [cancelled]
    assert chosen(Outdated(now, label="nightly")) == [labelled]
    assert chosen(Outdated(now, label="night")) == []


def test_what_would_go_is_weighed(each: Desk) -> None:
    job = each.submit(f"{URL}1", f"{URL}2")
    each.work()
    each.archive.close()
    (weight,) = each.platform.retention.weigh(each.platform.retention.outdated(Outdated(time.time_ns())))
    size = sum(path.stat().st_size for path in (each.platform.settings.archive_path / job).iterdir())
    assert (weight.job.id, weight.pages, weight.bytes) == (job, 2, size)


def test_a_removal_that_was_cut_short_is_gone_on_with(each: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = each.platform.jobs
    job = each.submit(URL, open=True)
    jobs.submissions.mark_admitted([jobs.submissions.keep(job, [f"{URL}{n}"], 1) for n in range(REMOVE_AT_ONCE + 5)])
    each.platform.control.cancel(job)
    (found,) = each.platform.retention.outdated(Outdated(time.time_ns()))
    assert each.platform.retention.give_up(found)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "remove", interrupt)
        with pytest.raises(KeyboardInterrupt):
            each.platform.retention.remove(job, 10)
    assert each.platform.retention.given_up() == [job]
    assert keep_house(each) == []
    assert (rows(each, job), each.platform.retention.given_up()) == (0, [])


def test_the_file_of_sqlite_shrinks_and_postgresql_needs_none_of_it(each: Desk) -> None:
    jobs = each.platform.jobs
    job = each.submit(open=True)
    jobs.submissions.mark_admitted(
        [jobs.submissions.keep(job, [f"{URL}{n}-{time.time_ns()}" for n in range(5_000)], 1) for _ in range(5)]
    )
    each.platform.control.delete(job)
    assert keep_house(each) == []
    reclaimed = vacuum(each.platform.engine)
    if each.platform.engine.dialect.name == "postgresql":
        assert reclaimed is None
    else:
        assert reclaimed is not None
        assert reclaimed.after < reclaimed.before
