"""A Redis that asks for a user and speaks TLS: a crawl runs under the rights of the guide, and no secret shows."""

# Celery has no type hints, and redis-py's leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
import socket
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from kombu.exceptions import OperationalError

from shoal.frontier.scripts import connect
from shoal.redis_url import RedisUrls
from shoal.worker.app import make_app
from tests.command import REPOSITORY, Done, Shoal, end
from tests.conftest import lack
from tests.documents import blocks
from tests.proxies import Identity
from tests.servers import redis as redis_server
from tests.servers import running_with
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PASSWORD = "s3cret:/@%pass"
FAST = ("--rate", "unlimited", "--no-robots", "--json", "--quiet")
WITHIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A server with a user for Shoal and one for the test."""

    socket: str
    port: int
    authority: Path

    def url(self, password: str = PASSWORD, *, trusted: bool = True) -> str:
        options = f"?ssl_ca_certs={self.authority}" if trusted else ""
        return f"rediss://shoal:{quote(password, safe='')}@127.0.0.1:{self.port}{options}"

    @property
    def socket_url(self) -> str:
        return f"unix://shoal:{quote(PASSWORD, safe='')}@{self.socket}"

    def denied(self) -> list[str]:
        """What the user was not allowed to do."""
        with connect(f"unix://test:test@{self.socket}") as client:
            return [f"{line['reason']} {line['object']}" for line in client.acl_log() if line["username"] == "shoal"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[Guarded]:
    binary = redis_server()
    if binary is None:
        lack("redis-server 7.0 or newer is not on the PATH, and it is the one that speaks TLS")
    folder = tmp_path_factory.mktemp("guarded")
    Identity.make(folder)
    users = folder / "users.acl"
    (rules,) = (b.text for b in blocks(REPOSITORY / "docs/guides/redis.md") if b.text.startswith("user default off"))
    users.write_text(rules.replace(">change-me", f">{PASSWORD}") + "user test on >test ~* &* +@all\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    files = ("--tls-cert-file", str(folder / "cert.pem"), "--tls-key-file", str(folder / "key.pem"))
    more = ("--tls-port", str(port), "--bind", "127.0.0.1", "--tls-auth-clients", "no", "--aclfile", str(users))
    with running_with(binary, *files, *more, login="test:test@") as url:
        yield Guarded(url.removeprefix("unix://test:test@"), port, folder / "cert.pem")


@pytest.mark.parametrize("way", ["tls", "socket"])
def test_a_crawl_runs_under_the_rights_of_the_guide(tmp_path: Path, guarded: Guarded, way: str) -> None:
    url = guarded.url() if way == "tls" else guarded.socket_url
    shoal = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", url),))
    worker = shoal.start("worker", "--beat")
    try:
        with serve(LinkedSite(pages=20, links=5, size=500)) as site:
            done = shoal.run("crawl", site.url, *FAST, "--workers", "0")
            assert (done.code, done.err) == (0, "")
        wait_until(lambda: bool(shoal.processes()), within=WITHIN)
        commands = [" ".join(process.cmdline()) for process in shoal.processes()]
    finally:
        worker.terminate()
        _, logged = worker.communicate(timeout=30)
        end(worker)
    assert done.json["pages"] == 20
    assert set(guarded.denied()) <= {"command config|get"}  # it looks for risks, and bears to be told nothing
    assert worker.returncode == 0
    _check_secrecy(done, logged, *commands)
    assert "redis_unsafe" not in logged


@pytest.mark.parametrize("command", ["worker", "jobs"])
def test_a_wrong_password_and_a_certificate_that_nobody_trusts_are_said_in_a_line(
    tmp_path: Path, guarded: Guarded, command: str
) -> None:
    for url, *words in (
        (guarded.url("wrong" + PASSWORD), "does not let us in", "invalid username-password pair"),
        (guarded.url(trusted=False), "is not trusted", "CERTIFICATE_VERIFY_FAILED", "ssl_ca_certs"),
    ):
        done = Shoal(tmp_path / "home", (("SHOAL_REDIS_URL", url),)).run(command, timeout_s=60)
        assert done.code != 0
        assert "Redis at rediss://***@127.0.0.1" in done.err
        for said in words:
            assert said.lower() in done.err.lower()
        assert "Traceback" not in done.err
        _check_secrecy(done)


@pytest.mark.parametrize("command", [("crawl", "http://127.0.0.1:9/"), ("worker",)])
def test_a_broker_that_refuses_ends_a_command_instead_of_keeping_it_waiting(
    tmp_path: Path, guarded: Guarded, command: tuple[str, ...]
) -> None:
    broker = f"unix://shoal:wrong@{guarded.socket}"
    done = Shoal(tmp_path / "home", (("SHOAL_BROKER_URL", broker),)).run(*command, timeout_s=60)
    assert done.code == 1
    assert f"the broker at redis+socket://***@{guarded.socket}" in done.err
    assert "does not let us in" in done.err
    assert "Traceback" not in done.err


def test_celery_checks_the_certificate_too(guarded: Guarded) -> None:
    """Left to itself it checks none."""
    trusting = make_app(RedisUrls.of(guarded.url()))
    trusting.connection_for_read().connect()
    wary = make_app(RedisUrls.of(guarded.url(trusted=False)))
    with pytest.raises(OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
        wary.connection_for_read().ensure_connection(max_retries=1)
    apart = make_app(RedisUrls.of("redis://127.0.0.1:9", guarded.url(trusted=False)))
    with pytest.raises(OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
        apart.connection_for_read().ensure_connection(max_retries=1)


def _check_secrecy(done: Done, *texts: str) -> None:
    for text in (done.out, done.err, *texts):
        assert PASSWORD not in text
        assert quote(PASSWORD, safe="") not in text
        assert json.dumps(PASSWORD)[1:-1] not in text
