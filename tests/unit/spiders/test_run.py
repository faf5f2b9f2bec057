"""A spider on a page: all that it yields, or why it failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from inspect import getsource
from typing import Any

import pytest
from pydantic import BaseModel

import shoal
from shoal.errors import InputError
from shoal.spiders import run
from shoal.spiders.finder import find_spider
from shoal.spiders.registry import Callback, Spider, spiders
from shoal.spiders.run import SpiderFailed, Yield, run_spider


@dataclass
class Row:
    name: str
    day: date


class Model(BaseModel):
    price: Decimal


def spider_of(**callbacks: Callback) -> Spider:
    return Spider("test", callbacks)


def gives(value: Any) -> Callback:
    return lambda page: value


def made(*values: Any, page: shoal.Page | None = None) -> Yield:
    return run_spider(spider_of(parse=gives(iter(values))), page or shoal.Page("http://a/", b""))


def test_items_are_plain_values_whatever_they_were() -> None:
    found = made({"a": (1, None)}, Row("x", date(2024, 1, 2)), Model(price=Decimal("1.50")))
    assert found.items == ({"a": [1, None]}, {"name": "x", "day": "2024-01-02"}, {"price": "1.50"})


def test_a_callback_may_return_one_item_or_nothing() -> None:
    page = shoal.Page("http://a/", b"")
    assert run_spider(spider_of(parse=gives({"a": 1})), page).items == ({"a": 1},)
    assert run_spider(spider_of(parse=gives(None)), page) == Yield()
    assert len(run_spider(spider_of(parse=gives(shoal.Follow("/b"))), page).requests) == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1, "TypeError: a spider yields items"),
        ("http://a/", "TypeError: a spider yields items"),
        (Row, "TypeError: a spider yields items"),
        ({"a": object()}, "TypeError: an item must be JSON"),
        ({"a": 1 << 70}, "TypeError: an item must be JSON"),
        ({"a": "\ud800"}, "TypeError: an item must be JSON"),
        (shoal.Follow("/a", "nobody"), "spider 'test' has no callback 'nobody'; there are parse"),
    ],
)
def test_what_is_neither_item_nor_request_fails_the_page(value: Any, said: str) -> None:
    with pytest.raises(SpiderFailed, match=said):
        made({"a": 1}, value)


def test_a_failure_names_the_line_of_the_spider() -> None:
    def parse(page: shoal.Page) -> Iterator[Any]:
        yield page.css("a[")

    with pytest.raises(SpiderFailed, match=r"BadSelector: 'a\[' is not a CSS selector.* \(test_run.py, line \d+\)"):
        run_spider(spider_of(parse=parse), shoal.Page("http://a/", b""))


def test_more_than_is_taken_is_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_ITEMS", 2)
    monkeypatch.setattr(run, "MAX_FOLLOW_UPS", 1)
    assert made(*[{"a": 1}] * 3) == Yield(({"a": 1}, {"a": 1}), (), ("items",))
    assert made(*[shoal.Follow("/")] * 2).cut == ("links",)
    monkeypatch.setattr(run, "MAX_ITEMS_BYTES", 10)
    assert made({"a": "x" * 20}) == Yield((), (), ("items",))


def test_a_classs_start_gets_the_jobs_own_urls_and_parse_the_others() -> None:
    spider = spider_of(parse=gives({"by": "parse"}), start=gives({"by": "start"}))
    by = {
        (depth, name): run_spider(spider, shoal.Page("http://a/", b"", depth=depth, callback=name)).items[0]["by"]
        for depth in (0, 1)
        for name in ("", "parse")
    }
    assert by == {(0, ""): "start", (0, "parse"): "parse", (1, ""): "parse", (1, "parse"): "parse"}


def test_functions_of_one_name_are_its_callbacks_and_one_of_another_file_is_a_mistake() -> None:
    @shoal.spider("unit.two")
    def first(page: shoal.Page) -> Iterator[Any]:
        """About it.

        More.
        """
        yield shoal.Follow("/b", "detail")

    @shoal.spider("unit.two", callback="detail")
    def detail(page: shoal.Page) -> Iterator[Any]:
        yield {"url": page.url}

    found = spiders()["unit.two"]
    assert (sorted(found.callbacks), found.about) == (["detail", "parse"], "About it.")
    assert "test_run.py:" in found.source
    assert list(detail(shoal.Page("http://a/", b""))) == [{"url": "http://a/"}], "it stays the function that it was"
    assert first is found.callbacks["parse"]
    with pytest.raises(InputError, match=r"two spiders are called 'unit\.two': .*test_run.py"):
        shoal.spider("unit.two")(getsource)
    with pytest.raises(InputError, match="needs a method parse"):
        shoal.spider("unit.empty")(Row)
    with pytest.raises(InputError, match="not a name for a spider"):
        shoal.spider("a b")
    with pytest.raises(InputError, match=r"there is no spider 'nobody': registered: .*unit\.two"):
        find_spider("nobody")
