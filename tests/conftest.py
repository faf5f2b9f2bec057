"""Fixtures that several suites share."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import pytest
import structlog

from shoal.collector import calm_collector
from tests import servers
from tests.fleets import CHOSEN, services
from tests.long import LONG
from tests.postgres import Postgres, running_postgres
from tests.rabbitmq import Installed, RabbitMQ, running_rabbitmq
from tests.s3 import S3, running_s3

gc.disable()  # until all tests are collected: there are ten thousand, and what they are made of stays


def pytest_collection_finish() -> None:
    """From now on the collector leaves the tests themselves alone: looking through them took a third of their time."""
    calm_collector()
    gc.enable()


def pytest_configure() -> None:
    """A shell ignores Ctrl-C for what it runs in the background, and so would the commands that tests interrupt."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """The servers of SHOAL_TEST_FLEET end with the tests; and what libraries count must be gone when Python ends."""
    gc.unfreeze()
    if services.cache_info().currsize:
        services().end()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are marked as long are for `make chaos`; those about the embedded server are for no other fleet."""
    left_out = [] if LONG else ["long"]
    left_out += [] if CHOSEN == "embedded" else ["embedded"]
    dropped = [item for item in items if any(item.get_closest_marker(name) for name in left_out)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture(autouse=True)
def _plain_logs() -> Generator[None]:
    """A command that is run in this process sets up logs; the next test finds them as they were."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def valkey_url() -> Generator[str]:
    """The server that Shoal embeds."""
    with servers.running(servers.valkey()) as url:
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Generator[str]:
    """Debian's server."""
    binary = servers.redis()
    if binary is None:
        lack("redis-server 7.0 or newer is not on the PATH (apt install redis-server)")
    with servers.running(binary) as url:
        yield url


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for loopback, and its key."""
    from tests.proxies import Identity

    folder = tmp_path_factory.mktemp("certificate")
    Identity.make(folder)
    return folder


@pytest.fixture(scope="session")
def rabbitmq(certificate: Path) -> Generator[RabbitMQ]:
    """A RabbitMQ, of which each test takes a virtual host of its own."""
    installed = Installed.find()
    if installed is None:
        lack("there is no RabbitMQ (scripts/get-services, or apt install rabbitmq-server)")
    with running_rabbitmq(installed, certificate) as server:
        yield server


@pytest.fixture(scope="session", params=["valkey", "redis"])
def server_url(request: pytest.FixtureRequest) -> str:
    """Each server in turn."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    """A PostgreSQL server, of which each test takes a database of its own."""
    with running_postgres() as server:
        server.hurry()
        yield server


@pytest.fixture(scope="session")
def s3() -> Generator[S3]:
    """An S3 API, of which each test takes a bucket of its own."""
    if CHOSEN == "postgres":
        yield services().s3  # the variables that lead there are for all
        return
    with running_s3() as server:
        yield server


def lack(what: str) -> NoReturn:
    """A missing service skips on a laptop; where CI=true it fails, or nobody would notice that it is gone."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)
