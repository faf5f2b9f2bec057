"""A spider runs on a page: items and follow-ups out, all of them or an error. The same page gives the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, cast

import orjson
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from shoal.spiders.finder import explain
from shoal.spiders.follow import Follow, FollowUp
from shoal.spiders.page import Page
from shoal.spiders.registry import Callback, Spider

MAX_ITEMS = 10_000
"""Items that a spider takes from one page."""
MAX_ITEMS_BYTES = 16 << 20
"""Of these as JSON, together."""
MAX_FOLLOW_UPS = 50_000
"""Requests that a spider makes of one page."""


class SpiderFailed(Exception):
    """A spider has failed on a page."""


@dataclass(frozen=True, slots=True)
class Yield:
    """What a spider has made of a page."""

    items: tuple[Mapping[str, Any], ...] = ()
    requests: tuple[FollowUp, ...] = ()
    cut: tuple[str, ...] = ()
    """Of what there was more than is taken."""


def run_spider(spider: Spider, page: Page) -> Yield:
    """Everything that it yields for a page; raises SpiderFailed with what went wrong, and where."""
    try:
        callback = spider.callback(page.callback, page.depth)
        return _collect(spider, page, _called(callback, page))
    except MemoryError:
        raise
    except Exception as exc:  # whatever it raises is its own, and is shown
        raise SpiderFailed(explain(exc)) from exc


def _called(callback: Callback, page: Page) -> Iterable[Any]:
    made: Any = callback(page)
    if made is None:
        return ()
    if isinstance(made, Follow | Mapping | BaseModel) or is_dataclass(made):  # `return item` in place of `yield item`
        return (cast(Any, made),)
    return cast("Iterable[Any]", made)


def _collect(spider: Spider, page: Page, made: Iterable[Any]) -> Yield:
    items: list[Mapping[str, Any]] = []
    requests: list[FollowUp] = []
    room, cut = MAX_ITEMS_BYTES, dict[str, None]()
    for each in made:
        if isinstance(each, Follow):
            if each.callback:
                spider.callback(each.callback, 1)  # a name that does not exist is found out here, not a crawl later
            requests.append(each.onward(page.depth))
        else:
            item, size = _item_of(each)
            room -= size
            items.append(item)
        if len(items) > MAX_ITEMS or room < 0:
            items.pop()
            cut["items"] = None
        if len(requests) > MAX_FOLLOW_UPS:
            requests.pop()
            cut["links"] = None
        if cut:  # who yields for ever is not waited for
            break
    return Yield(tuple(items), tuple(requests), tuple(cut))


def _item_of(given: Any) -> tuple[Mapping[str, Any], int]:
    """(the item as JSON has it, its size)"""
    if not isinstance(given, Mapping | BaseModel) and (not is_dataclass(given) or isinstance(given, type)):
        raise TypeError(
            f"a spider yields items (a dict, a dataclass or a pydantic model) and shoal.Follow, not {given!r:.100}"
        )
    try:
        text = orjson.dumps(to_jsonable_python(given))
    except (TypeError, ValueError, PydanticSerializationError) as exc:
        raise TypeError(f"an item must be JSON: {exc}") from exc
    return orjson.loads(text), len(text)
