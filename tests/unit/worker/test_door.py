"""The door between broker and worker: doorbells come in, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.core.model import ALL_QUEUES
from shoal.frontier.crew import REFUSALS
from shoal.worker.door import MAX_BYTES, Door
from tests.hostile_messages import envelope, hostile, hostile_words, ring

NOWHERE = Path("/nonexistent/canary")
RINGS = tuple(hostile(NOWHERE))
WORDS = tuple(hostile_words(NOWHERE))


@pytest.mark.parametrize("queue", ALL_QUEUES)
def test_a_doorbell_comes_in(queue: str) -> None:
    door = Door()
    assert door.admits_ring(json.dumps(ring(body=[[queue], {}, {"chain": None}])))
    assert door.admits_ring(json.dumps(ring("shoal.tick", expires="2026-11-16T14:44:14.729835+00:00")).encode())
    assert door.admits_ring(json.dumps(ring(request_id="nightly-42")))
    assert door.take() == {}


def test_a_word_of_remote_control_comes_in() -> None:
    door = Door()
    assert door.admits_control(json.dumps(envelope({"method": "ping", "arguments": {}, "destination": None}, {})))
    assert door.take() == {}


@pytest.mark.parametrize(("reason", "message"), [each[1:] for each in RINGS], ids=[each[0] for each in RINGS])
def test_what_is_no_doorbell_is_refused_and_counted(reason: str, message: bytes) -> None:
    door = Door()
    assert not door.admits_ring(message)
    assert door.take() == {reason: 1}
    assert reason in REFUSALS


@pytest.mark.parametrize(("reason", "message"), [each[1:] for each in WORDS], ids=[each[0] for each in WORDS])
def test_what_is_no_word_of_remote_control_is_refused_and_counted(reason: str, message: bytes) -> None:
    door = Door()
    assert not door.admits_control(message)
    assert door.take() == {reason: 1}


def test_every_reason_is_met() -> None:
    assert {reason for _, reason, _ in RINGS} == set(REFUSALS)


def test_what_was_taken_is_counted_once() -> None:
    door = Door()
    for _ in range(3):
        assert not door.admits_ring(b" ")
    assert not door.admits_ring(b"x" * (MAX_BYTES + 1))
    assert door.take() == {"not_json": 3, "too_large": 1}
    assert door.take() == {}
