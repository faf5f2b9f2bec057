"""Work on its way in: whatever is cut short, wherever, is completed, and nothing that has ended comes back to life.

A crash is an exception that nobody catches, before or after any call to the database or the frontier. Each test goes
through all of them, one after the other, with and without a worker that is quicker than the repair.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from shoal import housekeeping
from shoal.core.model import JobState, Lease, Request
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.errors import Conflict, RedisUnavailable, Unfinished
from shoal.intake import intake
from shoal.intake.lines import Line
from shoal.store import dead as dead_letters
from shoal.store.claims import Claim
from shoal.store.dead import Selection
from shoal.worker.result import Result
from tests.contract.api import Desk, dead, page, some_dead

URL = "http://shop.example/"
BATCH = 3
EVERYTHING = Selection()

FRONTIER_CALLS = (
    *("create", "admit", "admit_submitted", "close", "cancel", "forget"),
    *("restore", "remember", "replay", "status"),
)
JOB_CALLS = ("create", "get", "record", "close")
SUBMISSION_CALLS = ("keep", "mark_admitted", "waiting")

_jobs = count(1)


class Crash(BaseException):
    """The process is gone."""


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches of a few URLs, and a housekeeper without patience."""
    monkeypatch.setattr(intake, "SUBMIT_AT_ONCE", BATCH)
    monkeypatch.setattr(intake, "START_AT_ONCE", BATCH)
    monkeypatch.setattr(dead_letters, "TAKE_AT_ONCE", BATCH)
    monkeypatch.setattr(housekeeping, "PATIENCE", timedelta(seconds=-2))


# --- crashes ---------------------------------------------------------------------------------------------------------


def crashes_at(desk: Desk, step: int, run: Callable[[], object]) -> bool:
    """Run this; the process is gone before or after the call with this number. False: it has come to its end."""
    passed = count()
    platform = desk.platform

    def tripwire() -> None:
        if next(passed) == step:
            raise Crash

    with pytest.MonkeyPatch.context() as patch:
        for owner, names in (
            (platform.frontier, FRONTIER_CALLS),
            (platform.jobs, JOB_CALLS),
            (platform.jobs.submissions, SUBMISSION_CALLS),
            (platform.intake._replays._dead, ("newest", "take")),  # pyright: ignore[reportPrivateUsage]
            (platform.pages, ("seen",)),
        ):
            for name in names:
                patch.setattr(owner, name, _tripped(getattr(owner, name), tripwire))
        try:
            run()
        except Crash:
            return True
        return False


def _tripped(call: Callable[..., Any], tripwire: Callable[[], None]) -> Callable[..., Any]:
    def tripped(*args: Any, **more: Any) -> Any:
        tripwire()
        answer = call(*args, **more)
        tripwire()
        return answer

    return tripped


def every_crash(desk: Desk, prepare: Callable[[], Callable[[], object]]) -> Iterator[int]:
    """The number of each step at which it crashed; stops when it came to its end."""
    for step in count():
        if not crashes_at(desk, step, prepare()):
            return
        yield step


def recover(desk: Desk, *, quick_worker: bool, visit: Callable[[Lease], Result] = page) -> Counter[str]:
    """The housekeeper and a worker do their work; returns how often each URL was fetched."""
    fetched = Counter(desk.work(visit)) if quick_worker else Counter[str]()
    for _ in range(3):
        desk.platform.housekeeper.tick()
        fetched.update(desk.work(visit))
    return fetched


def check_finished(desk: Desk, job: str, urls: set[str]) -> None:
    """The job has exactly these URLs, each once, and nothing of it is left in the frontier."""
    row = desk.platform.control.job(job)
    assert row.state is JobState.FINISHED
    assert row.status is not None
    counters = row.status.counters
    assert counters.reconciles
    assert (counters.admitted, counters.pending) == (len(urls), 0)
    assert min(counters.done, counters.dead, counters.dropped) >= 0
    stored = [found.url for found in desk.platform.pages.pages(job)]
    letters = [letter.url for letter in desk.platform.pages.dead_letters(job)]
    assert sorted(stored + letters) == sorted(urls)
    assert (counters.done, counters.dead) == (len(stored), len(letters))
    assert list(desk.platform.jobs.submissions.waiting(job)) == []
    assert job not in desk.platform.frontier.known_jobs()


def some_urls(number: int = 7) -> list[str]:
    prefix = next(_jobs)
    return [f"{URL}{prefix}/{n}" for n in range(number)]


def spec_of(urls: list[str], **settings: Any) -> JobSpec:
    return JobSpec.model_validate({"urls": urls, "follow": False, "rate": "unlimited", **settings})


def only_job(desk: Desk, urls: list[str]) -> str | None:
    """The job that was made of these URLs."""
    for row in desk.platform.jobs.newest(1):
        if {url for batch in desk.platform.jobs.submissions.urls(row.id) for url in batch} == set(urls):
            return row.id
    return None


# --- a new job -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quick_worker", [False, True])
def test_a_submission_that_crashes_anywhere_is_completed_or_was_never_there(desk: Desk, quick_worker: bool) -> None:
    urls: list[str] = []

    def prepare() -> Callable[[], object]:
        urls[:] = some_urls()
        return lambda: desk.platform.intake.submit(spec_of(urls))

    steps = 0
    for _ in every_crash(desk, prepare):
        steps += 1
        fetched = recover(desk, quick_worker=quick_worker)
        job = only_job(desk, urls)
        if job is None:
            assert not fetched
            continue
        assert fetched == Counter(urls)
        check_finished(desk, job, set(urls))
    assert steps > 10


@pytest.mark.parametrize("quick_worker", [False, True])
def test_a_client_that_tries_again_after_a_crash_gets_the_same_job(desk: Desk, quick_worker: bool) -> None:
    urls: list[str] = []
    claims = count(1)
    claim = Claim("", "")

    def prepare() -> Callable[[], object]:
        nonlocal claim
        urls[:] = some_urls(4)
        claim = Claim(f"key-{next(claims)}", "digest")
        return lambda: desk.platform.intake.submit(spec_of(urls), claim=claim)

    for _ in every_crash(desk, prepare):
        fetched = Counter(desk.work()) if quick_worker else Counter[str]()
        recorded = only_job(desk, urls)
        accepted = desk.platform.intake.submit(spec_of(urls), claim=claim)
        assert accepted.job == (recorded or accepted.job)
        assert accepted.repeated == (recorded is not None)
        fetched.update(desk.work())
        assert fetched == Counter(urls)
        fetched.update(recover(desk, quick_worker=False))
        assert fetched == Counter(urls)
        check_finished(desk, accepted.job, set(urls))


def test_an_open_job_stays_open_through_a_crash(desk: Desk) -> None:
    urls: list[str] = []

    def prepare() -> Callable[[], object]:
        urls[:] = some_urls()
        return lambda: desk.platform.intake.submit(spec_of(urls, open=True))

    for _ in every_crash(desk, prepare):
        fetched = recover(desk, quick_worker=True)
        if job := only_job(desk, urls):
            assert fetched == Counter(urls)
            assert desk.state(job) is JobState.RUNNING
            desk.platform.control.close(job)
            check_finished(desk, job, set(urls))


def test_redis_away_after_the_commit_is_told_with_the_job(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> Any:
        raise RedisUnavailable("gone")

    urls = some_urls()
    for name in ("create", "admit_submitted", "close"):
        with monkeypatch.context() as patch:
            patch.setattr(desk.platform.frontier, name, away)
            with pytest.raises(Unfinished) as caught:
                desk.platform.intake.submit(spec_of(urls))
        assert caught.value.job in str(caught.value)
        assert recover(desk, quick_worker=False) == Counter(urls)
        check_finished(desk, caught.value.job, set(urls))


def test_a_housekeeper_who_comes_too_early_does_no_harm(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It completes what is just being submitted: both do the same, and neither does it twice."""
    urls = some_urls(30)
    close = desk.platform.frontier.close
    fetched: Counter[str] = Counter()

    def meanwhile(job: str) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(desk.platform.frontier, "close", close)
            desk.platform.housekeeper.tick()
            fetched.update(desk.work())
        return close(job)

    monkeypatch.setattr(desk.platform.frontier, "close", meanwhile)
    job = desk.platform.intake.submit(spec_of(urls)).job
    monkeypatch.undo()
    fetched.update(recover(desk, quick_worker=True))
    assert fetched == Counter(urls)
    check_finished(desk, job, set(urls))


def test_a_worker_that_is_done_with_one_batch_before_the_next_loses_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = some_urls(10)
    crashes_at(desk, 1, lambda: desk.platform.intake.submit(spec_of(urls)))  # recorded, and no more
    job = only_job(desk, urls)
    assert job
    admit = desk.platform.frontier.admit_submitted
    fetched: Counter[str] = Counter()

    def quickly(*args: Any, **more: Any) -> Any:
        report = admit(*args, **more)
        fetched.update(desk.work())
        return report

    monkeypatch.setattr(desk.platform.frontier, "admit_submitted", quickly)
    desk.platform.housekeeper.tick()
    monkeypatch.setattr(desk.platform.frontier, "admit_submitted", admit)
    fetched.update(recover(desk, quick_worker=True))
    assert fetched == Counter(urls)
    check_finished(desk, job, set(urls))


# --- more URLs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quick_worker", [False, True])
def test_a_stream_that_crashes_anywhere_loses_nothing_that_was_recorded(desk: Desk, quick_worker: bool) -> None:
    urls: list[str] = []
    job = ""

    def prepare() -> Callable[[], object]:
        nonlocal job
        urls[:] = some_urls(8)
        job = desk.platform.intake.submit(spec_of([], open=True)).job
        row = desk.platform.control.job(job)
        lines = [(number, url, "") for number, url in enumerate(urls, 1)]
        return lambda: desk.platform.intake.add(row, iter(lines))

    steps = 0
    for _ in every_crash(desk, prepare):
        steps += 1
        recorded = [url for batch in desk.platform.jobs.submissions.urls(job) for url in batch]
        assert set(recorded) <= set(urls)
        fetched = recover(desk, quick_worker=quick_worker)
        assert fetched == Counter(recorded)
        added = desk.platform.intake.add(desk.platform.control.job(job), [(1, url, "") for url in urls])
        assert (added.accepted, added.seen) == (len(urls) - len(recorded), len(recorded))
        fetched.update(desk.work())
        desk.platform.control.close(job)
        assert fetched == Counter(urls)
        check_finished(desk, job, set(urls))
    assert steps > 8


def test_a_job_that_ends_in_the_middle_of_a_stream_stays_ended(desk: Desk) -> None:
    for end in (desk.platform.control.cancel, desk.platform.control.close):
        job = desk.platform.intake.submit(spec_of([], open=True)).job
        row = desk.platform.control.job(job)

        def lines(end: Any = end, job: str = job) -> Iterator[Line]:
            for number, url in enumerate(some_urls(10), 1):
                if number == 5:
                    desk.work()
                    end(job)
                yield number, url, ""

        with pytest.raises(Conflict, match="ended"):
            desk.platform.intake.add(row, lines())
        state = desk.state(job)
        assert state.ended
        recover(desk, quick_worker=True)
        assert desk.state(job) is state
        assert job not in desk.platform.frontier.known_jobs()
        assert list(desk.platform.jobs.submissions.waiting(job)) == []


# --- nothing comes back to life --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.CANCELLED])
def test_what_waits_for_a_job_that_has_ended_is_let_go(desk: Desk, state: JobState) -> None:
    urls = some_urls(2)
    job = desk.platform.intake.submit(spec_of(urls)).job
    if state is JobState.CANCELLED:
        desk.platform.control.cancel(job)
    desk.work()
    assert desk.state(job) is state
    desk.platform.jobs.submissions.keep(job, some_urls(2), 1)
    assert recover(desk, quick_worker=False) == Counter()
    assert (desk.state(job), list(desk.platform.jobs.submissions.waiting(job))) == (state, [])
    assert desk.platform.frontier.known_jobs() == []


def test_what_waits_for_a_deleted_job_is_removed_with_it(desk: Desk) -> None:
    crashes_at(desk, 1, lambda: desk.platform.intake.submit(spec_of(some_urls())))
    (row,) = desk.platform.jobs.newest(1)
    desk.platform.control.delete(row.id)
    assert recover(desk, quick_worker=False) == Counter()
    assert list(desk.platform.jobs.submissions.urls(row.id)) == []
    assert desk.platform.frontier.known_jobs() == []


def test_a_job_that_is_cancelled_before_its_submission_is_completed_stays_cancelled(desk: Desk) -> None:
    for step in count():
        urls = some_urls()
        if not crashes_at(desk, step, lambda urls=urls: desk.platform.intake.submit(spec_of(urls))):
            break
        job = only_job(desk, urls)
        if job is None:
            continue
        desk.platform.control.cancel(job)
        assert recover(desk, quick_worker=True) == Counter(), step
        assert desk.state(job) is JobState.CANCELLED, step
        assert job not in desk.platform.frontier.known_jobs()


# --- another try -----------------------------------------------------------------------------------------------------


def _half_dead(desk: Desk, urls: list[str], **settings: Any) -> str:
    """A finished job of which every odd URL is dead."""
    job = desk.platform.intake.submit(spec_of(urls, **settings)).job
    desk.work(some_dead("1", "3", "5", "7", "9"))
    assert desk.platform.control.job(job).state is JobState.FINISHED
    assert job not in desk.platform.frontier.known_jobs()
    return job


def test_a_finished_job_goes_on_for_its_dead_letters_only(each: Desk) -> None:
    urls = some_urls(10)
    job = _half_dead(each, urls)
    before = each.platform.control.job(job)
    assert each.platform.intake.replay(before, EVERYTHING) == 5
    running = each.platform.control.job(job)
    assert running.state is JobState.RUNNING
    assert running.status is not None
    assert (running.status.counters.done, running.status.counters.dead, running.status.counters.queued) == (5, 0, 5)
    assert running.status.reasons == {}
    assert Counter(each.work(some_dead("9"))) == Counter(urls[1::2])
    check_finished(each, job, set(urls))
    after = each.platform.control.job(job)
    assert after.status is not None
    assert (after.status.counters.done, after.status.reasons) == (9, {"dead:http_404": 1})
    assert after.created_ms == before.created_ms


def test_what_the_job_has_seen_is_not_fetched_again(desk: Desk) -> None:
    """The page that was dead links to all that was fetched before."""
    urls = some_urls(6)
    job = _half_dead(desk, urls, follow=True)
    desk.platform.intake.replay(desk.platform.control.job(job), EVERYTHING)
    new = urls[0] + "/new"

    def visit(lease: Lease) -> Result:
        result = page(lease)
        result.candidates.extend(Request(parse(url), depth=1) for url in (*urls, new))
        return result

    assert Counter(desk.work(visit)) == Counter([*urls[1::2], new])
    check_finished(desk, job, {*urls, new})


@pytest.mark.parametrize("quick_worker", [False, True])
def test_a_replay_that_crashes_anywhere_is_completed_or_has_not_begun(desk: Desk, quick_worker: bool) -> None:
    urls: list[str] = []
    job = ""

    def prepare() -> Callable[[], object]:
        nonlocal job
        urls[:] = some_urls(10)
        job = _half_dead(desk, urls)
        row = desk.platform.control.job(job)
        return lambda: desk.platform.intake.replay(row, EVERYTHING)

    steps = 0
    for step in every_crash(desk, prepare):
        steps += 1
        taken = 5 - sum(1 for _ in desk.platform.pages.dead_letters(job))
        fetched = recover(desk, quick_worker=quick_worker)
        assert sum(fetched.values()) == taken, step
        assert set(fetched) <= set(urls[1::2])
        check_finished(desk, job, set(urls))
    assert steps > 20


@pytest.mark.parametrize("quick_worker", [False, True])
def test_a_replay_in_a_running_job_that_crashes_anywhere_is_completed(desk: Desk, quick_worker: bool) -> None:
    urls: list[str] = []
    job = ""

    def prepare() -> Callable[[], object]:
        nonlocal job
        urls[:] = some_urls(8)
        job = desk.platform.intake.submit(spec_of(urls)).job
        desk.work(dead, at_most=4)
        row = desk.platform.control.job(job)
        assert row.state is JobState.RUNNING
        return lambda: desk.platform.intake.replay(row, EVERYTHING)

    for step in every_crash(desk, prepare):
        taken = 4 - sum(1 for _ in desk.platform.pages.dead_letters(job))
        fetched = recover(desk, quick_worker=quick_worker)
        assert sum(fetched.values()) == taken + 4, step
        assert max(fetched.values()) == 1
        check_finished(desk, job, set(urls))


def test_a_replay_crashed_in_the_middle_still_knows_what_the_job_has_seen(desk: Desk) -> None:
    urls: list[str] = []
    job = ""

    def prepare() -> Callable[[], object]:
        nonlocal job
        urls[:] = some_urls(6)
        job = _half_dead(desk, urls, follow=True)
        row = desk.platform.control.job(job)
        return lambda: desk.platform.intake.replay(row, EVERYTHING)

    def visit(lease: Lease) -> Result:
        result = page(lease)
        result.candidates.extend(Request(parse(url), depth=1) for url in urls)
        return result

    for step in every_crash(desk, prepare):
        fetched = recover(desk, quick_worker=False, visit=visit)
        assert set(fetched) <= set(urls[1::2]), step
        check_finished(desk, job, set(urls))


def test_letters_that_die_again_meanwhile_wait_for_another_call(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = some_urls(10)
    job = _half_dead(desk, urls)
    replay = desk.platform.frontier.replay

    def quickly(*args: Any) -> Any:
        state = replay(*args)
        desk.work(dead)
        return state

    monkeypatch.setattr(desk.platform.frontier, "replay", quickly)
    assert desk.platform.intake.replay(desk.platform.control.job(job), EVERYTHING) == 5
    check_finished(desk, job, set(urls))
    assert sum(1 for _ in desk.platform.pages.dead_letters(job)) == 5


def test_a_replay_twice_is_a_replay_once(each: Desk) -> None:
    urls = some_urls(10)
    job = _half_dead(each, urls)
    row = each.platform.control.job(job)
    assert [each.platform.intake.replay(row, EVERYTHING) for _ in range(3)] == [5, 0, 0]
    assert Counter(each.work()) == Counter(urls[1::2])
    assert each.platform.intake.replay(row, EVERYTHING) == 0
    check_finished(each, job, set(urls))


def test_many_replays_at_once_try_each_letter_once(each: Desk) -> None:
    urls = some_urls(40)
    job = _half_dead(each, urls)
    row = each.platform.control.job(job)
    start = threading.Barrier(6)

    def replay(_: int) -> int:
        start.wait(10)
        return each.platform.intake.replay(row, EVERYTHING)

    with ThreadPoolExecutor(6) as pool:
        counts = list(pool.map(replay, range(6)))
    assert sum(counts) == 20
    fetched = Counter(each.work())
    each.platform.housekeeper.tick()
    fetched.update(each.work())
    assert fetched == Counter(urls[1::2])
    check_finished(each, job, set(urls))


def test_replays_while_the_job_ends_again_and_again(desk: Desk) -> None:
    """Every letter that is taken is fetched, however the job's ends and returns fall together."""
    urls = some_urls(20)
    job = _half_dead(desk, urls)
    stop = threading.Event()
    fetched: Counter[str] = Counter()

    def work() -> None:
        while not stop.is_set():
            fetched.update(desk.work(some_dead("1", "3", "5")))

    taken = 0
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        for _ in range(30):
            taken += desk.platform.intake.replay(desk.platform.control.job(job), Selection())
        stop.set()
        working.result(20)
    fetched.update(recover(desk, quick_worker=True))
    assert sum(fetched.values()) == taken
    assert taken >= 10
    check_finished(desk, job, set(urls))


def test_a_cancelled_job_has_no_other_try(desk: Desk) -> None:
    job = desk.platform.intake.submit(spec_of(some_urls(4))).job
    desk.work(dead, at_most=2)
    desk.platform.control.cancel(job)
    with pytest.raises(Conflict, match="cancelled"):
        desk.platform.intake.replay(desk.platform.control.job(job), EVERYTHING)
    assert sum(1 for _ in desk.platform.pages.dead_letters(job)) == 2
