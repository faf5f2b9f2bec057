"""Batches of rows: in order, whole, by key, whatever stands in them, and whoever else writes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from shoal.errors import RowRefused
from shoal.store.items import ItemRow
from shoal.store.page_rows import (
    USUAL_COLUMNS,
    ArchiveRef,
    Capture,
    DeadLetter,
    FoundLinks,
    Outlinks,
    PageRow,
    Recrawled,
    is_usual,
)
from shoal.store.pages import PageStore

STRANGE = "\\u0000 \\ \"'%s :x {} \t\n\u2028 ü 漢字 🐟"
"""Text that a statement, a parameter or JSON could trip over; the first six characters are no NUL."""


def _page(number: int, job: str = "job", **changes: object) -> PageRow:
    row = PageRow(
        *(job, number - 2**62, f"http://shop.example/{number}", "shop.example", 200, 1, 0, "text/html", "utf-8", 10),
        *(1 / 3, 1_700_000_000_000),
    )
    return replace(row, **changes)


def test_rows_of_the_same_key_in_one_batch_are_one_row_with_the_last_values(engine: Engine) -> None:
    store = PageStore(engine)
    item = ItemRow("job", _page(1).fingerprint, 0, "http://shop.example/1", {"n": 1})
    letter = DeadLetter("job", 5, "http://shop.example/5", "shop.example", "dead", "first", "", 0, 1, 5)
    store.write(
        [_page(1, status=500), _page(2), _page(1, status=200)],
        [item, replace(item, data={"n": 2})],
        [letter, replace(letter, reason="last")],
    )
    assert [(page.url[-1], page.status) for page in store.pages("job")] == [("1", 200), ("2", 200)]
    assert [found.data for found in store.items("job")] == [{"n": 2}]
    assert [found.reason for found in store.dead_letters("job")] == ["last"]


def test_a_batch_of_any_size_arrives_in_its_order(engine: Engine) -> None:
    store = PageStore(engine)
    rows = [_page((number * 7919) % 2_501) for number in range(2_501)]
    store.write(rows, [], [])
    assert [page.url for page in store.pages("job")] == [row.url for row in rows]


FULL: dict[str, Any] = {
    "redirect": "http://shop.example/r", "canonical": "http://shop.example/c", "archive": ArchiveRef("k", 5, 6),
    "request_id": "r", "hops": 2, "received": 9, "engine": "browser", "notes": {"n": 1}, "callback": "detail",
    "captures": (Capture("pdf", "application/pdf", 3, ArchiveRef("k", 7, 8)),), "meta": "{}", "content_hash": 1,
    "simhash": 2, "duplicate_of": 3, "found_on": 4, "digest": 5, "etag": "e", "last_modified": "l", "checked_ms": 6,
    "interval_ms": 7, "reused": "fresh", "unverified": 8, "body_hash": 9,
}  # fmt: skip
"""A value for all that most pages have nothing to say about."""


def test_a_page_of_the_usual_kind_replaces_all_of_one_that_had_more(engine: Engine) -> None:
    store = PageStore(engine)
    full, usual = _page(1, **FULL), _page(1, canonical="http://shop.example/1", archive=ArchiveRef("k", 1, 2))
    assert {each.name for each in fields(PageRow) if each.default is not MISSING} == FULL.keys()
    assert (is_usual(full), is_usual(usual), is_usual(_page(2))) == (False, True, True)
    for rows in ([full], [usual], [_page(1)], [full, _page(2)], [_page(2), usual]):
        store.write(rows, [], [])
        assert store.page("job", full.fingerprint) == next(row for row in rows if row.fingerprint == full.fingerprint)
    assert store.page("job", _page(2).fingerprint) == _page(2)


@pytest.mark.parametrize("name", [name for name in FULL if name not in (*USUAL_COLUMNS, "archive")])
def test_whoever_has_more_to_say_of_a_page_says_it(engine: Engine, name: str) -> None:
    row = _page(1, **{name: FULL[name]})
    PageStore(engine).write([row], [], [])
    assert PageStore(engine).page("job", row.fingerprint) == row


@pytest.mark.parametrize("size", [1, 8, 9, 32, 33, 127, 128, 129, 257])
def test_no_row_is_lost_or_added_where_statements_end(engine: Engine, size: int) -> None:
    store = PageStore(engine)
    store.write([_page(number) for number in range(size)], [], [])
    assert [page.url for page in store.pages("job")] == [_page(number).url for number in range(size)]


def test_items_that_are_long_are_cut_into_statements_of_which_each_is_short(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.store.bulk.MOST_TOGETHER", 1_000)
    monkeypatch.setattr("shoal.store.bulk.MOST_CHARS", 1_000)
    items = [ItemRow("job", 1, number, "http://shop.example/1", {"n": "x" * number * 60}) for number in range(30)]
    statements = 0

    def note(*given: Any) -> None:
        nonlocal statements
        statements += "INTO items" in given[2]

    event.listen(engine, "before_cursor_execute", note)
    PageStore(engine).write([], items, [])
    assert [item.data for item in PageStore(engine).items("job")] == [item.data for item in items]
    assert statements > 20


def test_a_batch_of_many_megabytes_is_cut(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.store.bulk.MOST_CHARS", 10_000)
    store = PageStore(engine)
    store.write([_page(n, canonical="x" * (n * 100)) for n in range(60)], [], [])
    assert [row.canonical for row in store.pages("job")] == ["x" * (n * 100) for n in range(60)]


def test_every_value_comes_back_as_it_was(engine: Engine) -> None:
    store = PageStore(engine)
    row = _page(1, url=STRANGE, host=STRANGE, fingerprint=-(2**63), found_on=2**63 - 1, size=2**31 - 1, etag="")
    blob = bytes(range(256))
    store.write(
        [row],
        [ItemRow("job", row.fingerprint, 0, STRANGE, {STRANGE: [STRANGE, 1e300, None]})],
        [],
        found=[FoundLinks("job", 1, (STRANGE.replace("\n", ""),), None)],
        recrawled=Recrawled(outlinks=[Outlinks("job", row.fingerprint, blob)]),
    )
    assert store.page("job", row.fingerprint) == row
    assert [item.data for item in store.items("job")] == [{STRANGE: [STRANGE, 1e300, None]}]
    assert [found.urls for _, found in store.links_after("job", 0)] == [(STRANGE.replace("\n", ""),)]
    with engine.connect() as connection:
        assert bytes(connection.exec_driver_sql("SELECT found FROM outlinks").scalar_one()) == blob


def test_one_row_that_is_refused_leaves_nothing_of_its_batch(engine: Engine) -> None:
    store = PageStore(engine)
    item = ItemRow("job", 1, 0, "http://shop.example/1", {})
    with pytest.raises(RowRefused):
        store.write([_page(1)], [item, replace(item, number=1, url="\udc80")], [])
    assert (store.count("job"), list(store.items("job"))) == (0, [])


def test_writers_of_the_same_jobs_in_different_orders_never_wait_for_each_other_in_a_ring(engine: Engine) -> None:
    store, jobs = PageStore(engine), [f"job-{number}" for number in range(6)]
    together = threading.Barrier(4)

    def write(turn: int) -> None:
        mine = jobs[turn:] + jobs[:turn]
        together.wait()
        for number in range(15):
            some = [_page(place, job) for job in mine for place in range(number, number + 5)]
            store.write(some if turn % 2 else some[::-1], [], [])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert {store.count(job) for job in jobs} == {19}
