"""Delivering results when there is no room, or when it is too late: nothing is done without its bytes."""

from __future__ import annotations

import gzip
import random
import subprocess
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from shoal.control import Ending
from shoal.core.model import Candidate, JobState, Outcome, Request, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.errors import ArchiveUnavailable, StoreUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.watch import Watch
from shoal.store.archive import ArchiveReader, ArchiveWriter, Attachment, Exchange
from shoal.store.database import open_database
from shoal.store.history import HistoryStore
from shoal.store.items import ItemRow
from shoal.store.job_rows import NewJob
from shoal.store.jobs import JobStore
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from shoal.store.segment import MARKERS
from shoal.worker.delivery import Delivery
from shoal.worker.result import Result
from tests.conftest import lack
from tests.contract.frontier_calls import MINUTE, SOON, counters, lease, pages, reap_soon

BODY_BYTES = 100_000


@dataclass(frozen=True)
class Depot:
    """A frontier with one job of ten pages, stores, and a worker's way to deliver to them."""

    frontier: Frontier
    engine: Engine
    jobs: JobStore
    pages: PageStore
    root: Path
    writer: ArchiveWriter
    delivery: Delivery

    @classmethod
    def at(cls, frontier: Frontier, engine: Engine, root: Path) -> Depot:
        jobs, store, writer = JobStore(engine), PageStore(engine), ArchiveWriter(root, 10**9)
        ending = Ending(frontier, jobs, HistoryStore(engine))
        delivery = Delivery(frontier, store, writer, ending.finalise, lives=lambda job: jobs.get(job) is not None)
        return cls(frontier, engine, jobs, store, root, writer, delivery)

    def submit(self, job: str = "job") -> None:
        spec = JobSpec(urls=("https://a.test/",), rate="unlimited")
        self.jobs.create(NewJob(job, spec, 1), [["https://a.test/"]])
        self.frontier.create(job, spec)
        self.frontier.admit(job, pages("a.test", 10))
        self.frontier.close(job)

    def fetch(self, count: int, lease_for: timedelta = MINUTE) -> list[Result]:
        """Results of leases, with bodies that cannot be packed."""
        leases = lease(self.frontier, count, lease_for)
        return [_result(each.job, each.request, Settlement(each, Outcome.DONE)) for each in leases]

    def stored(self, job: str = "job") -> list[PageRow]:
        return list(self.pages.pages(job))

    def check_bytes(self, results: Sequence[Result]) -> None:
        """Each row's bytes are those that were fetched, and every segment can be read from start to end."""
        bodies = {result.page.url: result.exchange.body for result in results if result.page and result.exchange}
        reader = ArchiveReader(self.root)
        rows = self.stored()
        assert {row.url for row in rows} == bodies.keys()
        for row in rows:
            assert row.archive
            assert reader.read(row.archive).body == bodies[row.url]
        for path in self.root.glob("*/*.warc.gz"):
            with gzip.open(path) as file:
                assert file.read().startswith(b"WARC/1.1")

    def records(self) -> int:
        found = [gzip.decompress(path.read_bytes()) for path in self.root.glob("*/*.warc.gz")]
        return sum(text.count(b"WARC-Type: response") for text in found)


def _result(job: str, request: Request, settlement: Settlement) -> Result:
    url = str(request.url)
    body = random.randbytes(BODY_BYTES)
    row = PageRow(job, request.url.fingerprint, url, request.url.host, 200, 0, 0, "", "", len(body), 1.0, 1)
    exchange = Exchange(url, 200, "OK", (), body, 1)
    item = ItemRow(job, request.url.fingerprint, 0, url, {"title": url})
    return Result(settlement, page=row, exchange=exchange, items=(item,))


def test_links_that_scripts_have_written_are_written_down(frontier: Frontier, engine: Engine, tmp_path: Path) -> None:
    """The body that is kept does not have them, and what a browser made of it is not rendered again."""
    depot = Depot.at(frontier, engine, tmp_path)
    depot.submit()
    (result,) = depot.fetch(1)
    assert result.page
    made = (Attachment("document", "text/html; charset=utf-8", b"<a href=/made>"), Attachment("pdf", "x/y", b"%PDF"))
    links: list[Candidate] = [Request(parse("https://a.test/made"), 1)]
    page = replace(result.page, engine="browser", notes={"requests": 2})
    depot.delivery.deliver([replace(result, page=page, attachments=made, candidates=links)])
    depot.writer.close()
    (row,) = depot.stored()
    reader = ArchiveReader(depot.root)
    assert [reader.read_attachment(each.archive) for each in row.captures] == [each.body for each in made]
    assert [each.kind for each in row.captures] == ["document", "pdf"]
    assert row.archive
    assert not row.tells_links
    ((stored, found),) = depot.pages.stored({"job": [row.fingerprint]})
    assert stored == row
    assert [each.urls for each in found] == [("https://a.test/made",)]


class SmallDisk:
    """A file system of its own, whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.folder)], check=True)

    def used_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[SmallDisk]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        lack("a small file system can only be mounted by root")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def engine(tmp_path: Path) -> Generator[Engine]:
    engine = open_database(f"sqlite:///{tmp_path / 'shoal.db'}")
    yield engine
    engine.dispose()


@pytest.fixture
def depot(frontier: Frontier, engine: Engine, tmp_path: Path) -> Generator[Depot]:
    depot = Depot.at(frontier, engine, tmp_path / "archive")
    depot.submit()
    yield depot
    depot.writer.close()


def test_no_room_for_the_archive_leaves_nothing_done_and_nothing_half_written(
    frontier: Frontier, engine: Engine, small_disk: SmallDisk
) -> None:
    depot = Depot.at(frontier, engine, small_disk.folder / "archive")
    depot.submit()
    first, rest = depot.fetch(2), depot.fetch(8)
    depot.delivery.deliver(first)
    used = small_disk.used_bytes()
    for _ in range(3):
        with pytest.raises(ArchiveUnavailable, match="No space left on device"):
            depot.delivery.deliver(rest)
        assert small_disk.used_bytes() == used, "what was half written is taken back"
    depot.check_bytes(first)
    assert (counters(frontier, "job").done, counters(frontier, "job").leased) == (2, 8)
    small_disk.resize("4m")
    depot.delivery.deliver(rest)
    depot.check_bytes([*first, *rest])
    assert depot.records() == 10
    assert [row.state for row in depot.jobs.newest(10)] == [JobState.FINISHED]
    assert list((depot.root / MARKERS).iterdir()) == []


def test_no_room_for_the_database_leaves_nothing_done_and_archives_nothing_twice(
    frontier: Frontier, tmp_path: Path, small_disk: SmallDisk
) -> None:
    engine = open_database(f"sqlite:///{small_disk.folder / 'shoal.db'}")
    depot = Depot.at(frontier, engine, tmp_path / "archive")
    depot.submit()
    results = depot.fetch(10)
    filler = small_disk.folder / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            depot.delivery.deliver(results)
    assert depot.stored() == []
    assert (counters(frontier, "job").done, counters(frontier, "job").leased) == (0, 10)
    filler.unlink()
    depot.delivery.deliver(results)
    depot.check_bytes(results)
    assert depot.records() == 10
    depot.writer.close()
    engine.dispose()


def test_a_late_delivery_is_counted_and_changes_nothing(depot: Depot, watch: Watch) -> None:
    late = depot.fetch(10, SOON)
    assert reap_soon(depot.frontier)[0] == 10
    second = Depot.at(depot.frontier, depot.engine, depot.root)
    timely = second.fetch(10)
    second.delivery.deliver(timely)
    ids = [number for number, _ in depot.pages.pages_after("job", 0)]
    report = depot.delivery.deliver(late)
    assert (report.late, report.ended) == (10, ())
    assert watch.stats()["late"] == 10
    assert [number for number, _ in depot.pages.pages_after("job", 0)] == ids
    assert [item.url for item in depot.pages.items("job")] == [row.url for row in depot.stored()]
    depot.check_bytes(late)
    assert depot.frontier.status("job") is None, "a job that has ended is not brought back"


@pytest.mark.parametrize("removed", [False, True])
def test_a_late_delivery_leaves_nothing_of_a_job_that_was_deleted_meanwhile(depot: Depot, removed: bool) -> None:
    depot.submit("other")
    stored, late = depot.fetch(5), depot.fetch(15, SOON)
    depot.delivery.deliver(stored)
    assert reap_soon(depot.frontier)[0] == 15
    depot.frontier.cancel("job")
    depot.jobs.give_up("job", 1)
    if removed:
        depot.frontier.forget("job")
        ArchiveReader(depot.root).remove("job")
        assert depot.pages.remove("job") or depot.pages.remove("job")
        depot.jobs.remove("job")
    assert depot.delivery.deliver(late).late == 15
    assert depot.stored("job") == []
    assert list(depot.pages.items("job")) == []
    kept = [result for result in (*stored, *late) if result.settlement.lease.job == "other"]
    assert {row.url for row in depot.stored("other")} == {result.page.url for result in kept if result.page}
    if removed:
        assert not (depot.root / "job").exists()
        assert depot.frontier.known_jobs() == ["other"]
