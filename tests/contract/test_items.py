"""Items of pages: what a page gave last, in one of two tables, under ids that never come again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.store.items import ItemRow, Quarantined
from shoal.store.lineage import Lineage, lineages
from shoal.store.page_rows import ArchiveRef, Capture, PageRow
from shoal.store.pages import PageStore
from shoal.store.row_filter import RowFilter
from shoal.store.tables import quarantine

PAGE = PageRow(
    job="job",
    fingerprint=7,
    url="http://shop.example/7",
    host="shop.example",
    status=200,
    depth=1,
    attempt=2,
    content_type="text/html",
    charset="utf-8",
    size=10,
    elapsed_ms=1.5,
    fetched_ms=1_700_000_000_000,
    archive=ArchiveRef("job/a.warc.gz", 100, 50),
)
OTHER = replace(PAGE, fingerprint=-8, url="http://shop.example/8")


def _items(page: PageRow, *titles: str, version: str = "v1") -> list[ItemRow]:
    return [
        ItemRow(page.job, page.fingerprint, n, page.url, {"title": title}, version) for n, title in enumerate(titles)
    ]


def _titles(store: PageStore, version: str = "v1") -> list[str]:
    return [row.data["title"] for row in store.items("job", RowFilter(version=version))]


def _quarantined(engine: Engine) -> Sequence[tuple[int, int]]:
    with engine.connect() as connection:
        query = sa.select(quarantine.c.fingerprint, quarantine.c.number).order_by(quarantine.c.id)
        return [(page, number) for page, number in connection.execute(query)]


def test_a_page_that_is_read_again_and_has_fewer_items_keeps_no_more(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([PAGE, OTHER], [*_items(PAGE, "a", "b", "c"), *_items(OTHER, "d", "e")], [])
    store.write([PAGE], _items(PAGE, "A"), [])
    assert _titles(store) == ["A", "d", "e"]
    store.write([PAGE, OTHER], [], [])
    assert _titles(store) == []


def test_what_is_replaced_keeps_its_id_and_what_went_leaves_its_own_to_nobody(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([PAGE], _items(PAGE, "a", "b"), [])
    (first, _), (last, _) = store.items_after("job", 0)
    store.write([PAGE], _items(PAGE, "A"), [])
    assert [number for number, _ in store.items_after("job", 0)] == [first]
    store.write([OTHER], _items(OTHER, "c"), [])
    assert [row.data["title"] for _, row in store.items_after("job", last)] == ["c"]


def test_other_versions_are_left_alone(engine: Engine) -> None:
    store = PageStore(engine)
    store.write([PAGE], _items(PAGE, "a", "b"), [])
    store.write([], _items(PAGE, "x", "y", version="v2"), [])
    store.write([PAGE], _items(PAGE, "A"), [])
    assert (_titles(store), _titles(store, "v2")) == (["A"], ["x", "y"])


def test_an_item_is_among_the_items_or_in_quarantine(engine: Engine) -> None:
    store = PageStore(engine)
    a, b = _items(PAGE, "a", "b")
    store.write([PAGE, OTHER], [a, b, *_items(OTHER, "c")], [])
    store.write([PAGE], [a], [], quarantined=[Quarantined(b, ("title: too short",))])
    assert _titles(store) == ["a", "c"]
    assert _quarantined(engine) == [(7, 1)]
    store.write([PAGE], [b], [], quarantined=[Quarantined(a, ("title: too short",))])
    assert sorted(_titles(store)) == ["b", "c"]
    assert _quarantined(engine) == [(7, 0)]
    store.write([PAGE], [a, b], [])
    assert sorted(_titles(store)) == ["a", "b", "c"]
    assert _quarantined(engine) == []


def test_an_item_tells_where_it_comes_from(engine: Engine) -> None:
    store = PageStore(engine)
    document = Capture("document", "text/html", 9, ArchiveRef("job/b.warc.gz", 3, 4))
    rendered = replace(OTHER, engine="browser", captures=(document,))
    gone = replace(PAGE, fingerprint=99)
    rows = [*_items(PAGE, "a"), *_items(rendered, "b", version="v2"), *_items(gone, "c")]
    store.write([PAGE, rendered], rows, [])
    assert list(lineages(store, "job", rows)) == [
        Lineage("v1", PAGE.fetched_ms, 2, PAGE.archive),
        Lineage("v2", PAGE.fetched_ms, 2, document.archive),
        Lineage("v1"),
    ]
    assert list(Lineage.of(rows[0], PAGE).columns.values()) == [
        *("2023-11-14T22:13:20.000+00:00", 2, "job/a.warc.gz", 100, 50),
        "v1",
    ]
