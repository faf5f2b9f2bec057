"""Operators' words on hosts, in each database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from sqlalchemy.engine import Engine

from shoal.errors import StoreUnavailable
from shoal.store.host_limits import HostLimit, HostLimits

HOST = "shop.example"


@pytest.fixture
def limits(engine: Engine) -> HostLimits:
    return HostLimits(engine)


def test_a_word_is_kept_as_it_was_said(limits: HostLimits) -> None:
    words = [
        HostLimit("@example.org", paused=True, set_ms=3),
        HostLimit("free.example", 0.0, 0, set_ms=2),
        HostLimit(HOST, 100 / 3600, 1, False, "agreed by mail – Zoë", 1),
    ]
    for word in reversed(words):
        limits.put(word)
    assert limits.all() == words
    assert limits.get(HOST) == words[2]
    assert limits.get("other.example") is None
    assert limits.some([HOST, "other.example"]) == {HOST: words[2]}
    assert limits.some([]) == {}


def test_the_last_word_replaces_the_one_before(limits: HostLimits) -> None:
    limits.put(HostLimit(HOST, 1.0, 1, True, "first", 1))
    limits.put(HostLimit(HOST, parallel=2, set_ms=2))
    assert limits.all() == [HostLimit(HOST, parallel=2, set_ms=2)]


def test_a_change_leaves_what_it_does_not_name(limits: HostLimits) -> None:
    limits.put(HostLimit(HOST, 1.0, 1, False, "first", 1))
    assert limits.change(HOST, {"paused": True}, 2) == HostLimit(HOST, 1.0, 1, True, "first", 2)
    assert limits.change(HOST, {"rate": None, "note": ""}, 3) == HostLimit(HOST, None, 1, True, "", 3)
    assert limits.change("new.example", {"rate": 0.0}, 4) == HostLimit("new.example", 0.0, set_ms=4)


def test_a_word_that_says_nothing_any_more_goes(limits: HostLimits) -> None:
    limits.put(HostLimit(HOST, 1.0, set_ms=1))
    assert limits.change(HOST, {"rate": None}, 2) is None
    assert limits.change("new.example", {"paused": False}, 2) is None
    assert limits.all() == []


def test_a_word_is_taken_back_once(limits: HostLimits) -> None:
    limits.put(HostLimit(HOST, 1.0, set_ms=1))
    assert limits.remove(HOST)
    assert not limits.remove(HOST)
    assert limits.get(HOST) is None


def test_the_mark_is_another_one_after_every_change(limits: HostLimits) -> None:
    marks = [limits.mark()]
    for change in (
        lambda: limits.put(HostLimit(HOST, 1.0, set_ms=5)),
        lambda: limits.put(HostLimit("old.example", 1.0, set_ms=2)),
        lambda: limits.put(HostLimit("old.example", 2.0, set_ms=3)),
        lambda: limits.remove("old.example"),
        lambda: limits.remove(HOST),
    ):
        change()
        marks.append(limits.mark())
    assert all(before != after for before, after in pairwise(marks))
    assert limits.mark() == marks[-1]


def test_who_change_different_fields_at_once_lose_nothing(limits: HostLimits) -> None:
    changes = [{"rate": 1.0}, {"parallel": 3}, {"paused": True}, {"note": "x"}]
    with ThreadPoolExecutor(4) as pool:
        for made in [pool.submit(limits.change, HOST, change, 1) for change in changes]:
            made.result(30)
    assert limits.get(HOST) == HostLimit(HOST, 1.0, 3, True, "x", 1)


def test_a_database_without_the_table_is_our_own_error(engine: Engine, limits: HostLimits) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE host_limits")
    with pytest.raises(StoreUnavailable, match="host_limits"):
        limits.mark()
