"""Operators' words on hosts: durable, from a file as well, and given to the frontier again when it has lost them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path

import pytest
import redis
import structlog
from sqlalchemy.engine import Engine

from shoal import hosts as module
from shoal.core.host_status import HostStatus
from shoal.core.model import ALL_QUEUES
from shoal.errors import InputError, NotFound, RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.host_file import HostFile
from shoal.hosts import Hosts
from shoal.store.database import open_database
from shoal.store.host_limits import HostLimits
from tests.contract.api import Desk, a_desk
from tests.contract.keyspace import clear

MINUTE = timedelta(minutes=1)
Words = tuple[float | None, int | None, bool] | None


@pytest.fixture
def engine(tmp_path: Path) -> Generator[Engine]:
    engine = open_database(f"sqlite:///{tmp_path / 'shoal.db'}")
    yield engine
    engine.dispose()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hosts.yaml"


@pytest.fixture
def make(frontier: Frontier, watch: Watch, engine: Engine, file: Path) -> Callable[[], Hosts]:
    """The service as another process would open it."""
    return lambda: Hosts(frontier, watch, HostLimits(engine), HostFile(file if file.exists() else None))


@pytest.fixture
def hosts(make: Callable[[], Hosts]) -> Hosts:
    return make()


@pytest.fixture
def always_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_EVERY_S", 0.0)


def _write(file: Path, text: str, *, seconds_later: int = 0) -> None:
    """A file with a time of its own, so that no two versions look alike."""
    file.write_text(text, encoding="utf-8")
    at = 1_700_000_000 + seconds_later
    os.utime(file, (at, at))


def _words(watch: Watch, host: str) -> Words:
    """What the frontier goes by."""
    status = watch.host(host)
    return None if status is None else (status.rate, status.parallel, status.paused)


# --- saying ----------------------------------------------------------------------------------------------------------


def test_a_word_reaches_the_table_and_the_frontier(hosts: Hosts, watch: Watch, engine: Engine) -> None:
    report = hosts.set("SHOP.example:80", HostChange(rate=0.5, parallel=1), "agreed by mail")
    assert (report.status.host, report.status.rate, report.note, report.rate_source) == (
        "shop.example",
        0.5,
        "agreed by mail",
        "operator",
    )
    assert _words(watch, "shop.example") == (0.5, 1, False)
    kept = HostLimits(engine).get("shop.example")
    assert kept is not None
    assert (kept.rate, kept.parallel, kept.paused, kept.note) == (0.5, 1, False, "agreed by mail")


def test_a_later_word_leaves_what_it_does_not_name(hosts: Hosts, watch: Watch) -> None:
    hosts.set("shop.example", HostChange(rate=0.5, parallel=1), "first")
    hosts.set("shop.example", HostChange(paused=True))
    assert _words(watch, "shop.example") == (0.5, 1, True)
    report = hosts.set("shop.example", HostChange(rate=None, paused=False))
    assert _words(watch, "shop.example") == (None, 1, False)
    assert report.note == "first"


def test_a_hold_passes_and_is_kept_by_the_frontier_alone(hosts: Hosts, engine: Engine) -> None:
    report = hosts.set("shop.example", HostChange(hold=MINUTE))
    assert report.status.state == "held"
    assert HostLimits(engine).all() == []
    assert hosts.set("shop.example", HostChange(hold=timedelta())).status.state == "open"


def test_a_word_that_is_taken_back_is_gone_from_both(hosts: Hosts, watch: Watch, engine: Engine) -> None:
    hosts.set("shop.example", HostChange(rate=0.5, paused=True, hold=MINUTE), "x")
    report = hosts.clear("shop.example")
    assert (report.status.state, report.said) == ("open", None)
    assert _words(watch, "shop.example") == (None, None, False)
    assert HostLimits(engine).all() == []
    with pytest.raises(NotFound, match=r"never\.example"):
        hosts.clear("never.example")


def test_a_domain_has_a_bucket_with_a_name(hosts: Hosts, watch: Watch) -> None:
    hosts.set("@Example.ORG", HostChange(parallel=4))
    assert _words(watch, "@example.org") == (None, 4, False)
    assert hosts.show("@example.org").status.parallel == 4
    for name in ("@localhost", "@intranet", "@my_host-1"):
        hosts.set(name, HostChange(rate=1.0))
        assert _words(watch, name) == (1.0, None, False)


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "me@shop.example", "@", "@@example.org", "@127.0.0.1", "@a.b:8080", "@[::1]"]
)
def test_what_is_no_host_is_refused_before_anything_is_kept(hosts: Hosts, engine: Engine, name: str) -> None:
    with pytest.raises(InputError):
        hosts.set(name, HostChange(rate=1.0))
    assert HostLimits(engine).all() == []


def test_a_note_has_an_end(hosts: Hosts) -> None:
    with pytest.raises(InputError, match="note"):
        hosts.set("shop.example", HostChange(), "x" * 501)


# --- looking ---------------------------------------------------------------------------------------------------------


def test_hosts_can_be_listed_by_their_state(hosts: Hosts) -> None:
    for n in range(12):
        hosts.set(f"h{n:02d}.example", HostChange(rate=1.0, paused=n % 3 == 0))
    paused, place = list[str](), None
    while True:
        listing = hosts.list(3, place, "paused")
        paused += [report.status.host for report in listing.reports]
        place = listing.place
        if not listing.more:
            break
    assert sorted(paused) == ["h00.example", "h03.example", "h06.example", "h09.example"]
    assert hosts.list(3, None, "down").reports == []
    assert len(hosts.list(12).reports) == 12
    assert not hosts.list(12).more
    assert hosts.list(11).more


def test_a_search_has_an_end_and_goes_on_from_there(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_AT_MOST", 4)
    hosts.set("paused.example", HostChange(paused=True))
    for n in range(9):
        hosts.set(f"h{n}.example", HostChange(rate=1.0))
    first = hosts.list(2, None, "paused")
    assert (first.reports, first.more) == ([], True)
    found, place = list[HostStatus](), first.place
    for _ in range(5):
        listing = hosts.list(2, place, "paused")
        found += [report.status for report in listing.reports]
        place = listing.place
    assert [status.host for status in found] == ["paused.example"]


def test_a_host_that_redis_has_lost_is_shown_by_its_word(hosts: Hosts, client: redis.Redis, prefix: str) -> None:
    hosts.set("shop.example", HostChange(rate=0.5, paused=True), "kept")
    clear(client, prefix)
    report = hosts.show("shop.example")
    assert (report.status.rate, report.status.state, report.note) == (0.5, "paused", "kept")
    with pytest.raises(NotFound):
        hosts.show("other.example")


# --- keeping ---------------------------------------------------------------------------------------------------------


def test_words_come_back_after_redis_was_emptied(
    make: Callable[[], Hosts], client: redis.Redis, prefix: str, watch: Watch, always_check: None
) -> None:
    hosts = make()
    hosts.set("shop.example", HostChange(rate=0.5))
    hosts.set("@example.org", HostChange(paused=True))
    assert hosts.sync() == 0
    clear(client, prefix)
    assert hosts.sync() == 2
    assert _words(watch, "shop.example") == (0.5, None, False)
    assert _words(watch, "@example.org") == (None, None, True)
    clear(client, prefix)
    assert make().sync() == 2  # as does a process that has just started
    assert _words(watch, "shop.example") == (0.5, None, False)


def test_words_of_many_hosts_come_back_by_a_sample(
    make: Callable[[], Hosts], client: redis.Redis, prefix: str, always_check: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_AT_ONCE", 3)
    hosts = make()
    for n in range(10):
        hosts.set(f"h{n}.example", HostChange(rate=1.0))
    assert hosts.sync() == 0
    clear(client, prefix)
    assert hosts.sync() == 10


def test_the_frontier_is_looked_at_only_now_and_then(
    hosts: Hosts, client: redis.Redis, prefix: str, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.set("shop.example", HostChange(rate=0.5))
    hosts.sync()
    clear(client, prefix)
    assert hosts.sync() == 0
    assert _words(watch, "shop.example") is None
    monkeypatch.setattr(module, "CHECK_EVERY_S", 0.0)
    assert hosts.sync() == 1


def test_a_word_that_did_not_reach_the_frontier_is_told_later(
    hosts: Hosts, make: Callable[[], Hosts], frontier: Frontier, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    housekeeper = make()
    housekeeper.sync()

    def fail(*_: object) -> None:
        raise RedisUnavailable

    with monkeypatch.context() as patch, pytest.raises(RedisUnavailable):
        patch.setattr(frontier, "configure_host", fail)
        hosts.set("shop.example", HostChange(rate=0.5))
    assert _words(watch, "shop.example") is None
    assert housekeeper.sync() == 1
    assert _words(watch, "shop.example") == (0.5, None, False)
    hosts.clear("shop.example")
    assert housekeeper.sync() == 0  # it has been told already


def test_a_word_that_stands_nowhere_else_is_taken_back(
    make: Callable[[], Hosts], frontier: Frontier, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRAYS_AT_ONCE", 4)
    make().set("kept.example", HostChange(rate=0.5))
    for n in range(10):
        frontier.configure_host(f"stray{n}.example", HostChange(rate=1.0))
    hosts = make()
    assert sum(hosts.sync() for _ in range(6)) == 10
    assert _words(watch, "stray3.example") == (None, None, False)
    assert _words(watch, "kept.example") == (0.5, None, False)


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_file_is_given_to_the_frontier_and_the_table_is_stronger(
    file: Path, make: Callable[[], Hosts], watch: Watch
) -> None:
    _write(
        file,
        """
hosts:
  Shop.example: {rate: 30/m, parallel: 1, note: agreed by mail}
  free.example: {rate: unlimited, parallel: unlimited}
  "@example.org": {paused: true}
""",
    )
    hosts = make()
    assert hosts.sync() == 3
    assert _words(watch, "shop.example") == (0.5, 1, False)
    assert _words(watch, "free.example") == (0.0, 0, False)
    assert _words(watch, "@example.org") == (None, None, True)
    report = hosts.show("shop.example")
    assert (report.rate_source, report.parallel_source, report.note) == ("file", "file", "agreed by mail")
    report = hosts.set("shop.example", HostChange(rate=2.0))
    assert (report.rate_source, report.parallel_source) == ("operator", "file")
    assert _words(watch, "shop.example") == (2.0, 1, False)
    hosts.clear("shop.example")
    assert _words(watch, "shop.example") == (0.5, 1, False)
    assert hosts.set("@example.org", HostChange(paused=False)).status.paused  # the file says so still


def test_a_change_of_the_file_is_picked_up(file: Path, make: Callable[[], Hosts], watch: Watch) -> None:
    _write(file, "hosts: {a.example: {rate: 1}, b.example: {rate: 1}, c.example: {rate: 1}}")
    hosts = make()
    hosts.sync()
    _write(file, "hosts: {a.example: {rate: 1}, b.example: {rate: 2}}", seconds_later=1)
    assert hosts.sync() == 2
    assert [_words(watch, f"{name}.example") for name in "abc"] == [
        (1.0, None, False),
        (2.0, None, False),
        (None, None, False),
    ]


def test_a_host_that_left_the_file_while_nobody_ran_loses_its_limit(
    file: Path, make: Callable[[], Hosts], watch: Watch
) -> None:
    _write(file, "hosts: {a.example: {rate: 1}, b.example: {rate: 1}}")
    make().sync()
    _write(file, "hosts: {b.example: {rate: 1}}", seconds_later=1)
    make().sync()
    assert _words(watch, "a.example") == (None, None, False)
    assert _words(watch, "b.example") == (1.0, None, False)


@pytest.mark.parametrize("text", ["hosts: {a.example: {rate: fast}}", "hosts: [", None], ids=["value", "yaml", "gone"])
def test_a_file_that_became_bad_is_logged_once_and_the_old_one_holds(
    file: Path, make: Callable[[], Hosts], watch: Watch, text: str | None, always_check: None
) -> None:
    _write(file, "hosts: {a.example: {rate: 1}}")
    hosts = make()
    hosts.sync()
    if text is None:
        file.unlink()
    else:
        _write(file, text, seconds_later=1)
    with structlog.testing.capture_logs() as logs:
        assert [hosts.sync() for _ in range(3)] == [0, 0, 0]
    (refused,) = [entry for entry in logs if entry["event"] == "hosts_file_refused"]
    assert str(file) in refused["error"]
    assert _words(watch, "a.example") == (1.0, None, False)
    _write(file, "hosts: {a.example: {rate: 3}}", seconds_later=2)
    hosts.sync()
    assert _words(watch, "a.example") == (3.0, None, False)


def test_a_process_that_never_saw_a_good_file_takes_nothing_back(
    file: Path, make: Callable[[], Hosts], watch: Watch
) -> None:
    _write(file, "hosts: {a.example: {rate: 1}}")
    make().sync()
    _write(file, "hosts: [", seconds_later=1)
    late = make()
    late.set("b.example", HostChange(rate=2.0))
    late.sync()
    assert _words(watch, "a.example") == (1.0, None, False)
    assert _words(watch, "b.example") == (2.0, None, False)


# --- in the whole ----------------------------------------------------------------------------------------------------


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path) as desk:
        yield desk


def test_the_housekeeper_gives_a_pause_back_to_an_emptied_frontier(
    desk: Desk, valkey_url: str, always_check: None
) -> None:
    desk.platform.hosts.set("shop.example", HostChange(paused=True))
    desk.platform.housekeeper.tick()
    client = connect(f"{valkey_url}?db=2")
    clear(client, desk.platform.settings.prefix)
    client.close()
    desk.platform.housekeeper.tick()
    desk.submit("http://shop.example/")
    leased = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=MINUTE).leases
    assert leased == ()
