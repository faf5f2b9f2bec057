"""The archive in an object store, by real processes: fetched on one machine, read on another."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from shoal.core.output import Place
from shoal.store.database import open_database
from shoal.store.jobs import JobStore
from shoal.store.objects import Objects
from shoal.store.pages import PageStore
from shoal.store.remote import RemoteReader
from tests.command import Shoal
from tests.postgres import Postgres
from tests.s3 import S3, free_port, running_s3
from tests.site.server import Server
from tests.waiting import wait_until

FAST = ("--rate", "unlimited", "--no-robots")
SOON = timedelta(seconds=60)


def on_s3(shoal: Shoal, server: S3, bucket: str, *more: tuple[str, str]) -> Shoal:
    return replace(shoal, extra=(*server.environment.items(), ("SHOAL_ARCHIVE_URL", f"s3://{bucket}/archive"), *more))


def read_all(shoal: Shoal, job: str, database: str = "") -> int:
    """Every record that a row points to, by a reader with a folder of its own; returns how many there are."""
    bucket = urlsplit(dict(shoal.extra)["SHOAL_ARCHIVE_URL"]).netloc
    engine = open_database(database or f"sqlite:///{shoal.home / 'shoal.db'}")
    reader = RemoteReader(shoal.home / "nothing", Objects(Place("s3", bucket, "archive")))
    refs = [(row.url, row.archive) for row in PageStore(engine).pages(job) if row.archive]
    engine.dispose()
    for url, ref in refs:
        assert reader.read(ref).url == url
    return len(refs)


def use(server: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process as well, which reads."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def machines(
    shoal: Shoal, s3: S3, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Shoal, Shoal, str]:
    """Two homes on one database and one bucket, each with a Redis of its own: what they share outlives both."""
    use(s3, monkeypatch)
    bucket, database = s3.new_bucket(), ("SHOAL_DATABASE_URL", postgres.new_database())
    one = on_s3(shoal, s3, bucket, database)
    return one, replace(one, home=tmp_path / "other"), bucket


def test_pages_are_read_on_another_machine_when_the_first_is_gone(
    machines: tuple[Shoal, Shoal, str], bookshop: Server, s3: S3
) -> None:
    one, other, bucket = machines
    done = one.run("crawl", bookshop.url, *FAST, "--pages", "30", "--workers", "2", "--json", "-q")
    assert done.code == 0, done.err
    job = done.json["job"]
    shutil.rmtree(one.home / "archive", ignore_errors=True)
    assert read_all(other, job, dict(other.extra)["SHOAL_DATABASE_URL"]) >= 30
    assert "<h1" in other.run("page", job, bookshop.url).out
    keys = s3.keys(bucket)
    assert [key for key in keys if "/.parts/" in key] == []
    assert 1 <= len([key for key in keys if key.startswith(f"archive/{job}/")]) <= 4
    done = other.run("extract", job, "--field", "heading=h1", "--as", "v2", "-q")
    assert done.code == 0, done.err
    assert len(other.run("results", job, "--version", "v2").records) >= 20
    removed = other.run("prune", "--older-than", "0s", "--yes")
    assert removed.code == 0, removed.err
    assert [key for key in s3.keys(bucket) if job in key] == []


def test_a_machine_is_lost_in_mid_crawl_and_another_one_goes_on(
    machines: tuple[Shoal, Shoal, str], bookshop: Server, valkey_url: str
) -> None:
    """Its processes are killed and its home is gone: every row that it has written has its bytes."""
    shared = (("SHOAL_REDIS_URL", valkey_url), ("SHOAL_PREFIX", "lost-machine"), ("SHOAL_LEASE_SECONDS", "3"))
    one, other = (replace(each, extra=(*each.extra, *shared)) for each in machines[:2])
    database = dict(other.extra)["SHOAL_DATABASE_URL"]
    with one.running("worker", "--concurrency", "2"):
        pages = ("--pages", "150", "--rate", "50", "--parallel", "16", "--no-robots")
        job = other.run("crawl", bookshop.url, *pages, "--detach").out.strip()
        wait_until(lambda: other.status(job)["counters"]["done"] >= 30, within=SOON)
        for process in one.processes():
            process.kill()
    shutil.rmtree(one.home, ignore_errors=True)
    assert read_all(other, job, database) >= 30
    with other.running("worker", "--beat"):
        wait_until(lambda: other.status(job)["state"] == "finished", within=SOON)
    assert read_all(other, job, database) >= 150


def test_a_worker_with_a_pool_keeps_house_apart_and_its_processes_can_be_replaced(
    shoal: Shoal, s3: S3, bookshop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that are forked later must find an object store that they can use."""
    use(s3, monkeypatch)
    bucket = s3.new_bucket()
    here = on_s3(shoal, s3, bucket)
    with here.running("worker", "--beat", "--concurrency", "1"):
        wait_until(lambda: any("/.owners/" in key for key in s3.keys(bucket)), within=SOON)  # housekeeping was there
        jobs: list[str] = []
        for _ in range(2):
            jobs.append(here.run("crawl", bookshop.url, *FAST, "--pages", "10", "--detach").out.strip())
            wait_until(lambda: here.status(jobs[-1])["state"] == "finished", within=SOON)
            for child in pool_of(here):
                child.send_signal(signal.SIGKILL)
        for job in jobs:
            assert read_all(here, job) >= 10
        (house,) = [process for process in here.processes() if "shoal.worker.apart" in process.cmdline()]
        house.kill()
        engine = open_database(f"sqlite:///{here.home / 'shoal.db'}")
        JobStore(engine).give_up(jobs[0], at_ms=1)
        wait_until(lambda: not JobStore(engine).given_up(), within=SOON)  # by another one
        engine.dispose()
        assert [key for key in s3.keys(bucket) if jobs[0] in key] == []


def pool_of(shoal: Shoal) -> list[psutil.Process]:
    """The processes that fetch: those whose parent is the Celery process, and which are no programs of their own."""
    found: list[psutil.Process] = []
    for process in shoal.processes():
        command = process.cmdline()
        parent = process.parent()
        if parent and "worker" in command and parent.cmdline() == command and parent.ppid() in _pids(shoal, command):
            found.append(process)
    assert found
    return found


def _pids(shoal: Shoal, command: list[str]) -> set[int]:
    return {process.pid for process in shoal.processes() if process.cmdline() == command}


def test_a_crawl_waits_for_a_store_that_is_away_and_goes_on_when_it_is_back(
    shoal: Shoal, bookshop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    away = S3(f"http://127.0.0.1:{port}")
    use(away, monkeypatch)
    here = on_s3(shoal, away, "late-bucket")
    with here.running("worker", "--beat"):
        job = here.run("crawl", bookshop.url, *FAST, "--pages", "10", "--detach").out.strip()
        wait_until(lambda: [each["what"] for each in here.status(job)["troubles"]] == ["archive"], within=SOON)
        assert here.status(job)["counters"]["done"] == 0
        with running_s3(port) as server:
            server.ask("PUT", "late-bucket")
            wait_until(lambda: here.status(job)["state"] == "finished", within=SOON)
            assert read_all(here, job) >= 10


def test_the_doctor_looks_at_the_bucket(shoal: Shoal, s3: S3) -> None:
    bucket = s3.new_bucket()
    well = on_s3(shoal, s3, bucket).run("doctor", "--json")
    assert f"s3://{bucket}/archive, which can be written, read and emptied" in well.out
    assert s3.keys(bucket) == []
    ill = on_s3(shoal, s3, "no-such-bucket").run("doctor", "--json")
    (finding,) = [each for each in json.loads(ill.out)["findings"] if each["code"] == "archive_unusable"]
    assert "no-such-bucket" in finding["what"]
    assert finding["mend"].startswith("export AWS_ENDPOINT_URL=")
    assert ill.code != 0


def test_a_url_that_is_no_object_store_is_refused(shoal: Shoal) -> None:
    for wrong in ("file:///srv/archive", "http://bucket/", "s3://", "s3://key:secret@bucket/x", "bucket"):
        done = replace(shoal, extra=(("SHOAL_ARCHIVE_URL", wrong),)).run("jobs")
        assert done.code != 0
        assert "SHOAL_ARCHIVE_URL" in done.err
        assert "secret" not in done.err
