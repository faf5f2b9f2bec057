"""`shoal recover` for the person who waits for it: how far it is, what it waits for, how to go on."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from shoal.store.database import open_database
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from tests.command import Shoal, end
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

SOON = timedelta(seconds=30)
PAGES = 600


@pytest.fixture
def half_done(shoal: Shoal) -> Generator[tuple[Shoal, str]]:
    """(commands on a home with one job that was stopped half-way, its id)"""
    with serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site:
        options = ("--rate", "400", "--parallel", "32", "--no-robots", "--workers", "1")
        with shoal.running("crawl", site.url, *options):
            wait_until(lambda: len(site.hits) > PAGES * 0.6, within=SOON)
    (row,) = json.loads(shoal.run("jobs", "--json").out)
    assert row["state"] == "paused"
    yield shoal, row["job"]


def test_a_rebuild_tells_people_and_programs_in_the_same_words(half_done: tuple[Shoal, str]) -> None:
    shoal, job = half_done
    stored = len(shoal.run("results", job, "--pages").records)
    told = shoal.run("recover", job, "--force", "--json")
    (done,) = json.loads(told.out)
    assert (done["job"], done["rows_stored"], done["bodies_missing"]) == (job, stored, 0)
    shown = shoal.run("recover", job, "--force")
    assert all(name.replace("_", " ") in shown.out for name in done)
    assert f"rebuilding {job} …" in shown.err
    assert f"go on with: shoal resume {job}" in shown.err
    assert "{" not in told.err + shown.err  # no log lines


def _store_many(shoal: Shoal, job: str) -> None:
    """So many rows that their rebuild takes seconds."""
    engine = open_database(shoal.settings.sql_url)
    rows = [
        PageRow(job, number, f"http://127.0.0.1:9/{number}", "127.0.0.1:9", 200, 1, 0, "text/plain", "", 1, 1.0, 1)
        for number in range(40_000)
    ]
    PageStore(engine).write(rows, [], [])
    engine.dispose()


def test_an_interrupted_rebuild_says_how_to_go_on_and_is_seen(half_done: tuple[Shoal, str]) -> None:
    shoal, job = half_done
    _store_many(shoal, job)
    process = shoal.start("recover", job, "--force")
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == f"rebuilding {job} …\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        end(process)
    assert (process.returncode, said) == (130, f"rebuild interrupted; go on with: shoal recover {job}\n")
    assert "being rebuilt" in shoal.run("status", job).out
    assert shoal.run("recover", job).code == 0
    assert "being rebuilt" not in shoal.run("status", job).out


@contextmanager
def _waiting(shoal: Shoal, job: str) -> Generator[tuple[subprocess.Popen[str], sqlite3.Connection]]:
    """A rebuild that waits for a database, and who holds that."""
    file = shoal.home / "shoal.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        process = shoal.start("recover", job)
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == f"waiting for the database {file} …\n"
            yield process, other
        finally:
            end(process)


@pytest.mark.long  # SQLite waits for half a minute
def test_a_rebuild_that_waits_for_the_database_in_vain_says_why_it_gave_up(half_done: tuple[Shoal, str]) -> None:
    with _waiting(*half_done) as (process, _):
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"database is locked: {half_done[0].home / 'shoal.db'}\n" in said
    assert "Another program holds it" in said


@pytest.mark.embedded
def test_a_rebuild_waits_for_a_locked_database_and_says_so(half_done: tuple[Shoal, str]) -> None:
    with _waiting(*half_done) as (process, other):
        other.execute("ROLLBACK")
        process.communicate(timeout=60)
    assert process.returncode == 0
