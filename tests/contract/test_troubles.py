"""The board of troubles: what workers write there is seen by everybody, and never outlives them."""

from __future__ import annotations

from collections.abc import Generator
from typing import cast
from uuid import uuid4

import pytest
import redis

from shoal.core.spec import JobSpec
from shoal.core.trouble import Need, Trouble, explain
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect
from shoal.frontier.troubles import TROUBLE_LIFETIME, TroubleBoard, read_troubles

LOCKED = Trouble(Need.DATABASE, "database is locked", 12_000)
FULL = Trouble(Need.ARCHIVE, "no space", 3_000)


@pytest.fixture
def client(server_url: str) -> Generator[redis.Redis]:
    client = connect(f"{server_url}?db=2")
    yield client
    client.close()


@pytest.fixture
def prefix() -> str:
    return f"trouble-{uuid4().hex[:8]}"


@pytest.fixture
def board(client: redis.Redis, prefix: str) -> TroubleBoard:
    return TroubleBoard(client, prefix)


def _seen(board: TroubleBoard) -> list[tuple[str, str, str]]:
    return [(trouble.what.value, trouble.worker, trouble.message) for trouble in board.troubles()]


def test_a_trouble_is_seen_until_its_worker_says_that_it_is_over(board: TroubleBoard) -> None:
    board.tell("one", [LOCKED, FULL], {Need.DATABASE: 1, Need.ARCHIVE: 1})
    board.tell("two", [LOCKED], {Need.DATABASE: 1})
    assert [each[:2] for each in _seen(board)] == [("archive", "one"), ("database", "one"), ("database", "two")]
    board.tell("one", [FULL], {})
    assert [each[:2] for each in _seen(board)] == [("archive", "one"), ("database", "two")]
    board.tell("one", [], {})
    board.tell("two", [], {})
    assert _seen(board) == []
    assert board.outages() == {Need.REDIS: 0, Need.DATABASE: 2, Need.ARCHIVE: 1}


def test_a_trouble_grows_older_on_redis_own_clock(board: TroubleBoard) -> None:
    board.tell("one", [LOCKED], {})
    (seen,) = board.troubles()
    assert 12_000 <= seen.lasted_ms < 15_000


def test_who_dies_in_trouble_does_not_leave_it_behind(board: TroubleBoard, client: redis.Redis, prefix: str) -> None:
    board.tell("dead", [LOCKED], {})
    key = f"{prefix}:troubles"
    assert 0 < client.ttl(key) <= TROUBLE_LIFETIME.total_seconds()
    told = cast("dict[str, str]", client.hgetall(key))
    (before,) = read_troubles(told, 0)
    assert before.worker == "dead"
    assert read_troubles(told, 10**14) == ()
    client.hset(key, "database dead", '{"message":"","since":0,"until":1}')
    board.tell("alive", [FULL], {})  # whoever writes next clears away what is past
    assert client.hkeys(key) == ["archive alive"]


def test_a_running_job_shows_the_troubles_and_a_paused_one_does_not(client: redis.Redis, prefix: str) -> None:
    frontier = Frontier(client, prefix)
    frontier.create("j1", JobSpec(urls=("http://shop.example/",)))
    frontier.board.tell("one", [LOCKED], {})
    status = frontier.status("j1")
    assert status is not None
    assert [trouble.worker for trouble in status.troubles] == ["one"]
    frontier.pause("j1")
    paused = frontier.status("j1")
    assert paused is not None
    assert paused.troubles == ()


def test_what_several_processes_met_is_said_once_with_the_longest_first() -> None:
    younger = Trouble(Need.DATABASE, "locked", 5_000, "two")
    older = Trouble(Need.DATABASE, "locked, too", 9_999, "one")
    full = Trouble(Need.ARCHIVE, "no space", 7_000, "one")
    assert explain([younger, full, older]) == "paused for 9 s: locked, too (2 processes); paused for 7 s: no space"
    assert explain([]) is None
