"""A worker that is started before Redis or the database waits for them; one that is set up wrongly does not."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shoal.guardian import die_with_parent
from tests import servers
from tests.chaos.fleet import Fleet
from tests.command import REPOSITORY, Shoal, end
from tests.mortal_postgres import mortal_postgres
from tests.postgres import Postgres
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

SOON = timedelta(seconds=60)
PAGES = 20
SECRET = "open-sesame"


@dataclass(frozen=True, slots=True)
class Started:
    """A worker, and what it has logged so far."""

    process: subprocess.Popen[str]
    log: Path

    def lines(self, event: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if f'"{event}"' in line]

    def wait_for(self, event: str) -> dict[str, Any]:
        wait_until(lambda: bool(self.lines(event)) or self.process.poll() is not None, within=SOON)
        assert self.process.poll() is None, self.log.read_text()
        return self.lines(event)[0]

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


@contextmanager
def a_worker(shoal: Shoal, log: Path) -> Generator[Started]:
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "shoal", "worker"], env=shoal.environment, cwd=REPOSITORY, stderr=output, text=True
        )
    try:
        yield Started(process, log)
    finally:
        end(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def redis_at(port: int, folder: Path) -> Generator[None]:
    """A server that asks for a password."""
    where = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "", "--requirepass", SECRET)
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([servers.valkey(), *where], stdout=log, stderr=log, preexec_fn=die_with_parent)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _crawl(shoal: Shoal) -> None:
    """A job that only the worker can have done."""
    with serve(LinkedSite(pages=PAGES, links=5, size=500)) as site:
        done = shoal.run("crawl", site.url, "--rate", "unlimited", "--no-robots", "--workers", "0", "--json")
        assert done.code == 0, done.err
        assert done.json["pages"] == PAGES


def test_a_worker_waits_for_a_redis_that_comes_later(tmp_path: Path) -> None:
    port = _free_port()
    shoal = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", f"redis://:{SECRET}@127.0.0.1:{port}"),))
    with a_worker(shoal, tmp_path / "log") as worker:
        waits = worker.wait_for("start_waits")
        assert (waits["what"], waits["where"]) == ("redis", f"redis://***@127.0.0.1:{port}")
        with redis_at(port, tmp_path):
            worker.wait_for("start_goes_on")
            _crawl(shoal)
            assert worker.stop() == 0
    assert len(worker.lines("start_waits")) == 1
    assert SECRET not in worker.log.read_text()


def test_a_worker_that_waits_stops_when_it_is_told_to(tmp_path: Path) -> None:
    shoal = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", f"redis://127.0.0.1:{_free_port()}"),))
    with a_worker(shoal, tmp_path / "log") as worker:
        worker.wait_for("start_waits")
        assert worker.stop() == 0


def test_a_worker_waits_for_a_postgresql_that_comes_later(fleet: Fleet, tmp_path: Path) -> None:
    with mortal_postgres() as server:
        shoal = fleet.shoal(SHOAL_DATABASE_URL=server.new_database())
        server.kill()
        with a_worker(shoal, tmp_path / "log") as worker:
            assert worker.wait_for("start_waits")["what"] == "database"
            server.start()
            worker.wait_for("start_goes_on")
            _crawl(shoal)
            assert worker.stop() == 0
    assert len(worker.lines("start_waits")) == 1


@pytest.mark.long
def test_a_worker_waits_for_an_sqlite_that_somebody_else_has_locked(fleet: Fleet, tmp_path: Path) -> None:
    shoal = fleet.shoal()
    assert shoal.run("jobs").code == 0
    other = sqlite3.connect(fleet.home / "shoal.db", isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with a_worker(shoal, tmp_path / "log") as worker:
        assert worker.wait_for("start_waits")["what"] == "database"
        other.close()
        worker.wait_for("start_goes_on")
        _crawl(shoal)
        assert worker.stop() == 0


# --- what waiting does not mend --------------------------------------------------------------------------------------


def _fails_at_once(shoal: Shoal, code: int, *said: str) -> None:
    done = shoal.run("worker", timeout_s=60)
    assert done.code == code, done.err
    assert "start_waits" not in done.err
    assert "Traceback" not in done.err
    for words in said:
        assert done.err.count(words) == 1, done.err


@pytest.mark.parametrize("url", ["http://127.0.0.1:6379", "redis://127.0.0.1:port", "redis://127.0.0.1/first"])
def test_a_wrong_redis_url_fails_at_once(tmp_path: Path, url: str) -> None:
    _fails_at_once(Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", url),)), 2, "SHOAL_REDIS_URL")


@pytest.mark.parametrize("address", ["127.0.0.1", ":wrong@127.0.0.1"])
def test_a_wrong_password_for_redis_fails_at_once(tmp_path: Path, address: str) -> None:
    port = _free_port()
    shoal = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", f"redis://{address}:{port}"),))
    with redis_at(port, tmp_path):
        wait_until(lambda: _listens(port))
        _fails_at_once(shoal, 1, "does not let us in")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("part", ["database", "user"])
def test_an_unknown_database_or_user_fails_at_once(fleet: Fleet, postgres: Postgres, part: str) -> None:
    right = sa.make_url(postgres.new_database())
    wrong = right.set(database="nobodys") if part == "database" else right.set(username="nobody")
    shoal = fleet.shoal(SHOAL_DATABASE_URL=wrong.render_as_string(hide_password=False))
    _fails_at_once(shoal, 1, "cannot open the database", "does not exist")


def test_a_wrong_database_url_fails_at_once(fleet: Fleet) -> None:
    _fails_at_once(fleet.shoal(SHOAL_DATABASE_URL="nowhere"), 2, "SHOAL_DATABASE_URL")


def test_a_database_of_another_version_fails_at_once(fleet: Fleet) -> None:
    shoal = fleet.shoal()
    assert shoal.run("jobs").code == 0
    with sqlite3.connect(fleet.home / "shoal.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    _fails_at_once(shoal, 1, "has the schema '9999'")
