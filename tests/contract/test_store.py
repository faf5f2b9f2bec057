"""Rows of jobs, pages, items and dead letters."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.host_status import HostSpeed
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState, Lane
from shoal.core.spec import JobSpec
from shoal.errors import InputError, RowRefused, StoreUnavailable
from shoal.store import dead as dead_letters
from shoal.store.claims import Claim, Claimed
from shoal.store.database import open_database
from shoal.store.dead import DeadLetters, Selection, requests_of
from shoal.store.items import ItemRow
from shoal.store.job_rows import NewJob
from shoal.store.jobs import JobFilter, JobStore
from shoal.store.page_rows import ArchiveRef, Capture, DeadLetter, PageRow
from shoal.store.pages import PageStore
from shoal.store.row_filter import RowFilter
from shoal.store.submissions import REPLAY, URLS, Submission
from tests.postgres import Postgres

URL = "http://shop.example/"


def _page(number: int, **changes: object) -> PageRow:
    row = PageRow(
        job="job",
        fingerprint=number - 2**62,
        url=f"http://shop.example/{number}",
        host="shop.example",
        status=200,
        depth=1,
        attempt=0,
        content_type="text/html",
        charset="utf-8",
        size=10,
        elapsed_ms=1.5,
        fetched_ms=1_700_000_000_000,
    )
    return replace(row, **changes)


def _letter(number: int, reason: str) -> DeadLetter:
    return DeadLetter("job", number, f"http://shop.example/{number}", "shop.example", "dead", reason, "", 0, 1, 5)


def test_a_page_written_twice_is_one_row_with_the_newer_values(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([_page(1), _page(2)], [], [])
    newer = _page(1, status=404, archive=ArchiveRef("job/x.warc.gz", 7, 9), redirect="http://shop.example/2")
    store.write([newer], [], [])
    assert store.count("job") == 2
    assert store.page("job", newer.fingerprint) == newer
    assert store.page("job", 12345) is None


def test_a_rendered_page_comes_back_with_what_was_kept_and_seen(engine: Engine) -> None:
    store = PageStore(engine)
    captures = (
        Capture("document", "text/html; charset=utf-8", 12, ArchiveRef("job/a.warc.gz", 10, 20)),
        Capture("screenshot", "image/png", 99, ArchiveRef("job/a.warc.gz", 30, 40)),
    )
    row = _page(1, engine="browser", captures=captures, notes={"console": ["Über\u2028"], "requests": 3})
    store.write([row, _page(2)], [], [])
    first, second = store.pages("job")
    assert first == row
    assert first.capture("screenshot") == captures[1]
    assert first.capture("pdf") is None
    assert (second.engine, second.captures, second.notes) == ("http", (), None)


def test_items_and_letters_are_replaced_by_their_key(engine: Engine) -> None:
    store = PageStore(engine)
    item = ItemRow("job", 1, 0, "http://shop.example/1", {"title": "a", "tags": ["x", "ü"]})
    store.write([], [item, replace(item, number=1)], [_letter(1, "http_404")])
    store.write([], [replace(item, data={"title": "b"})], [_letter(1, "http_410")])
    assert [i.data for i in store.items("job")] == [{"title": "b"}, {"title": "a", "tags": ["x", "ü"]}]
    assert [letter.reason for letter in store.dead_letters("job")] == ["http_410"]


def test_reading_goes_on_where_it_stopped_and_sees_only_its_job(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([_page(n) for n in range(2_500)] + [_page(1, job="other")], [], [])
    first = store.pages_after("job", 0, limit=10)
    rest = store.pages_after("job", first[-1][0], limit=5_000)
    assert len(first) + len(rest) == 2_500
    assert [page.url for page in store.pages("job")] == [page.url for _, page in (*first, *rest)]


def test_a_batch_is_written_whole_or_not_at_all(engine: Engine) -> None:
    store = PageStore(engine)
    broken = _page(2, url=None)
    with pytest.raises(RowRefused, match=r"NOT NULL|not-null"):
        store.write([_page(1), broken], [], [])
    assert store.count("job") == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 2**70}, r"too large|out of range"),
        ({"content_type": "\udc80"}, "surrogates"),
        ({"host": None}, r"NOT NULL|not-null"),
    ],
)
def test_a_row_that_cannot_be_stored_is_no_outage(engine: Engine, changes: dict[str, object], message: str) -> None:
    store = PageStore(engine)
    with pytest.raises(RowRefused, match=message):
        store.write([_page(1), _page(2, **changes)], [], [])
    store.write([_page(1)], [], [])
    assert store.count("job") == 1


def test_what_only_postgresql_refuses_is_no_outage_either(postgres: Postgres) -> None:
    engine = open_database(postgres.new_database())
    store = PageStore(engine)
    with pytest.raises(RowRefused, match="NUL"):
        store.write([_page(1, content_type="text/\0html")], [], [])
    with pytest.raises(RowRefused, match="integer out of range"):
        store.write([_page(1, size=2**31)], [], [])
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE INDEX ON pages (charset)"))
    with pytest.raises(RowRefused, match="index row"):
        store.write([_page(1, charset=random.randbytes(10_000).hex())], [], [])
    engine.dispose()


def test_a_database_without_its_tables_is_an_outage(engine: Engine) -> None:
    store = PageStore(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE pages"))
    with pytest.raises(StoreUnavailable, match="pages"):
        store.write([_page(1)], [], [])


def test_two_writers_of_sqlite_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    engine = open_database(f"sqlite:///{path}")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: (other.execute("COMMIT"), other.close()))
    release.start()
    PageStore(engine).write([_page(1)], [], [])
    release.join()
    assert PageStore(engine).count("job") == 1
    engine.dispose()


def test_many_who_start_at_once_make_the_tables_once(postgres: Postgres, tmp_path: Path) -> None:
    for url in (postgres.new_database(), f"sqlite:///{tmp_path / 'new.db'}"):
        with ThreadPoolExecutor(4) as pool:
            engines = list(pool.map(open_database, [url] * 4))
        for engine in engines:
            assert PageStore(engine).count("job") == 0
            engine.dispose()


def test_nobody_who_starts_at_once_on_a_new_file_is_refused(tmp_path: Path) -> None:
    start = threading.Barrier(4)

    def open_it(url: str) -> Engine:
        start.wait(timeout=10)
        return open_database(url)

    with ThreadPoolExecutor(4) as pool:
        for number in range(40):
            for engine in list(pool.map(open_it, [f"sqlite:///{tmp_path / f'{number}.db'}"] * 4)):
                engine.dispose()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_can_be_opened(url: str) -> None:
    open_database(url).dispose()


def test_a_url_that_is_none_and_a_missing_driver_are_explained() -> None:
    with pytest.raises(InputError, match="SHOAL_DATABASE_URL"):
        open_database("not a url")
    with pytest.raises(StoreUnavailable, match="driver 'cx_Oracle' is missing"):
        open_database("oracle+cx_oracle://host/name")


def test_a_job_comes_back_as_it_was_written(engine: Engine) -> None:
    store = JobStore(engine)
    spec = JobSpec(urls=(URL,), name="books", rate="unlimited", fields={"tags[]": ".tag"}, open=True, labels=("a", "b"))
    batches = [["http://shop.example/", "http://shop.example/ü"], ["http://shop.example/3"]]
    ids = store.create(NewJob("job", spec, 5, "red", "trace-1"), batches)
    row = store.get("job")
    assert row is not None
    assert row.spec == spec.model_copy(update={"urls": (), "open": False})
    assert (row.state, row.status, row.open, row.created_ms) == (JobState.RUNNING, None, True, 5)
    assert (row.tenant, row.request_id, store.request_id("job")) == ("red", "trace-1", "trace-1")
    assert list(store.submissions.urls("job")) == batches
    assert store.submissions.count_urls("job") == 3
    assert len(set(ids)) == 2
    store.close("job")
    closed = store.get("job")
    assert closed is not None
    assert not closed.open


def test_a_job_and_its_urls_are_recorded_whole_or_not_at_all(engine: Engine) -> None:
    store = JobStore(engine)

    def batches() -> Iterator[list[str]]:
        yield [URL]
        raise StoreUnavailable("the disk is full")

    with pytest.raises(StoreUnavailable):
        store.create(NewJob("job", JobSpec(), 5), batches(), Claim("key", "digest"))
    assert store.get("job") is None
    assert list(store.submissions.urls("job")) == []
    assert store.create(NewJob("job", JobSpec(), 5), [], Claim("key", "digest")) == []


def test_a_jobs_last_sums_are_kept(engine: Engine) -> None:
    store = JobStore(engine)
    store.create(NewJob("job", JobSpec(), 5))
    counters = Counters(seen=3, admitted=3, done=2, dead=1)
    slow = (HostSpeed("shop.example", 30),)
    status = JobStatus("job", JobState.FINISHED, counters, {"dead:http_404": 1}, slow, 10, 20, 30)
    store.record(status)
    row = store.get("job")
    assert row is not None
    assert row.status == status
    assert [found.id for found in store.newest()] == ["job"]
    assert store.count_by_state() == {JobState.FINISHED: 1}


def test_an_end_is_undone_only_by_who_knows_it(engine: Engine) -> None:
    store = JobStore(engine)
    store.create(NewJob("job", JobSpec(), 5))
    running = JobStatus("job", JobState.RUNNING, Counters(), started_ms=10)
    store.record(running)
    store.record(replace(running, state=JobState.FINISHED, ended_ms=20))

    def state() -> JobState | None:
        row = store.get("job")
        return row and row.state

    store.record(running)
    assert state() is JobState.FINISHED
    store.reopen(running, 19)
    assert state() is JobState.FINISHED
    store.reopen(running, 20)
    assert state() is JobState.RUNNING
    store.record(replace(running, state=JobState.PAUSED))
    assert state() is JobState.PAUSED


def test_a_changed_spec_is_found_by_what_it_says_now(engine: Engine) -> None:
    store = JobStore(engine)
    spec = JobSpec(name="old", labels=("a",), headers={"Cookie": "x=y"})
    store.create(NewJob("job", spec, 5))
    store.edit("job", lambda old: old.model_copy(update={"name": "new", "labels": ("b",), "lane": Lane.HIGH}))
    assert _found(store, lane="high", label="b") == ["job"]
    assert _found(store, label="a") == _found(store, lane="batch") == []
    row = store.get("job")
    assert row is not None
    assert (row.name, row.spec.headers) == ("new", {"Cookie": "x=y"})


def test_jobs_are_found_by_their_first_letters_and_signs_are_plain(engine: Engine) -> None:
    store = JobStore(engine)
    for job in ("abc", "abd", "a_x"):
        store.create(NewJob(job, JobSpec(), 1))
    assert sorted(store.find("ab")) == ["abc", "abd"]
    assert store.find("a_") == ["a_x"]
    assert store.find("%") == []


# --- submissions -----------------------------------------------------------------------------------------------------


def test_what_was_submitted_waits_until_it_is_marked(engine: Engine) -> None:
    store = JobStore(engine)
    first, second = store.create(NewJob("job", JobSpec(), 5), [["a", "b"], ["c"]])
    store.create(NewJob("other", JobSpec(), 5), [["d"]])
    third = store.submissions.keep("job", ["e"], 7)
    assert list(store.submissions.waiting("job")) == [
        Submission(first, URLS, ["a", "b"]),
        Submission(second, URLS, ["c"]),
        Submission(third, URLS, ["e"]),
    ]
    store.submissions.mark_admitted([first, third])
    assert [submission.id for submission in store.submissions.waiting("job")] == [second]
    assert list(store.submissions.urls("job")) == [["a", "b"], ["c"], ["e"]]
    fourth = store.submissions.keep("job", ["f"], 8, done=[second])
    assert [submission.id for submission in store.submissions.waiting("job")] == [fourth]
    store.submissions.mark_admitted([])
    store.submissions.mark_admitted([fourth, 12_345])
    assert list(store.submissions.waiting("job")) == []
    assert [submission.lines for submission in store.submissions.waiting("other")] == [["d"]]


def test_waiting_submissions_may_be_marked_while_they_are_read(engine: Engine) -> None:
    store = JobStore(engine)
    store.create(NewJob("job", JobSpec(), 5), ([str(n)] for n in range(20)))
    seen: list[str] = []
    for submission in store.submissions.waiting("job"):
        seen += submission.lines
        store.submissions.mark_admitted([submission.id])
    assert seen == [str(n) for n in range(20)]


def test_jobs_cut_short_are_those_with_old_submissions_that_wait(engine: Engine) -> None:
    store = JobStore(engine)
    for job, at in (("old", 10), ("new", 20), ("done", 10), ("empty", 10)):
        ids = store.create(NewJob(job, JobSpec(), at), [] if job == "empty" else [["a"], ["b"]])
        if job == "done":
            store.submissions.mark_admitted(ids)
    assert store.submissions.cut_short(10) == []
    assert store.submissions.cut_short(11) == ["old"]
    assert sorted(store.submissions.cut_short(21)) == ["new", "old"]
    assert len(store.submissions.cut_short(21, limit=1)) == 1


def test_submissions_of_an_older_version_do_not_wait(engine: Engine) -> None:
    """They were there before anybody marked them."""
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO submissions (job, count, urls) VALUES ('job', 0, '')"))
    assert JobStore(engine).submissions.cut_short(2**60) == []


def test_a_batch_of_nothing_is_nothing(engine: Engine) -> None:
    store = JobStore(engine)
    store.create(NewJob("job", JobSpec(), 5), [[]])
    assert list(store.submissions.urls("job")) == [[]]
    assert store.submissions.count_urls("job") == 0


# --- claims ----------------------------------------------------------------------------------------------------------


def _claimed(store: JobStore, job: str, claim: Claim, tenant: str = "red") -> tuple[str, bool] | None:
    """(job, same submission) of an earlier claim; None when this is the first."""
    try:
        store.create(NewJob(job, JobSpec(), 5, tenant), [[URL]], claim)
    except Claimed as earlier:
        return earlier.job, earlier.same
    return None


def test_a_claim_is_made_once_by_a_tenant(engine: Engine) -> None:
    store = JobStore(engine)
    assert _claimed(store, "one", Claim("key", "digest")) is None
    assert _claimed(store, "two", Claim("key", "digest")) == ("one", True)
    assert _claimed(store, "two", Claim("key", "other")) == ("one", False)
    assert _claimed(store, "blue", Claim("key", "digest"), "blue") is None
    assert _claimed(store, "three", Claim("Key", "digest")) is None
    assert store.get("two") is None
    assert list(store.submissions.urls("two")) == []


def test_of_many_who_claim_at_once_one_wins(engine: Engine) -> None:
    store = JobStore(engine)
    start = threading.Barrier(6)

    def claim(number: int) -> tuple[str, bool] | None:
        start.wait(10)
        return _claimed(store, f"job{number}", Claim("key", "digest"))

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(claim, range(6)))
    assert answers.count(None) == 1
    (row,) = store.newest()
    assert {answer for answer in answers if answer} == {(row.id, True)}


def test_claims_are_forgotten_by_age(engine: Engine) -> None:
    store = JobStore(engine)
    for job, at in (("old", 10), ("new", 20)):
        store.create(NewJob(job, JobSpec(), at), [], Claim(job, "digest"))
    store.forget_claims(20)
    assert _claimed(store, "again", Claim("old", "other"), "default") is None
    assert _claimed(store, "again2", Claim("new", "other"), "default") == ("new", False)


# --- lists of jobs ---------------------------------------------------------------------------------------------------


def _found(store: JobStore, limit: int = 50, **wanted: Any) -> list[str]:
    return [row.id for row in store.newest(limit, JobFilter(**wanted))]


def test_jobs_are_filtered(engine: Engine) -> None:
    store = JobStore(engine)
    store.create(NewJob("a", JobSpec(lane=Lane.HIGH, labels=("x.y", "both")), 10, "red"))
    store.create(NewJob("b", JobSpec(labels=("xzy", "both")), 20, "red"))
    store.create(NewJob("c", JobSpec(lane=Lane.SLOW), 30, "blue"))
    store.record(JobStatus("b", JobState.PAUSED, Counters()))
    assert _found(store) == ["c", "b", "a"]
    assert _found(store, tenant="red") == ["b", "a"]
    assert _found(store, state=JobState.PAUSED) == ["b"]
    assert _found(store, lane="high") == ["a"]
    assert _found(store, lane="igh") == []
    assert _found(store, label="x.y") == ["a"]
    assert _found(store, label="both") == ["b", "a"]
    assert _found(store, label="bot") == _found(store, label="x%y") == _found(store, label="") == []
    assert _found(store, since_ms=20) == ["c", "b"]
    assert _found(store, until_ms=20) == ["a"]
    assert _found(store, since_ms=20, until_ms=21, tenant="red", label="both") == ["b"]
    assert store.count_by_state("red") == {JobState.RUNNING: 1, JobState.PAUSED: 1}


def test_a_cursor_goes_through_jobs_of_the_same_moment(engine: Engine) -> None:
    store = JobStore(engine)
    for n in range(25):
        store.create(NewJob(f"job{n:02d}", JobSpec(), n // 10))
    seen: list[str] = []
    before: tuple[int, str] | None = None
    while rows := store.newest(4, JobFilter(before=before)):
        seen += [row.id for row in rows]
        before = (rows[-1].created_ms, rows[-1].id)
    assert seen == [f"job{n:02d}" for n in reversed(range(25))]


# --- removal ---------------------------------------------------------------------------------------------------------


def test_a_job_that_was_given_up_is_nowhere_but_in_the_list_of_those(engine: Engine) -> None:
    store = JobStore(engine)
    store.create(NewJob("job", JobSpec(), 5), [[URL]], Claim("key", "digest"))
    store.create(NewJob("kept", JobSpec(), 5), [[URL]])
    store.give_up("job", 9)
    assert store.get("job") is None
    assert (_found(store), store.find("job"), store.count_by_state()) == (["kept"], [], {JobState.RUNNING: 1})
    assert store.given_up() == ["job"]
    store.remove("job")
    assert (store.given_up(), list(store.submissions.urls("job"))) == ([], [])
    assert list(store.submissions.urls("kept")) == [[URL]]
    assert _claimed(store, "again", Claim("key", "digest"), "default") is None


def test_rows_of_a_job_are_removed_in_batches(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([_page(n) for n in range(25)] + [_page(1, job="other")], [], [_letter(n, "x") for n in range(5)])
    rounds = 0
    while not store.remove("job", at_most=10):
        rounds += 1
        assert rounds < 10
    assert rounds == 3
    assert (store.count("job"), store.count("other"), list(store.dead_letters("job"))) == (0, 1, [])


def test_a_database_is_looked_at_and_a_file_that_is_gone_noticed(engine: Engine, tmp_path: Path) -> None:
    store = JobStore(engine)
    store.ping()
    if engine.dialect.name == "sqlite":
        (tmp_path / "shoal.db").rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreUnavailable, match="is gone"):
            store.ping()


# --- rows of pages, items and letters --------------------------------------------------------------------------------


def test_rows_are_filtered_by_what_they_are_about(engine: Engine) -> None:
    store = PageStore(engine)
    pages = [_page(n, status=200 if n % 2 else 404, host=f"h{n % 3}", fetched_ms=n) for n in range(6)]
    items = [ItemRow("job", row.fingerprint, 0, row.url, {"n": 1}) for row in pages]
    letters = [replace(_letter(n, f"r{n % 2}"), host=f"h{n % 3}", at_ms=n) for n in range(6)]
    letters[5] = replace(letters[5], outcome="robots")
    store.write(pages, items, letters)

    def urls(read: Callable[..., list[tuple[int, Any]]], **wanted: Any) -> list[int]:
        return [int(row.url.rpartition("/")[2]) for _, row in read("job", 0, 100, RowFilter(**wanted))]

    assert urls(store.pages_after, status=404) == [0, 2, 4]
    assert urls(store.pages_after, host="h1", since_ms=2) == [4]
    assert urls(store.pages_after, since_ms=1, until_ms=3) == [1, 2]
    assert urls(store.items_after, host="h0") == [0, 3]
    assert urls(store.items_after, status=200, until_ms=3) == [1]
    assert urls(store.letters_after, reason="r1") == [1, 3, 5]
    assert urls(store.letters_after, outcome="dead", reason="r1") == [1, 3]
    assert urls(store.letters_after, since_ms=4) == [4, 5]
    assert urls(store.letters_after) == [0, 1, 2, 3, 4, 5]


def test_a_page_is_found_by_the_number_of_its_row(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([_page(1), _page(2)], [], [])
    for number, row in store.pages_after("job", 0):
        assert store.page_by_id(number) == row
    assert store.page_by_id(99) is None


def test_fingerprints_are_those_of_pages_and_letters(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([_page(n) for n in range(3)], [], [_letter(7, "x")])
    seen = {each for batch in store.seen("job") for each in batch}
    assert {fingerprint for fingerprint, _ in seen} == {*(n - 2**62 for n in range(3)), 7}
    assert {host for _, host in seen} == {_page(0).host}
    assert store.known("job", [7, 8, 1 - 2**62]) == {7, 1 - 2**62}
    assert store.known("other", [7]) == set()
    assert store.known("job", []) == set()


# --- dead letters on their way back ----------------------------------------------------------------------------------


def _take(engine: Engine, newest: int | None = None, **chosen: Any) -> list[str]:
    letters = DeadLetters(engine)
    limit = letters.newest("job") if newest is None else newest
    taken = letters.take("job", Selection(**chosen), 9, limit)
    return [] if taken is None else [line.rpartition("/")[2] for line in taken.lines]


def test_letters_are_taken_by_choice_and_only_once(engine: Engine) -> None:
    store = PageStore(engine)
    letters = [replace(_letter(n, f"r{n % 2}"), host=f"h{n % 3}") for n in range(9)]
    letters[8] = replace(letters[8], outcome="robots")
    store.write([], [], [*letters, replace(_letter(1, "r1"), job="other")])
    ids = {row.url.rpartition("/")[2]: number for number, row in store.letters_after("job", 0)}
    assert _take(engine, ids=[ids["2"], ids["8"], 99_999]) == ["2"]
    assert _take(engine, reason="r1", host="h0") == ["3"]
    assert _take(engine, host="h1") == ["1", "4", "7"]
    assert _take(engine, reason="nothing") == []
    assert _take(engine) == ["0", "5", "6"]
    assert _take(engine) == []
    assert [letter.outcome for letter in store.dead_letters("job")] == ["robots"]
    assert len(list(store.dead_letters("other"))) == 1


def test_what_is_taken_waits_as_a_submission_of_its_own_kind(engine: Engine) -> None:
    letter = replace(_letter(1, "http_404"), depth=3, callback="detail", meta='{"from": "a list"}')
    PageStore(engine).write([], [], [letter])
    jobs = JobStore(engine)
    jobs.create(NewJob("job", JobSpec(), 5))
    taken = DeadLetters(engine).take("job", Selection(), 9, 99)
    assert taken is not None
    assert list(jobs.submissions.waiting("job")) == [taken]
    assert taken.kind == REPLAY
    assert list(jobs.submissions.urls("job")) == []  # these are URLs that somebody named
    assert jobs.submissions.count_urls("job") == 0
    ((request, reason),) = requests_of(taken.lines)
    assert (str(request.url), request.depth, reason) == ("http://shop.example/1", 3, "http_404")
    assert (request.callback, request.meta) == ("detail", '{"from": "a list"}')
    assert jobs.submissions.cut_short(10) == ["job"]


def test_letters_are_taken_in_batches_and_not_beyond_the_newest(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "TAKE_AT_ONCE", 3)
    store = PageStore(engine)
    store.write([], [], [_letter(n, "x") for n in range(5)])
    newest = DeadLetters(engine).newest("job")
    store.write([], [], [_letter(5, "x")])
    assert [_take(engine, newest) for _ in range(3)] == [["0", "1", "2"], ["3", "4"], []]
    assert DeadLetters(engine).newest("nothing") == 0


def test_the_number_of_a_letter_that_went_is_not_given_to_another(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([], [], [_letter(n, "x") for n in range(3)])
    newest = DeadLetters(engine).newest("job")
    assert len(_take(engine)) == 3
    store.write([], [], [_letter(1, "x")])
    ((number, _),) = store.letters_after("job", 0)
    assert number > newest


def test_many_who_take_at_once_share_the_letters(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "TAKE_AT_ONCE", 7)
    PageStore(engine).write([], [], [_letter(n, "x") for n in range(100)])
    newest = DeadLetters(engine).newest("job")
    start = threading.Barrier(4)

    def take_all(_: int) -> list[str]:
        start.wait(10)
        taken: list[str] = []
        while batch := _take(engine, newest):
            taken += batch
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = [number for part in pool.map(take_all, range(4)) for number in part]
    assert sorted(taken, key=int) == [str(n) for n in range(100)]


# --- opening ---------------------------------------------------------------------------------------------------------


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot open the database"):
        open_database(f"sqlite:///{tmp_path / 'missing' / 'shoal.db'}")
    (tmp_path / "text.db").write_text("this is no database, and long enough to be read as one " * 50)
    with pytest.raises(StoreUnavailable, match="not a database"):
        open_database(f"sqlite:///{tmp_path / 'text.db'}")


def test_who_reads_on_after_an_id_misses_no_row_of_a_slower_writer(postgres: Postgres) -> None:
    """PostgreSQL gives out ids before it commits; writers of one job take turns."""
    engine = open_database(postgres.new_database())
    store = PageStore(engine)
    with engine.connect() as slow, ThreadPoolExecutor(1) as pool:
        slow.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext("job"))))
        second = pool.submit(store.write, [_page(2)], [], [])
        store.write([_page(1, job="other")], [], [])  # another job does not wait
        with pytest.raises(TimeoutError):
            second.result(timeout=0.3)
        slow.rollback()
        second.result(timeout=10)
    assert store.count("job") == 1
    engine.dispose()
