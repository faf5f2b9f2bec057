"""What tests of a frontier in slots stand on: servers that can fall, and a frontier or a whole platform over them.

Fixtures: a module imports those that it uses, `started` among them; its `SHARDS` names the servers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from shoal.frontier.scripts import connect
from shoal.frontier.shards import Shards
from shoal.frontier.slots import slot_of
from shoal.frontier.spread import SpreadFrontier
from tests.contract.api import Desk, a_desk
from tests.shards import Servers, running_shards

MANY = [f"http://h{n}.test/{i}" for n in range(20) for i in range(3)]


@pytest.fixture(scope="module")
def started(request: pytest.FixtureRequest) -> Generator[Servers]:
    """Once for a module."""
    module = cast("object", request.module)  # pyright: ignore[reportUnknownMemberType]
    with running_shards(*cast("Iterable[str]", getattr(module, "SHARDS", "ab"))) as found:
        yield found


@pytest.fixture
def servers(started: Servers) -> Servers:
    """Empty ones."""
    started.clear()
    return started


@pytest.fixture
def desk(servers: Servers, tmp_path: Path) -> Generator[Desk]:
    """Over all of them."""
    with a_desk(servers.control, tmp_path, prefix="shoal", shards=servers.named) as desk:
        desk.platform.recovery.look()
        yield desk


@pytest.fixture
def frontier(servers: Servers) -> Generator[SpreadFrontier]:
    """Likewise."""
    frontier = a_frontier(servers)
    yield frontier
    frontier.close_connections()


def shards_of(servers: Servers, *names: str) -> Shards:
    """All of them, or these."""
    urls = {name: servers.urls[name] for name in names or servers.urls}
    return Shards.at(connect(servers.control), "shoal", urls)


def a_frontier(servers: Servers, *names: str) -> SpreadFrontier:
    """Over all of them, or over these."""
    return SpreadFrontier(connect(servers.control), "shoal", shards_of(servers, *names))


def host_of_shard(frontier: SpreadFrontier, name: str) -> str:
    """The first host that is there."""
    table = frontier.shards.table()
    return next(host for host in (f"h{n}.test" for n in range(500)) if table[slot_of(host)] == name)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits as long as in life: for a server, for a mover, or before something is looked into."""
    for place in ("housekeeping", "recovery.recovery"):
        monkeypatch.setattr(f"shoal.{place}.PATIENCE", timedelta(milliseconds=1))
    rest_little(monkeypatch)
    monkeypatch.setattr("shoal.frontier.shards.MOVE_S", 0.2)
    monkeypatch.setattr("shoal.frontier.moving.CLAIM_S", 1)


def rest_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that did not answer is asked again at once."""
    monkeypatch.setattr("shoal.frontier.shards.REST_S", 0.02)
    monkeypatch.setattr("shoal.frontier.shards.LONGEST_REST_S", 0.05)
