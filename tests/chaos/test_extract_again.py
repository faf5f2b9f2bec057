"""Killing parts of an extraction from stored pages: each page is read to its end once, and nobody is asked for it."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from tests.chaos.pool import kill_whole, pool_processes
from tests.command import Done, Shoal, a_home, embedded_redis
from tests.long import LONG
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES = 4_000 if LONG else 1_500
MOMENTS = (0.2, 0.5, 0.8) if LONG else (0.3,)
TAKEN = ("--field", "title=h1", "--field", "price:money=.price", "--field", "links[]=a@href", "--take", "markdown")
FAST = ("--rate", "unlimited", "--no-robots", "--workers", "2")
SOON = timedelta(seconds=600 if LONG else 120)
TAKEN_UP_S = 40.0
"""More than undisturbed: a claim of ten seconds, a second until somebody looks, and processes started anew."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A job whose pages are stored, and the site that is not to be asked again."""

    shoal: Shoal
    site: Server
    job: str
    asked: int
    """Requests that the site had before any extraction."""
    took_s: float
    """An extraction that nobody disturbed."""

    def extract(self, version: str, *options: str) -> tuple[str, ...]:
        return ("extract", self.job, *TAKEN, "--as", version, "--json", "--quiet", *options)

    def progress(self, version: str) -> int:
        """Pages that a version has the items of."""
        query = (
            "SELECT coalesce(sum(p.pages), 0) FROM extraction_parts p JOIN extractions e ON e.id = p.extraction "
            "WHERE e.job = ? AND e.version = ?"
        )
        with closing(sqlite3.connect(self.shoal.home / "shoal.db", timeout=30)) as database:
            return int(database.execute(query, (self.job, version)).fetchone()[0])

    def wait_for(self, version: str, share: float) -> None:
        """In the middle of it."""
        wait_until(lambda: self.progress(version) >= PAGES * share, within=SOON)
        assert self.progress(version) < PAGES, "it was over before anything could be killed"

    def items(self, version: str) -> list[dict[str, Any]]:
        rows = self.shoal.run("results", self.job, "--version", version).records
        return sorted(rows, key=lambda row: row["url"])


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Generator[Archive]:
    """With one extraction, v2, that nobody has disturbed."""
    with (
        serve(LinkedSite(pages=PAGES, links=30, size=8_000)) as site,
        a_home(tmp_path_factory.mktemp("archive")) as home,
    ):
        shoal = Shoal(home.home, (("SHOAL_LEASE_SECONDS", "3"),))
        crawled = shoal.run("crawl", site.url, *FAST, "--json", "-q")
        assert crawled.code == 0, crawled.err
        made, began = Archive(shoal, site, crawled.json["job"], len(site.hits), 0.0), time.monotonic()
        _check_all(shoal.run(*made.extract("v2", "--workers", "2"), timeout_s=SOON.total_seconds()))
        yield replace(made, took_s=time.monotonic() - began)


def _check_all(done: Done) -> None:
    assert done.code == 0, done.err
    told = done.json
    assert (told["state"], told["total"], told["pages"], told["failed"]) == ("done", PAGES, PAGES, 0)


def _finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=SOON.total_seconds())
    _check_all(Done(process.returncode, out, err))


def _check_as_if_undisturbed(archive: Archive, version: str) -> None:
    items = archive.items(version)
    assert len(items) == len({item["url"] for item in items}) == PAGES
    assert items == archive.items("v2")
    assert len(archive.site.hits) == archive.asked


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_all_processes_that_extract_loses_and_doubles_nothing(archive: Archive, moment: float) -> None:
    version = f"pool{moment}"
    with archive.shoal.running(*archive.extract(version, "--workers", "2")) as process:
        archive.wait_for(version, moment)
        for reader in pool_processes(archive.shoal):
            reader.kill()
        killed_at = time.monotonic()
        _finish(process)
        assert time.monotonic() - killed_at < archive.took_s + TAKEN_UP_S
    _check_as_if_undisturbed(archive, version)


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_redis_pauses_the_extraction_and_loses_nothing(archive: Archive, moment: float) -> None:
    version = f"redis{moment}"
    with archive.shoal.running(*archive.extract(version, "--workers", "2")) as process:
        archive.wait_for(version, moment)
        embedded_redis(archive.shoal).kill()
        _finish(process)
    _check_as_if_undisturbed(archive, version)


def test_a_worker_without_a_pool_stops_in_order_in_the_middle_of_a_shift(archive: Archive) -> None:
    shoal = replace(archive.shoal, extra=(*archive.shoal.extra, ("SHOAL_POOL", "solo"), ("SHOAL_GRACE_SECONDS", "3")))
    assert shoal.run(*archive.extract("solo", "--workers", "0", "--detach")).code == 0
    with shoal.running("worker") as worker:
        archive.wait_for("solo", 0.2)
        worker.terminate()
        _, err = worker.communicate(timeout=20)
    assert worker.returncode == 0, err
    with shoal.running("worker"):
        wait_until(lambda: archive.progress("solo") == PAGES, within=SOON)
    _check_as_if_undisturbed(archive, "solo")


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_a_whole_worker_leaves_its_parts_to_another(archive: Archive, moment: float) -> None:
    version = f"worker{moment}"
    with (
        archive.shoal.running("worker") as victim,
        archive.shoal.running(*archive.extract(version, "--workers", "1")) as process,
    ):
        archive.wait_for(version, moment)
        kill_whole(victim)
        _finish(process)
    _check_as_if_undisturbed(archive, version)
