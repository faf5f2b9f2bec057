"""Taking away what a running crawl needs, for a while: it pauses, says so, goes on by itself, and every page is stored
once."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.trouble import Need, explain
from shoal.embedded import hold_embedded
from shoal.frontier.frontier import Frontier
from shoal.redis_url import RedisUrls
from shoal.store.archive import ArchiveReader
from shoal.store.database import open_database
from shoal.store.pages import PageStore
from tests.chaos.pool import worker_processes
from tests.command import Shoal, embedded_redis, embedded_servers
from tests.long import LONG
from tests.mortal_postgres import mortal_postgres
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.small_disk import fill, small_disk
from tests.waiting import wait_until

PAGES = 3_000 if LONG else 600
RATE = "100"
HOLD_S = 30.0 if LONG else 4.0
"""Longer than the lease of three seconds."""
FREEZE_S = 60.0 if LONG else 8.0
"""Beyond the time that it takes a command to find out that Redis is frozen, which is twelve seconds."""
IN_FLIGHT = 128
RESUMES = timedelta(seconds=15)
SOON = timedelta(seconds=30)
CALM = 0.25
"""Of a core: what a process may use that has nothing to do but wait."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl under way, looked at from beside: commands would take too long to start."""

    process: subprocess.Popen[str]
    frontier: Frontier
    job: str
    site: Server
    database: str
    archive: Path

    @property
    def troubles(self) -> set[str]:
        status = self.frontier.status(self.job)
        return {trouble.what.value for trouble in status.troubles} if status else set()

    @property
    def explained(self) -> str:
        status = self.frontier.status(self.job)
        return (explain(status.troubles) if status else None) or ""

    def goes_on(self) -> None:
        asked = len(self.site.hits)
        wait_until(lambda: len(self.site.hits) > asked or asked >= PAGES, within=RESUMES)

    def finish(self) -> tuple[dict[str, Any], str]:
        """(the job as its command tells it, what that said on the way)"""
        out, err = self.process.communicate(timeout=150)
        assert self.process.returncode == 0, err
        return json.loads(out), err

    def check_bytes(self) -> list[str]:
        """Every row points to its own bytes; the URLs of all rows."""
        engine = open_database(self.database)
        try:
            rows = list(PageStore(engine).pages(self.job))
        finally:
            engine.dispose()
        reader = ArchiveReader(self.archive)
        for row in rows:
            assert row.archive is not None
            assert reader.read(row.archive).url == row.url
        return [row.url for row in rows]

    def check_exactly_once(self, done: dict[str, Any], most_repeats: int) -> None:
        assert (done["state"], done["reconciles"], done["pages"], done["troubles"]) == ("finished", True, PAGES, [])
        urls = self.check_bytes()
        assert len(urls) == len(set(urls)) == PAGES
        asked = Counter(hit.target for hit in self.site.hits)
        assert len(asked) == PAGES
        assert sum(asked.values()) - PAGES <= most_repeats


@contextmanager
def crawling(shoal: Shoal, database: str = "", archive: Path | None = None) -> Generator[Crawl]:
    """A crawl that has come to four tenths."""
    database, archive = database or f"sqlite:///{shoal.home / 'shoal.db'}", archive or shoal.home / "archive"
    places = (("SHOAL_ARCHIVE_DIR", str(archive)), ("SHOAL_DATABASE_URL", database))
    command = Shoal(shoal.home, (*shoal.extra, *places))
    options = ("--rate", RATE, "--parallel", "64", "--no-robots", "--workers", "2", "--json")
    with (
        serve(LinkedSite(pages=PAGES, links=30, size=3_000)) as site,
        command.running("crawl", site.url, *options) as process,
        beside(shoal.home) as frontier,
    ):
        wait_until(lambda: len(site.hits) > PAGES * 0.4, within=timedelta(seconds=60))
        (job,) = frontier.known_jobs()
        yield Crawl(process, frontier, job, site, database, archive)


@contextmanager
def beside(home: Path) -> Generator[Frontier]:
    """The frontier of a home."""
    hold = hold_embedded(home)
    frontier = Frontier.at(RedisUrls.of(hold.url, None).frontier)
    try:
        yield frontier
    finally:
        frontier.close_connections()
        hold.release()


@contextmanager
def calm(shoal: Shoal) -> Generator[None]:
    """Nobody spins, and nobody is replaced, while this lasts."""
    before = {process: sum(process.cpu_times()[:2]) for process in worker_processes(shoal)}
    assert len(before) == 4  # supervisor, Celery's main process, two that fetch
    started = time.monotonic()
    yield
    elapsed = time.monotonic() - started
    used = {process: sum(process.cpu_times()[:2]) - then for process, then in before.items()}
    assert set(worker_processes(shoal)) == set(before)
    assert max(used.values()) < CALM * elapsed, used


# --- the database ----------------------------------------------------------------------------------------------------


def test_a_locked_database_pauses_the_crawl_and_no_lease_is_lost(shoal: Shoal) -> None:
    with crawling(shoal) as crawl:
        other = sqlite3.connect(shoal.home / "shoal.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        wait_until(lambda: crawl.troubles == {"database"}, within=SOON)
        with calm(shoal):
            time.sleep(HOLD_S)
        assert "paused for" in shoal.run("status", crawl.job).out
        other.execute("COMMIT")
        other.close()
        crawl.goes_on()
        done, said = crawl.finish()
        crawl.check_exactly_once(done, most_repeats=0)
    assert "s: the database does not answer" in said
    assert done["counters"]["lost"] == 0


def test_a_killed_postgresql_pauses_the_crawl_until_it_is_back(shoal: Shoal) -> None:
    with mortal_postgres() as server, crawling(shoal, server.new_database()) as crawl:
        server.kill()
        wait_until(lambda: crawl.troubles == {"database"}, within=SOON)
        with calm(shoal):
            time.sleep(HOLD_S)
        server.start()
        crawl.goes_on()
        done, said = crawl.finish()
        crawl.check_exactly_once(done, most_repeats=0)
    assert "the database refused" in said
    assert "going on after" in said
    assert done["counters"]["lost"] == 0


@pytest.mark.long
def test_a_frozen_postgresql_is_given_up_and_the_crawl_goes_on_when_it_thaws(shoal: Shoal) -> None:
    with mortal_postgres() as server, crawling(shoal, server.new_database()) as crawl:
        with server.frozen():
            wait_until(lambda: crawl.troubles == {"database"}, within=SOON)
            with calm(shoal):
                wait_until(lambda: "the database refused" in crawl.explained, within=SOON)
                time.sleep(FREEZE_S)
        crawl.goes_on()
        done, said = crawl.finish()
        crawl.check_exactly_once(done, most_repeats=0)
    assert "going on after" in said
    assert done["counters"]["lost"] == 0


# --- Redis -----------------------------------------------------------------------------------------------------------


def test_a_frozen_redis_pauses_the_crawl_and_no_command_starts_a_second_one(shoal: Shoal) -> None:
    with crawling(shoal) as crawl:
        server = embedded_redis(shoal)
        server.suspend()
        try:
            with calm(shoal):
                looked = shoal.run("status", crawl.job)
                time.sleep(FREEZE_S)
        finally:
            server.resume()
        crawl.goes_on()
        done, said = crawl.finish()
        assert embedded_servers(shoal) == [server]
        crawl.check_exactly_once(done, most_repeats=4 * IN_FLIGHT)
        assert Counter(crawl.frontier.board.outages())[Need.REDIS] > 0
    assert looked.code == 1
    assert looked.err.startswith("waiting for Redis and the database …\n")
    assert (
        f"runs and does not answer: it is process {server.pid}\nIf it is frozen: kill -CONT {server.pid}\n"
        in looked.err
    )
    assert "Redis did not answer" in said
    assert "going on after" in said


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["archive", pytest.param("database", marks=pytest.mark.long)])
def test_a_full_disk_pauses_the_crawl_and_nothing_is_stored_without_its_bytes(
    shoal: Shoal, tmp_path: Path, what: str
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        database, archive = (f"sqlite:///{disk / 'shoal.db'}", None) if what == "database" else ("", disk)
        with crawling(shoal, database, archive) as crawl:
            make_room = fill(disk)
            wait_until(lambda: crawl.troubles == {what}, within=SOON)
            with calm(shoal):
                time.sleep(HOLD_S)
            assert len(crawl.check_bytes()) < PAGES
            make_room()
            crawl.goes_on()
            done, _ = crawl.finish()
            crawl.check_exactly_once(done, most_repeats=0)
        assert done["counters"]["lost"] == 0
