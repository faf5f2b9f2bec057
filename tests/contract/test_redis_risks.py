"""Dangers of a Redis, found on real servers that are set up so."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from shoal.redis_risks import EVICTS, OPEN, UNCHECKED, Risk, find_risks, warn_of_risks
from shoal.settings import Settings
from tests.documents import plain, table
from tests.servers import running_with, valkey


@contextmanager
def server(*options: str) -> Generator[str]:
    with running_with(valkey(), *options) as url:
        yield url


def test_a_server_that_keeps_what_it_is_given_and_is_not_reached_is_safe() -> None:
    with server("--maxmemory", "100mb", "--maxmemory-policy", "noeviction") as url:
        assert find_risks(url) == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_evict_is_named(policy: str) -> None:
    with server("--maxmemory", "100mb", "--maxmemory-policy", policy) as url:
        assert find_risks(url) == [EVICTS]


def test_a_policy_without_a_limit_does_no_harm() -> None:
    with server("--maxmemory", "0", "--maxmemory-policy", "allkeys-lru") as url:
        assert find_risks(url) == []


def test_a_server_that_listens_beyond_loopback_and_turns_nobody_away_is_open() -> None:
    """192.0.2.1 is nobody's address: the server is set up for it, and listens nowhere."""
    with server("--bind", "127.0.0.1 -192.0.2.1", "--protected-mode", "no") as url:
        assert find_risks(url) == [OPEN]
    with server("--bind", "127.0.0.1 -192.0.2.1", "--protected-mode", "yes") as url:
        assert find_risks(url) == []


def test_who_may_not_read_the_configuration_is_told_the_rest(tmp_path: Path) -> None:
    users = tmp_path / "users.acl"
    users.write_text("user default on nopass ~* &* +@all -config\n")
    with server("--aclfile", str(users), "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as url:
        assert find_risks(url) == [EVICTS]


OURS = "user shoal on >secret ~* &* +@all\n"


@pytest.mark.parametrize(
    ("others", "risks"),
    [
        ("user default on nopass ~* &* +@all", [OPEN]),
        ("user default on nopass ~* &* +@read", [OPEN]),
        ("user default on nopass ~* &* -@all +ping", []),
        ("user default on >other ~* &* +@all", []),
        ("user default off", []),
    ],
)
def test_a_password_of_ours_is_no_use_when_others_need_none(tmp_path: Path, others: str, risks: list[Risk]) -> None:
    users = tmp_path / "users.acl"
    users.write_text(f"{others}\n{OURS}")
    beyond = ("--bind", "127.0.0.1 -192.0.2.1", "--protected-mode", "no", "--aclfile", str(users))
    with running_with(valkey(), *beyond, login="shoal:secret@") as url:
        assert find_risks(url) == risks


def test_a_broker_of_its_own_is_looked_at_too(tmp_path: Path) -> None:
    with server() as safe, server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as broker:
        settings = Settings.model_validate({"home": tmp_path, "redis_url": safe, "broker_url": f"{broker}?db=3"})
        with capture_logs() as lines:
            warn_of_risks(settings)
        assert [(line["risk"], line["redis"]) for line in lines] == [("evicts", f"{broker}?db=3")]
        with capture_logs() as lines:
            warn_of_risks(settings.model_copy(update={"broker_url": "amqp://broker"}))
        assert lines == []


@pytest.mark.parametrize(
    ("url", "risks"),
    [
        ("redis://0.0.0.0:1", [OPEN]),
        ("redis://user@0.0.0.0:1", [OPEN]),
        ("redis://:secret@0.0.0.0:1", []),
        ("redis://127.0.0.1:1", []),
        ("redis://[::1]:1", []),
        ("redis://localhost:1", []),
        ("rediss://:secret@127.0.0.1:1?ssl_cert_reqs=none", [UNCHECKED]),
        ("rediss://127.0.0.2:1?ssl_cert_reqs=required", []),
    ],
)
def test_the_url_alone_tells_much(url: str, risks: list[Risk]) -> None:
    """Nobody answers there; 0.0.0.0 is this machine, by an address that is not loopback."""
    assert find_risks(url) == risks


def test_the_guide_has_every_risk() -> None:
    written = [plain(row[0]) for row in table("docs/guides/redis.md", "risk", "when")]
    assert written == [risk.name for risk in (OPEN, UNCHECKED, EVICTS)]
