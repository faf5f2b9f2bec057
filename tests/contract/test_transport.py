"""Celery's Redis transport with the door in front, on a real server."""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest
from celery import Celery

from shoal.core.model import CONTROL_QUEUE
from shoal.frontier.scripts import connect
from shoal.redis_url import RedisUrls
from shoal.worker.app import TICK_TASK, make_app
from shoal.worker.door import Door
from tests.hostile_messages import ring

DATABASE = 8


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def app(server_url: str, door: Door) -> Generator[Celery]:
    client = connect(f"{server_url}?db={DATABASE}")
    client.flushdb()
    client.close()
    app = make_app(RedisUrls.of(f"{server_url}?db={DATABASE}"), door)
    yield app
    app.close()


@pytest.fixture
def channel(app: Celery) -> Generator[Any]:
    with app.connection_for_read() as connection:
        yield connection.default_channel


def test_only_a_doorbell_is_got_from_a_queue(app: Celery, channel: Any, door: Door) -> None:
    queue = app.amqp.queues[CONTROL_QUEUE].bind(channel)
    channel.client.lpush(CONTROL_QUEUE, b"\x80\x04.")
    assert queue.get(no_ack=True) is None
    assert door.take() == {"not_json": 1}
    app.send_task(TICK_TASK, queue=CONTROL_QUEUE)
    got = queue.get(no_ack=True)
    assert got.headers["task"] == TICK_TASK
    assert door.take() == {}


@pytest.mark.parametrize(
    "saved", [b"\x80\x04.", b"[]", b'["x"]', b"[" * 100_000], ids=["pickle", "empty", "short", "deep"]
)
def test_what_nobody_acknowledged_and_nobody_can_read_is_dropped(channel: Any, door: Door, saved: bytes) -> None:
    channel.client.hset(channel.unacked_key, "tag", saved)
    channel.client.zadd(channel.unacked_index_key, {"tag": 0})
    channel.qos.restore_by_tag("tag")
    assert channel.client.exists(channel.unacked_key, channel.unacked_index_key) == 0
    assert door.take() == {"malformed": 1}


def test_what_nobody_acknowledged_goes_back_to_its_queue(app: Celery, channel: Any, door: Door) -> None:
    queue = app.amqp.queues[CONTROL_QUEUE].bind(channel)
    queue.declare()
    channel.client.hset(channel.unacked_key, "tag", json.dumps([ring(TICK_TASK), "shoal", CONTROL_QUEUE]))
    channel.client.zadd(channel.unacked_index_key, {"tag": 0})
    channel.qos.restore_by_tag("tag")
    assert queue.get(no_ack=True).headers["task"] == TICK_TASK
    assert door.take() == {}
