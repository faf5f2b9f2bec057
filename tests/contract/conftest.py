"""Fixtures of the contract suites."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from pathlib import Path

import pytest
import redis
from sqlalchemy.engine import Engine

from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.store.database import open_database
from tests.contract.api import Desk, a_desk
from tests.contract.databases import DATABASES, a_database
from tests.contract.keyspace import clear, leaks, read_keys, wrong_depths
from tests.contract.places import Target, a_bucket, a_folder
from tests.s3 import S3

_numbers = itertools.count(1)


@pytest.fixture
def client(server_url: str) -> Generator[redis.Redis]:
    """A connection to look behind the frontier's back."""
    client = connect(server_url)
    yield client
    client.close()


@pytest.fixture
def prefix(client: redis.Redis) -> Generator[str]:
    """A keyspace of its own; after the test, no key is left without a lifetime or an owner, and the depths add up."""
    prefix = f"t{next(_numbers)}"
    yield prefix
    stored = read_keys(client, prefix)
    clear(client, prefix)
    assert not leaks(stored)
    assert not wrong_depths(stored)


@pytest.fixture
def frontier(client: redis.Redis, prefix: str) -> Frontier:
    """An empty frontier."""
    return Frontier(client, prefix)


@pytest.fixture
def watch(client: redis.Redis, prefix: str) -> Watch:
    """What can be seen of the same frontier."""
    return Watch(client, prefix)


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    """A desk on SQLite."""
    with a_desk(valkey_url, tmp_path) as desk:
        yield desk


@pytest.fixture(params=DATABASES)
def each(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    """A desk on each database."""
    with a_desk(valkey_url, tmp_path, a_database(request, tmp_path)) as desk:
        yield desk


@pytest.fixture(params=DATABASES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Engine]:
    """Each database, without a desk."""
    engine = open_database(a_database(request, tmp_path))
    yield engine
    engine.dispose()


@pytest.fixture(params=["folder", "s3"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A place for deliveries."""
    if request.param == "folder":
        return a_folder(tmp_path / "out")
    server: S3 = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return a_bucket(server)
