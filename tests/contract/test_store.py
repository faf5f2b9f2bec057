"""Rows of jobs, pages, items and dead letters."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.model import Counters, HostSpeed, JobState, JobStatus
from shoal.core.spec import JobSpec
from shoal.errors import InputError, StoreUnavailable
from shoal.store.database import open_database
from shoal.store.jobs import JobStore
from shoal.store.pages import ArchiveRef, DeadLetter, ItemRow, PageRow, PageStore
from tests.postgres import Postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Engine]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'shoal.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database()
    engine = open_database(url)
    yield engine
    engine.dispose()


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
    with pytest.raises(StoreUnavailable, match=r"NOT NULL|not-null"):
        store.write([_page(1), broken], [], [])
    assert store.count("job") == 0


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


def test_a_url_that_is_none_and_a_missing_driver_are_explained() -> None:
    with pytest.raises(InputError, match="SHOAL_DATABASE_URL"):
        open_database("not a url")
    with pytest.raises(StoreUnavailable, match="driver 'cx_Oracle' is missing"):
        open_database("oracle+cx_oracle://host/name")


def test_a_job_comes_back_as_it_was_written(engine: Engine) -> None:
    store = JobStore(engine)
    spec = JobSpec(urls=("http://shop.example/",), name="books", rate="unlimited", fields={"tags[]": ".tag"})
    store.create("job", spec, created_ms=5)
    store.submit("job", ["http://shop.example/", "http://shop.example/ü"])
    store.submit("job", ["http://shop.example/3"])
    row = store.get("job")
    assert row is not None
    assert row.spec == spec.model_copy(update={"urls": ()})
    assert (row.state, row.status) == (JobState.RUNNING, None)
    batches = [["http://shop.example/", "http://shop.example/ü"], ["http://shop.example/3"]]
    assert list(store.submitted("job")) == batches


def test_a_jobs_last_sums_are_kept(engine: Engine) -> None:
    store = JobStore(engine)
    store.create("job", JobSpec(), created_ms=5)
    counters = Counters(seen=3, admitted=3, done=2, dead=1)
    slow = (HostSpeed("shop.example", 30),)
    status = JobStatus("job", JobState.FINISHED, counters, {"dead:http_404": 1}, slow, 10, 20, 30)
    store.record(status)
    row = store.get("job")
    assert row is not None
    assert row.status == status
    assert [found.id for found in store.newest()] == ["job"]


def test_jobs_are_found_by_their_first_letters_and_signs_are_plain(engine: Engine) -> None:
    store = JobStore(engine)
    for job in ("abc", "abd", "a_x"):
        store.create(job, JobSpec(), created_ms=1)
    assert sorted(store.find("ab")) == ["abc", "abd"]
    assert store.find("a_") == ["a_x"]
    assert store.find("%") == []


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
