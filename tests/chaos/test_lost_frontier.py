"""Redis emptied, or come back older, in the middle of a crawl: every page is stored once, few are fetched twice."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from shoal.frontier.scripts import answers, connect
from shoal.guardian import die_with_parent
from tests.command import Shoal, a_home
from tests.long import LONG
from tests.servers import valkey
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES = 4_000 if LONG else 800
RATE = "400"
SOCKETS = 32
WORKERS = 2
AT_WORK = timedelta(seconds=60)


@dataclass
class KillableServer:
    """A Valkey of our own with an append-only file, which can be killed and started again."""

    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"unix://{self.folder / 'socket'}"

    def start(self) -> None:
        command = [
            valkey(),
            *("--port", "0"),
            *("--unixsocket", str(self.folder / "socket")),
            *("--dir", str(self.folder)),
            *("--save", ""),
            *("--appendonly", "yes"),
            *("--aof-load-truncated", "yes"),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        wait_until(lambda: answers(self.url), within=timedelta(seconds=20))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def flush(self) -> None:
        client = connect(self.url)
        client.flushall()  # pyright: ignore[reportUnknownMemberType]
        client.close()

    def cut(self, part: float) -> None:
        """The last part of the append-only file is lost."""
        (tail,) = (self.folder / "appendonlydir").glob("*.incr.aof")
        with tail.open("r+b") as file:
            file.truncate(int(tail.stat().st_size * (1 - part)))


@pytest.fixture
def redis() -> Generator[KillableServer]:
    with TemporaryDirectory(prefix="shoal-") as name:
        server = KillableServer(Path(name))
        server.start()
        yield server
        server.kill()


@pytest.fixture
def fleet(tmp_path: Path, redis: KillableServer) -> Generator[Shoal]:
    """Commands on a home whose Redis is not the embedded one."""
    with a_home(tmp_path) as command:
        extra = {
            "SHOAL_LEASE_SECONDS": "3",
            "SHOAL_REDIS_URL": redis.url,
            "SHOAL_SOCKETS": str(SOCKETS),
        }
        yield Shoal(command.home, tuple(extra.items()))


def _crawl(site: Server, *options: str) -> tuple[str, ...]:
    polite = ("--rate", RATE, "--parallel", "64", "--no-robots")
    return ("crawl", site.url, *polite, "--json", "--quiet", *options)


@contextmanager
def _site() -> Generator[Server]:
    with serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site:
        yield site


def _half_way(shoal: Shoal, site: Server) -> None:
    wait_until(lambda: len(site.hits) > PAGES * 0.5, within=AT_WORK)


def _check(shoal: Shoal, site: Server, job: str) -> None:
    done = shoal.status(job)
    assert done["state"] == "finished"
    assert done["reconciles"]
    assert done["pages"] == PAGES
    urls = [row["url"] for row in shoal.run("results", job, "--pages").records]
    assert len(urls) == len(set(urls)) == PAGES
    asked = Counter(hit.target for hit in site.hits)
    assert len(asked) == PAGES
    assert max(asked.values()) <= 2
    assert sum(asked.values()) - PAGES <= 2 * WORKERS * SOCKETS  # what was leased, or fetched and not stored yet


def _lose(redis: KillableServer, how: str) -> None:
    if how == "flush":
        redis.flush()
    else:
        redis.kill()
        redis.cut(0.3)
        redis.start()


@pytest.mark.parametrize(
    ("how", "archive"),
    [
        ("flush", "--archive"),
        pytest.param("cut", "--no-archive", marks=pytest.mark.long),
        pytest.param("flush", "--no-archive", marks=pytest.mark.long),
        pytest.param("cut", "--archive", marks=pytest.mark.long),
    ],
)
def test_a_foreground_crawl_survives_the_loss_of_redis(
    fleet: Shoal, redis: KillableServer, how: str, archive: str
) -> None:
    with _site() as site:
        with fleet.running(*_crawl(site, "--workers", str(WORKERS), archive)) as process:
            _half_way(fleet, site)
            _lose(redis, how)
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
        _check(fleet, site, json.loads(out.splitlines()[-1])["job"])


@pytest.mark.parametrize("how", ["flush", pytest.param("cut", marks=pytest.mark.long)])
def test_a_fleet_survives_the_loss_of_redis(fleet: Shoal, redis: KillableServer, how: str) -> None:
    control = ("worker", "--queues", "control", "--beat")
    worker = ("worker", "--queues", "http.high,http.batch,http.slow")
    with _site() as site, fleet.running(*control), fleet.running(*worker), fleet.running(*worker):
        job = fleet.run(*_crawl(site, "--detach")).json["job"]
        _half_way(fleet, site)
        _lose(redis, how)
        _wait_for_the_end(lambda: _state(fleet, job))
        _check(fleet, site, job)


def _state(shoal: Shoal, job: str) -> str:
    """Of a job that may be lost at the moment, which `status` says with an error."""
    told = shoal.run("status", job, "--json")
    return told.json["state"] if told.code == 0 else "lost"


def _wait_for_the_end(state: Callable[[], str]) -> None:
    wait_until(lambda: state() == "finished", within=timedelta(seconds=120))


@pytest.mark.long
def test_recover_rebuilds_a_job_and_says_so(fleet: Shoal, redis: KillableServer) -> None:
    with _site() as site:
        with fleet.running(*_crawl(site, "--workers", "1")) as process:
            _half_way(fleet, site)
        assert process.returncode == 130
        (job,) = [row["job"] for row in json.loads(fleet.run("jobs", "--json").out)]
        stored = len(fleet.run("results", job, "--pages").records)
        redis.flush()
        (done,) = json.loads(fleet.run("recover", "--json").out)
        assert done["job"] == job
        assert done["rows_stored"] == stored
        assert done["admitted_again"] > 0
        assert fleet.status(job)["state"] == "paused"
        nothing = fleet.run("recover")
        assert (nothing.code, nothing.out) == (0, "")
        assert "nothing to rebuild" in nothing.err
        known = fleet.run("recover", job[:6])
        assert (known.code, known.out) == (0, "")
        assert "--force" in known.err
        forced = fleet.run("recover", job, "--force")
        assert forced.code == 0
        assert job in forced.out
        assert fleet.run("recover", "nosuchjob").code == 1
        assert fleet.run("recover", "--force").code == 2
        assert fleet.run("resume", job, "--workers", "2", "--quiet").code == 0
        _check(fleet, site, job)
        assert fleet.run("recover", job).code == 2
