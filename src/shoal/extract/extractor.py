"""What a job takes from its pages, ready for use: the same in a worker, in a process apart, and for stored pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shoal.core.field import Field, parse_fields
from shoal.extract.content import Content
from shoal.extract.page import Html
from shoal.extract.weight import Query

Item = Mapping[str, Any]
"""A record as JSON has it."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """Turns pages into items."""

    fields: tuple[Field, ...] = ()
    content: Content | None = None
    """What is taken of the page as a whole."""

    @property
    def queries(self) -> tuple[Query, ...]:
        """All that a page is searched for, to see whether that may take long."""
        return tuple(Query(field.selector, texts=field.many and field.attribute is None) for field in self.fields)

    def take(self, html: Html) -> tuple[Item, ...]:
        """The items of a page; one without any value is none."""
        item = html.take(self.fields) if self.fields else {}
        items = (item,) if any(item.values()) else ()
        return _with_content(items, self.content.take(html)) if self.content else items


def _with_content(items: tuple[Item, ...], content: Item) -> tuple[Item, ...]:
    """The page's one item has it beside its fields; where there are several, it is an item of its own before them."""
    if not any(content.values()):
        return items
    return ({**items[0], **content},) if len(items) == 1 else (content, *items)


@lru_cache(maxsize=200)
def extractor_of(extraction: str) -> Extractor:
    """The extractor for the text that `JobSpec.extraction` gives; an empty one takes nothing."""
    settings: dict[str, Any] = json.loads(extraction) if extraction else {}
    formats = settings.get("formats")
    return Extractor(parse_fields(settings.get("fields", {})), Content(formats) if formats else None)
