"""Redis behind sentinels: another server takes over in the middle of a crawl, and every page is stored once."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import connect, translated_errors
from shoal.redis_url import RedisUrls
from tests.command import REPOSITORY, Shoal, a_home, end
from tests.conftest import lack
from tests.documents import blocks
from tests.proxies import Identity
from tests.sentinels import SERVICE, Access, Family, running_sentinels
from tests.servers import redis as redis_server
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES, SOCKETS, WORKERS = 600, 16, 2
WITHIN = timedelta(seconds=120)
PASSWORD, SENTINEL_PASSWORD = "s3cret:/@%pass", "w4tch"
CONTROL = ("worker", "--queues", "control", "--beat")
WORKER = ("worker", "--queues", "http.high,http.batch,http.slow")


def _binary() -> str:
    binary = redis_server()
    if binary is None:
        lack("redis-server 7.0 or newer is not on the PATH, and it is the one that can be a sentinel")
    return binary


@pytest.fixture
def family() -> Generator[Family]:
    with running_sentinels(_binary()) as family:
        yield family


@pytest.fixture
def fleet(tmp_path: Path, family: Family) -> Generator[Shoal]:
    with a_home(tmp_path) as command:
        extra = {
            "SHOAL_REDIS_URL": family.url,
            "SHOAL_LEASE_SECONDS": "3",
            "SHOAL_SOCKETS": str(SOCKETS),
        }
        yield Shoal(command.home, tuple(extra.items()))


def _check(shoal: Shoal, site: Server, job: str, *, twice: int) -> None:
    done = shoal.status(job)
    assert (done["state"], done["pages"], done["reconciles"]) == ("finished", PAGES, True)
    urls = [row["url"] for row in shoal.run("results", job, "--pages").records]
    assert len(urls) == len(set(urls)) == PAGES
    asked = Counter(hit.target for hit in site.hits)
    assert len(asked) == PAGES
    assert sum(asked.values()) - PAGES <= twice


@pytest.mark.parametrize("replica", ["up to date", "behind"])
def test_a_primary_that_dies_in_mid_crawl_is_followed_by_its_replica_and_nothing_is_lost(
    fleet: Shoal, family: Family, replica: str
) -> None:
    """A replica that is behind has lost what was written last, and with it what workers have stored and found."""
    first, second = family.servers
    with (
        serve(LinkedSite(pages=PAGES, links=20, size=1_000)) as site,
        fleet.running(*CONTROL),
        fleet.running(*WORKER),
        fleet.running(*WORKER),
    ):
        start = ("crawl", site.url, "--rate", "150", "--parallel", "32", "--no-robots", "--json", "--quiet", "--detach")
        job = fleet.run(*start).json["job"]
        wait_until(lambda: len(site.hits) > PAGES * 0.3, within=WITHIN)
        if replica == "behind":
            family.send(second, signal.SIGSTOP)
        wait_until(lambda: len(site.hits) > PAGES * 0.6, within=WITHIN)
        family.kill(first)
        if replica == "behind":
            family.send(second, signal.SIGCONT)
        wait_until(lambda: family.primary() == second, within=WITHIN)
        wait_until(lambda: _state(fleet, job) == "finished", within=WITHIN)
        _check(fleet, site, job, twice=2 * WORKERS * SOCKETS)
        frontier = connect(RedisUrls.of(family.url).frontier)
        with family.server(second) as server:
            assert frontier.get("shoal:server") == server.info("server")["run_id"]  # somebody has looked at it
        frontier.close()


def _state(shoal: Shoal, job: str) -> str:
    told = shoal.run("status", job, "--json")
    return told.json["state"] if told.code == 0 else "away"


def test_a_primary_that_was_demoted_is_left_for_the_new_one(family: Family) -> None:
    """It answers READONLY, which is trouble that passes: the sentinels know who takes changes."""
    first, second = family.servers
    client = connect(RedisUrls.of(family.url).frontier)
    client.set("a", 1)
    with family.server(second) as server, family.server(first) as demoted:
        wait_until(lambda: server.info("replication")["master_link_status"] == "up", within=WITHIN)
        demoted.wait(1, 5000)
        server.replicaof("NO", "ONE")
        demoted.replicaof("127.0.0.1", str(second))  # behind the sentinels' back: our connection stays as it is
        with pytest.raises(RedisUnavailable, match=r"now a slave|READONLY"), translated_errors("test"):
            client.set("a", 2)
    family.monitor(second)

    def is_taken() -> bool:
        try:
            with translated_errors("test"):
                return bool(client.set("a", 3))
        except RedisUnavailable:
            return False

    wait_until(is_taken, within=WITHIN)
    with family.server(second) as server:
        server.select(2)
        assert server.get("a") == client.get("a") == "3"
    client.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[Family]:
    """TLS everywhere, a user for Shoal with the rights of the guide, and sentinels with a password of their own."""
    folder = tmp_path_factory.mktemp("guarded")
    Identity.make(folder)
    (rules,) = (b.text for b in blocks(REPOSITORY / "docs/guides/redis.md") if b.text.startswith("user default off"))
    users = rules.replace(">change-me", f">{PASSWORD}") + "user admin on >admin ~* &* +@all\n"
    access = Access(users, "shoal", PASSWORD, "admin:admin", SENTINEL_PASSWORD, folder)
    with running_sentinels(_binary(), access) as family:
        yield family


def test_a_crawl_runs_over_tls_under_the_rights_of_the_guide(tmp_path: Path, guarded: Family) -> None:
    shoal = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", guarded.url),))
    worker = shoal.start("worker", "--beat")
    try:
        with serve(LinkedSite(pages=20, links=5, size=500)) as site:
            fast = ("--rate", "unlimited", "--no-robots", "--json", "--quiet", "--workers", "0")
            done = shoal.run("crawl", site.url, *fast)
            assert (done.code, done.err) == (0, "")
        checked = shoal.run("doctor", "--json")
    finally:
        worker.terminate()
        _, logged = worker.communicate(timeout=30)
        end(worker)
    assert done.json["pages"] == 20
    assert worker.returncode == 0
    areas = {finding["area"]: finding for finding in json.loads(checked.out)["findings"] if finding["level"] == "error"}
    assert not {"settings", "redis", "broker", "fleet"} & areas.keys(), areas
    for text in (done.out, logged, checked.out, checked.err):
        for secret in (PASSWORD, quote(PASSWORD, safe=""), SENTINEL_PASSWORD):
            assert secret not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((quote(PASSWORD, safe=""), "wrong"), "does not let us in"),
        ((f"={SENTINEL_PASSWORD}", "=wrong"), "a sentinel refuses us"),
        ((quote(SERVICE), "another"), "no sentinel names a primary of 'another'"),
        (("?ssl_ca_certs=", "?ssl_certfile="), "is not trusted"),
    ],
    ids=["password", "sentinels' password", "service", "certificate"],
)
def test_what_is_wrong_is_said_in_a_line_and_ends_a_worker_at_once(
    tmp_path: Path, guarded: Family, change: tuple[str, str], words: str
) -> None:
    url = guarded.url.replace(*change)
    if "ssl_certfile" in url:
        url = url.partition("?")[0] + f"?sentinel_password={SENTINEL_PASSWORD}"
    done = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", url),)).run("worker", timeout_s=60)
    assert done.code != 0
    assert words in done.err
    assert "Traceback" not in done.err
    assert SENTINEL_PASSWORD not in done.err
    assert PASSWORD not in done.err


def test_sentinels_that_are_away_are_waited_for(tmp_path: Path) -> None:
    url = "redis+sentinel://127.0.0.1:9,127.0.0.1:10/main"
    done = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", url),)).run("jobs")
    assert done.code == 1
    assert "cannot reach Redis at redis+sentinel://127.0.0.1:9,127.0.0.1:10/main" in done.err
    assert "127.0.0.1:10 (Error 111" in done.err
