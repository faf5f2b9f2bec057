"""The ledger, in each database: what was asked of a host, read in order, added up, and kept within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.ledger import Ask
from shoal.core.manners import LimitSource
from shoal.errors import RowRefused
from shoal.store import tables
from shoal.store.database import open_database
from shoal.store.ledger import JobShare, Ledger, LimitInForce, RobotsInForce, Span
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore

HOST = "shop.example"
DAY_MS = 86_400_000
NOON = 1_700_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2
NEVER = 0
VERSION = "0123456789abcdef"


@pytest.fixture
def ledger(engine: Engine) -> Ledger:
    return Ledger(engine)


def _ask(at_ms: int = NOON, **changes: object) -> Ask:
    plain = Ask(
        at_ms, HOST, "job1", f"http://{HOST}/", 200, "", 4.0, 2, LimitSource.JOB, "0123456789abcdef", "Allow: /"
    )
    return replace(plain, **changes)


def _write(engine: Engine, asks: Iterable[Ask]) -> None:
    PageStore(engine).write([], [], [], list(asks))


def _count(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(tables.ledger)).scalar_one()


# --- writing ---------------------------------------------------------------------------------------------------------


def test_what_was_asked_can_be_read_again(engine: Engine, ledger: Ledger) -> None:
    asks = [
        _ask(),
        _ask(NOON + 1, status=0, reason="timeout_connect", rate=0.0, parallel=0, source=LimitSource.OPERATOR),
        _ask(NOON + 2, job="", robots="", rule="Disallow: /ü % ? 'x'"),
    ]
    _write(engine, asks)
    assert [entry.ask for entry in ledger.read(HOST)] == asks


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://me:secret@shop.example/a@b", "http://shop.example/a@b"),
        ("HTTPS://me@x:secret@shop.example", "HTTPS://shop.example"),
        ("//me:secret@shop.example/", "//shop.example/"),
        ("http://shop.example\\@other.example/", "http://shop.example\\@other.example/"),
        ("http://shop.example/?q=http://me:you@x/", "http://shop.example/?q=http://me:you@x/"),
        ("http://shop.example/" + "x" * 3_000, "http://shop.example/" + "x" * 1_980),
    ],
)
def test_no_user_and_no_endless_url_gets_in(tmp_path: Path, url: str, kept: str) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'shoal.db'}")
    _write(engine, [_ask(url=url)])
    assert [entry.ask.url for entry in Ledger(engine).read(HOST)] == [kept]
    engine.dispose()


def test_a_line_of_robots_txt_may_hold_anything(engine: Engine, ledger: Ledger) -> None:
    _write(engine, [_ask(rule="Disallow: \0/" + "x" * 1_000)])
    (entry,) = ledger.read(HOST)
    assert entry.ask.rule == "Disallow: /" + "x" * 489


def test_pages_and_entries_are_written_together_or_not_at_all(engine: Engine, ledger: Ledger) -> None:
    row = PageRow("job1", 1, "http://shop.example/", HOST, 200, 0, 0, "", "", 1, 1.0, NOON)
    store = PageStore(engine)
    with pytest.raises(RowRefused):
        store.write([row], [], [], [_ask(), _ask(url="http://x/", reason=None)])
    assert (store.count("job1"), _count(engine)) == (0, 0)
    store.write([row], [], [], [_ask()])
    store.write([row], [], [], [_ask()])  # a page is one row, but it was asked for twice
    assert (store.count("job1"), _count(engine)) == (1, 2)


def test_removing_a_job_leaves_what_was_asked(engine: Engine, ledger: Ledger) -> None:
    row = PageRow("job1", 1, "http://shop.example/", HOST, 200, 0, 0, "", "", 1, 1.0, NOON)
    store = PageStore(engine)
    store.write([row], [], [], [_ask()])
    while not store.remove("job1"):
        pass
    assert (store.count("job1"), len(ledger.read(HOST))) == (0, 1)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_entries_come_in_order_of_time_by_cursor(engine: Engine, ledger: Ledger) -> None:
    times = [NOON + (n * 7 % 50) // 5 for n in range(50)]  # several at the same moment, none in order
    _write(engine, [_ask(at, url=f"http://{HOST}/{n}") for n, at in enumerate(times)])
    _write(engine, [_ask(NOON, host="other.example")])
    found, after = list[Ask](), None
    while entries := ledger.read(HOST, limit=7, after=after):
        found += [entry.ask for entry in entries]
        after = entries[-1].place
    assert [ask.at_ms for ask in found] == sorted(times)
    assert len({ask.url for ask in found}) == 50
    batches = list(ledger.batches(HOST))
    assert [entry.ask for entries in batches for entry in entries] == found


def test_a_period_has_its_beginning_and_not_its_end(engine: Engine, ledger: Ledger) -> None:
    _write(engine, [_ask(NOON + n) for n in range(10)])
    assert [entry.ask.at_ms - NOON for entry in ledger.read(HOST, NOON + 3, NOON + 6)] == [3, 4, 5]
    assert [entry.ask.at_ms - NOON for entry in ledger.newest(HOST, None, NOON + 6, limit=2)] == [4, 5]
    assert ledger.summary(HOST, NOON + 3, NOON + 6).requests == 3


# --- sums ------------------------------------------------------------------------------------------------------------


def test_the_sums_tell_who_asked_and_under_what(engine: Engine, ledger: Ledger) -> None:
    _write(
        engine,
        [
            *(_ask(NOON + n * 250) for n in range(8)),
            _ask(NOON + 3_600_000, job="job2", status=429, reason="http_429", rate=0.5, source=LimitSource.THROTTLE),
            _ask(NOON + 3_600_001, job="job2", status=0, robots="", rate=0.0, parallel=0, source=LimitSource.OPERATOR),
            _ask(NOON, host="other.example", job="job3"),
        ],
    )
    summary = ledger.summary(HOST)
    hour = NOON + 3_600_000
    assert (summary.requests, summary.first_ms, summary.last_ms) == (10, NOON, hour + 1)
    assert summary.jobs == (JobShare("job2", Span(2, hour, hour + 1)), JobShare("job1", Span(8, NOON, NOON + 1_750)))
    assert summary.statuses == {0: 1, 200: 8, 429: 1}
    assert summary.hours == {NOON: 8, hour: 2}
    assert summary.limits == (
        LimitInForce(0.0, 0, LimitSource.OPERATOR, Span(1, hour + 1, hour + 1)),
        LimitInForce(0.5, 2, LimitSource.THROTTLE, Span(1, hour, hour)),
        LimitInForce(4.0, 2, LimitSource.JOB, Span(8, NOON, NOON + 1_750)),
    )
    version = "0123456789abcdef"
    assert summary.robots == (
        RobotsInForce("", Span(1, hour + 1, hour + 1)),
        RobotsInForce(version, Span(9, NOON, hour)),
    )


def test_the_busiest_second_is_found_wherever_it_begins(engine: Engine, ledger: Ledger) -> None:
    """Three in the last half of one second and three in the first half of the next are six within a second."""
    _write(engine, [_ask(NOON + at) for at in (500, 700, 999, 1_000, 1_200, 1_499, 1_500, 70_000)])
    summary = ledger.summary(HOST)
    assert (summary.busiest_second, summary.busiest_minute) == (6, 7)


def test_a_host_that_was_never_asked_has_empty_sums(ledger: Ledger) -> None:
    summary = ledger.summary(HOST)
    assert (summary.requests, summary.first_ms, summary.busiest_second, summary.jobs) == (0, None, 0, ())
    assert (ledger.read(HOST), ledger.newest(HOST), list(ledger.batches(HOST))) == ([], [], [])


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_what_is_too_old_goes_a_batch_at_a_time(engine: Engine, ledger: Ledger) -> None:
    _write(engine, [_ask(NOON + n) for n in range(25)])
    gone = [ledger.trim(NOON + 22, 1_000, at_most=10) for _ in range(4)]
    assert gone == [10, 10, 2, 0]
    assert [entry.ask.at_ms - NOON for entry in ledger.read(HOST)] == [22, 23, 24]


def test_of_too_many_the_oldest_go(engine: Engine, ledger: Ledger) -> None:
    _write(engine, [_ask(NOON + n) for n in range(25)])
    gone = [ledger.trim(NEVER, 8, at_most=10) for _ in range(3)]
    assert gone == [10, 7, 0]
    assert [entry.ask.at_ms - NOON for entry in ledger.read(HOST)] == list(range(17, 25))
    _write(engine, [_ask(NOON + 25)])
    assert ledger.trim(NEVER, 8) == 1


def test_an_entry_from_the_future_keeps_no_other(engine: Engine, ledger: Ledger) -> None:
    _write(engine, [_ask(NOON + DAY_MS), *(_ask(NOON + n) for n in range(5))])
    assert ledger.trim(NOON + 3, 1_000) == 3
    assert [entry.ask.at_ms - NOON for entry in ledger.read(HOST)] == [3, 4, DAY_MS]


def test_an_empty_ledger_has_nothing_to_lose(ledger: Ledger) -> None:
    assert ledger.trim(NOON, 1) == 0
