"""Copies of robots.txt: one row an origin, one text a version, and nothing kept that nobody needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.robots import MAX_BYTES, RobotsCopy, version_of
from shoal.errors import StoreUnavailable
from shoal.store.host_tables import ledger, robots, robots_texts
from shoal.store.robots import RobotsStore

ORIGIN = "http://shop.example"
CLOSED = b"User-agent: *\nDisallow: /private/\n\x00\xff"
OPEN = b"User-agent: *\nDisallow:\n"


def copy_of(body: bytes = CLOSED, *, origin: str = ORIGIN, status: int = 200, at_ms: int = 1_000) -> RobotsCopy:
    return RobotsCopy(origin, status, version_of(body), at_ms, at_ms + 500, body)


def count(engine: Engine, table: sa.Table) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def record(engine: Engine, version: str) -> None:
    """A request that was judged by this version."""
    row = {
        "at_ms": 1,
        "host": "shop.example",
        "job": "job",
        "url": f"{ORIGIN}/",
        "status": 200,
        "reason": "",
        "rate": 4.0,
        "parallel": 2,
        "source": "default",
        "robots": version,
        "rule": "",
    }
    with engine.begin() as connection:
        connection.execute(sa.insert(ledger).values(row))


def test_a_copy_comes_back_as_it_was(engine: Engine) -> None:
    store = RobotsStore(engine)
    largest = copy_of(b"#" * (MAX_BYTES + 1), origin="https://large.example:8443")
    for copy in (copy_of(), largest):
        store.save(copy)
        assert store.load(copy.origin) == copy
        assert store.text(copy.version) == copy.body


def test_an_origin_that_was_never_asked_has_no_copy(engine: Engine) -> None:
    store = RobotsStore(engine)
    store.save(copy_of())
    assert store.load("https://shop.example") is None
    assert store.text("0" * 16) is None


def test_a_host_without_a_file_has_a_copy_without_a_text(engine: Engine) -> None:
    store = RobotsStore(engine)
    missing = copy_of(b"", status=404)
    store.save(missing)
    assert missing.version == ""
    assert store.load(ORIGIN) == missing
    assert (store.text(""), count(engine, robots_texts)) == (None, 0)


def test_a_newer_copy_takes_the_place_of_the_last_and_the_text_of_the_last_stays(engine: Engine) -> None:
    store = RobotsStore(engine)
    older, newer, gone = copy_of(), copy_of(OPEN, at_ms=2_000), copy_of(b"", status=410, at_ms=3_000)
    for copy in (older, newer, gone):
        store.save(copy)
        assert store.load(ORIGIN) == copy
    assert count(engine, robots) == 1
    assert [store.text(copy.version) for copy in (older, newer)] == [CLOSED, OPEN]


def test_hosts_with_the_same_file_share_one_text(engine: Engine) -> None:
    store = RobotsStore(engine)
    copies = [copy_of(origin=f"http://{number}.example") for number in range(5)]
    for copy in copies:
        store.save(copy)
    assert [store.load(copy.origin) for copy in copies] == copies
    assert (count(engine, robots), count(engine, robots_texts)) == (5, 1)


def test_a_copy_whose_text_is_gone_is_none(engine: Engine) -> None:
    store = RobotsStore(engine)
    store.save(copy_of())
    with engine.begin() as connection:
        connection.execute(sa.delete(robots_texts))
    assert store.load(ORIGIN) is None


def test_copies_that_ended_long_ago_are_forgotten_with_their_texts(engine: Engine) -> None:
    store = RobotsStore(engine)
    old, young = copy_of(), copy_of(OPEN, origin="http://young.example", at_ms=9_000)
    store.save(old)
    store.save(young)
    assert store.forget(before_ms=5_000) == 2
    assert (store.load(ORIGIN), store.text(old.version)) == (None, None)
    assert (store.load(young.origin), store.text(young.version)) == (young, OPEN)
    assert store.forget(before_ms=5_000) == 0


def test_a_copy_that_still_holds_is_kept_however_old_it_is(engine: Engine) -> None:
    store = RobotsStore(engine)
    lasting = replace(copy_of(), until_ms=9_000)
    store.save(lasting)
    assert store.forget(before_ms=5_000) == 0
    assert store.load(ORIGIN) == lasting


def test_a_text_by_which_a_recorded_request_was_judged_is_kept(engine: Engine) -> None:
    store = RobotsStore(engine)
    judged, idle = copy_of(), copy_of(OPEN, origin="http://idle.example")
    store.save(judged)
    store.save(idle)
    record(engine, judged.version)
    record(engine, "")
    assert store.forget(before_ms=5_000) == 3
    assert (store.load(ORIGIN), store.text(judged.version), store.text(idle.version)) == (None, CLOSED, None)
    with engine.begin() as connection:
        connection.execute(sa.delete(ledger))
    assert store.forget(before_ms=5_000) == 1
    assert store.text(judged.version) is None


def test_a_text_that_was_seen_again_is_kept(engine: Engine) -> None:
    store = RobotsStore(engine)
    store.save(copy_of())
    store.save(copy_of(at_ms=9_000))
    store.save(copy_of(OPEN, at_ms=9_001))
    assert store.forget(before_ms=5_000) == 0
    assert store.text(version_of(CLOSED)) == CLOSED


def test_forgetting_goes_in_batches(engine: Engine) -> None:
    store = RobotsStore(engine)
    for number in range(5):
        store.save(copy_of(b"# %d" % number, origin=f"http://{number}.example", at_ms=1_000 + number))
    removed = [store.forget(before_ms=5_000, at_most=2) for _ in range(4)]
    assert removed == [4, 4, 2, 0]
    assert (count(engine, robots), count(engine, robots_texts)) == (0, 0)


def test_trouble_with_the_database_is_told_as_such(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE robots"))
    store = RobotsStore(engine)
    for act in (lambda: store.load(ORIGIN), lambda: store.save(copy_of()), lambda: store.forget(1)):
        with pytest.raises(StoreUnavailable, match="robots"):
            act()
    assert store.text(version_of(CLOSED)) is None  # a copy is written whole or not at all
