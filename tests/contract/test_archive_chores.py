"""What the housekeeping and the API do with an archive that is in an object store."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from shoal import leftovers
from shoal.store import parts as parts_module
from shoal.store import remote
from shoal.store.archive import Exchange
from shoal.store.database import make_engine
from shoal.store.objects import Objects
from shoal.store.parts import PARTS
from shoal.store.remote import RemoteFolders, RemoteWriter
from tests.contract.api import Desk, a_desk, told
from tests.contract.test_reconcile import tick
from tests.postgres import Postgres
from tests.s3 import S3
from tests.waiting import wait_until

URL = "http://shop.example/"
SHORTLY = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket."""

    server: S3
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/archive"

    def names(self, folder: str = "") -> list[str]:
        found = [key.removeprefix("archive/") for key in self.server.keys(self.name)]
        return [key for key in found if key.startswith(folder)]


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(leftovers, "SECOND_LOOK", timedelta())
    return Bucket(s3, s3.new_bucket())


@pytest.fixture
def stored(bucket: Bucket, valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path / "home", archive_url=bucket.url) as desk:
        yield desk


def age_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is there was written two days ago, for who looks now."""

    def two_days(_written: datetime, _now: datetime) -> timedelta:
        return timedelta(days=2)

    monkeypatch.setattr(remote, "since", two_days)


def crawled(desk: Desk) -> str:
    job = desk.submit(f"{URL}1", f"{URL}2")
    desk.work()
    desk.archive.close()
    return job


def test_a_deleted_job_is_gone_from_the_store(stored: Desk, bucket: Bucket) -> None:
    gone, kept = crawled(stored), crawled(stored)
    wait_until(lambda: len(bucket.names(gone)) == len(bucket.names(kept)) == 1, within=SHORTLY)
    assert stored.delete(f"jobs/{gone}").status_code in (202, 204)
    tick(stored, 2)
    assert [key for key in bucket.names() if gone in key] == []
    assert len(bucket.names(kept)) == 1


def test_objects_of_no_job_go_when_they_are_old(
    stored: Desk, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = crawled(stored)
    place = stored.platform.settings.archive_place
    assert place
    lost = RemoteWriter(tmp_path / "lost", Objects(place), 10**6)
    for job in ("gone1", "gone2"):
        lost.append(job, Exchange(URL, 200, "OK", (), b"x", 1))
    lost.flush()
    lost.close("gone1")
    wait_until(lambda: len(bucket.names("gone1/")) == 1, within=SHORTLY)
    assert tick(stored, 1) == {}
    age_all(monkeypatch)
    assert tick(stored, 1)["archive_folders"] == 2
    assert [key for key in bucket.names() if "gone" in key] == []
    assert len(bucket.names(kept)) == 1
    lost.end()


def test_segments_that_no_row_points_to_go_at_the_second_look(
    stored: Desk, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = crawled(stored)
    stored.archive.append(job, Exchange(URL, 200, "OK", (), b"x", 1))
    stored.archive.flush()
    stored.archive.close()
    wait_until(lambda: len(bucket.names(f"{job}/")) == 2, within=SHORTLY)
    tick(stored, 1)
    age_all(monkeypatch)
    assert tick(stored, 1) == {}
    assert tick(stored, 1) == {"segments": 1}
    assert len(bucket.names(f"{job}/")) == 1
    page = stored.platform.control.page(job, f"{URL}1")
    assert page.archive is not None
    assert stored.platform.archive.read(page.archive).status == 200


def test_what_a_lost_machine_left_in_parts_is_made_whole(
    stored: Desk, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = stored.submit(f"{URL}1")
    stored.archive.append(job, Exchange(URL, 200, "OK", (), b"x", 1))
    stored.archive.flush()
    assert tick(stored, 1) == {}
    assert bucket.names(f"{PARTS}/{job}/")
    monkeypatch.setattr(parts_module, "GATHER_AFTER", timedelta())
    assert tick(stored, 1) == {"parts": 1}
    assert bucket.names(f"{PARTS}/") == []
    assert len(bucket.names(f"{job}/")) == 1


def test_another_api_on_another_machine_sends_the_same_body(
    bucket: Bucket, valkey_url: str, tmp_path: Path, postgres: Postgres
) -> None:
    database = postgres.new_database()
    with (
        a_desk(valkey_url, tmp_path / "a", database, archive_url=bucket.url) as one,
        a_desk(valkey_url, tmp_path / "b", database, archive_url=bucket.url) as other,
    ):
        job = one.submit(f"{URL}1")
        one.work()
        (row,) = other.rows(f"jobs/{job}/pages")
        here, there = one.get(row["body"]), other.get(row["body"])
        assert here.status_code == there.status_code == 200
        assert here.get_data() == there.get_data() != b""
        one.archive.close()
        wait_until(lambda: len(bucket.names(f"{job}/")) == 1, within=SHORTLY)
        assert other.get(row["body"]).get_data() == here.get_data()


def test_an_api_is_not_ready_without_its_store(stored: Desk, bucket: Bucket, valkey_url: str, tmp_path: Path) -> None:
    assert told(stored.client().get("/readyz"))["checks"]["archive"]["ok"]
    with a_desk(valkey_url, tmp_path / "x", archive_url=f"{bucket.url}".replace(bucket.name, "no-such")) as desk:
        answer = told(desk.client().get("/readyz"), 503)
        assert not answer["checks"]["archive"]["ok"]
        assert "s3://no-such" in answer["checks"]["archive"]["detail"]


def test_databases_of_sqlite_on_two_machines_are_two_owners(
    stored: Desk, bucket: Bucket, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each calls its file the same."""
    crawled(stored)
    tick(stored, 1)
    assert len(bucket.names(".owners/")) == 1
    with a_desk(valkey_url, tmp_path / "other", archive_url=bucket.url) as other:
        tick(other, 1)
        assert len(bucket.names(".owners/")) == 2
        age_all(monkeypatch)
        before = bucket.names()
        tick(other, 2)
        tick(stored, 2)
        assert set(before) <= set(bucket.names()) | {".clock"}


def _in_schema(url: str, name: str) -> str:
    """Another database for all that Shoal sees, on the same server and by the same name."""
    engine = make_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    made = sa.make_url(url).update_query_dict({"options": f"-csearch_path={name}"})
    return made.render_as_string(hide_password=False)


def test_two_installations_whose_databases_are_called_alike_leave_each_other_alone(
    bucket: Bucket, valkey_url: str, tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgres.new_database()
    urls = [_in_schema(database, name) for name in ("one", "other")]
    with (
        a_desk(valkey_url, tmp_path / "one", urls[0], archive_url=bucket.url) as one,
        a_desk(valkey_url, tmp_path / "other", urls[1], archive_url=bucket.url) as other,
    ):
        tick(one, 1)
        tick(other, 1)
        jobs = [crawled(one), crawled(other)]
        wait_until(lambda: all(len(bucket.names(f"{job}/")) == 1 for job in jobs), within=SHORTLY)
        age_all(monkeypatch)
        tick(one, 2)
        tick(other, 2)
        assert [len(bucket.names(f"{job}/")) for job in jobs] == [1, 1]
        assert len(bucket.names(".owners/")) == 2


def test_a_clock_that_is_a_month_ahead_makes_nothing_in_the_store_old(
    stored: Desk, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a segment whose rows are not there yet nothing else tells that they will be."""
    tick(stored, 1)
    place = stored.platform.settings.archive_place
    assert place
    folders = RemoteFolders(stored.platform.settings.archive_path, Objects(place), stored.platform.owner)
    wait_until(lambda: folders.owned() >= timedelta(seconds=2), within=SHORTLY)  # the store's times are in seconds
    job = crawled(stored)
    stored.archive.append(job, Exchange(URL, 200, "OK", (), b"x", 1))
    stored.archive.flush()
    stored.archive.close()
    wait_until(lambda: len(bucket.names(f"{job}/")) == 2, within=SHORTLY)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 30 * 86_400)
    assert "segments" not in tick(stored, 3)
    assert len(bucket.names(f"{job}/")) == 2
