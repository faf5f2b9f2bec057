"""What a job takes from its pages, ready for use: the same in a worker, in a process apart, and for stored pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from shoal.core.expressions import jmespath_growth, xpath_roams
from shoal.core.frozen import frozen
from shoal.core.rules import Rule, Rules, read_rules
from shoal.extract.content import Content
from shoal.extract.document import Document
from shoal.extract.finders import JSON, PAGE, Find, capped, finder, opengraph_selector, scope_of
from shoal.extract.page import Html
from shoal.extract.takers import Field, fields_of, json_finder, spread, take_object
from shoal.extract.weight import LIGHT_BYTES, LIGHT_STEPS, Query

Item = Mapping[str, Any]
"""A record as JSON has it."""
_BYTES_OF_A_TAG = 20
"""A page has a tag for each so many bytes, or text that takes as long."""
_TAGS_OF_AN_ELEMENT = 2


@frozen
class Extractor:
    """Turns pages into items."""

    rules: Rules
    fields: tuple[Field, ...] = ()
    """For markup."""
    json_fields: tuple[Field, ...] = ()
    """For JSON."""
    find_each: Find | None = None
    content: Content | None = None
    """What is taken of the page as a whole."""
    spider: str = ""
    """The name of one that reads the page as well: `extract.spiders`."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For the spider."""
    model: str = ""
    """The name of one that the items are held against: `extract.judging`."""

    @classmethod
    def of(cls, rules: Rules, content: Content | None = None) -> Extractor:
        """Made ready once."""
        each = rules.each
        if each is None:
            return cls(rules, fields_of(rules.fields), fields_of(rules.fields, JSON), content=content)
        find = json_finder(each, PAGE) if each.gives_json else finder(each, PAGE)
        if each.source == "json":
            return cls(rules, (), fields_of(rules.fields, JSON), find, content)
        return cls(rules, fields_of(rules.fields, scope_of(each, PAGE)), (), find, content)

    @property
    def reads_json(self) -> bool:
        """Is there anything that it takes from JSON answers?"""
        each = self.rules.each
        return each.source == "json" if each else any(rule.source == "json" for rule in _all(self.rules.fields))

    @property
    def queries(self) -> tuple[Query, ...]:
        """All that a page is searched for by CSS, to see whether that may take long; within an element, behind that."""
        each = self.rules.each
        start = f"{each.find} " if each and each.source == "css" else "* " if each else ""
        own = (Query(each.find),) if each and each.source == "css" else ()
        return (*own, *_queries(self.rules.fields, start))

    @property
    def is_plain(self) -> bool:
        """Does neither XPath nor JMESPath search for anything?"""
        return not any(rule.path or rule.source in ("json", "xpath") for rule in self._rules())

    def is_quick(self, body: bytes, *, json: bool = False, scale: int = 1) -> bool:
        """May JMESPath search a page where others wait, as far as its bytes tell?"""
        paths = [path for rule in self._rules() if (path := rule.find if rule.source == "json" else rule.path)]
        growth = min(40, sum(map(jmespath_growth, paths)))
        return not (json or paths) or (len(body) << growth) * max(1, len(paths)) <= LIGHT_BYTES * scale

    def has_quick_xpaths(self, elements: int, size: int, scale: int = 1) -> bool:
        """May XPath search so many elements? It tries each for every `//`, and may read all text for each function."""
        xpaths = [rule.find for rule in self._rules() if rule.source == "xpath"]
        if not xpaths:
            return True
        tried = max(elements * _TAGS_OF_AN_ELEMENT, size // _BYTES_OF_A_TAG)
        nested = 1 if self.rules.each or any(rule.fields for rule in self.rules.fields) else 0
        return sum(tried ** (xpath_roams(xpath) + nested) for xpath in xpaths) <= LIGHT_STEPS * scale

    def take(self, page: Html | Document) -> tuple[Item, ...]:
        """The items of a page; one without any value is none."""
        items = self._items(page, self.fields if isinstance(page, Html) else self.json_fields)
        return _with_content(items, self.content.take(page)) if self.content and isinstance(page, Html) else items

    def _items(self, page: Html | Document, fields: Sequence[Field]) -> tuple[Item, ...]:
        if not fields:
            return ()
        here = page.tree.root if isinstance(page, Html) else page.value
        if self.rules.each is None:
            item = take_object(here, page, fields)
            return () if item is None else (item,)
        return tuple(self._each(here, page, fields))

    def _each(self, here: Any, page: Any, fields: Sequence[Field]) -> Iterator[Item]:
        assert self.rules.each is not None
        assert self.find_each is not None
        for found in capped(spread(self.find_each(here, page), self.rules.each), page):
            item = take_object(found, page, fields)
            if item is not None:
                yield item

    def _rules(self) -> Iterator[Rule]:
        if self.rules.each:
            yield self.rules.each
        yield from _all(self.rules.fields)


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
    content = Content(formats) if formats else None
    made = Extractor.of(read_rules(settings.get("fields", {}), settings.get("each")), content)
    contract: dict[str, Any] = settings.get("contract") or {}
    named = {"spider": settings.get("spider", ""), "model": contract.get("model", "")}
    return replace(made, params=settings.get("params", {}), **named)


def _all(rules: Sequence[Rule]) -> Iterator[Rule]:
    for rule in rules:
        yield rule
        yield from _all(rule.fields)


def _queries(rules: Sequence[Rule], start: str) -> Iterator[Query]:
    for rule in rules:
        if rule.source == "opengraph":
            yield Query(opengraph_selector(rule.find))
        elif rule.source == "css":
            often = bool(start) or rule.many or bool(rule.regex)
            yield Query(start + rule.find, texts=often and not rule.attribute and not rule.fields)
        yield from _queries(rule.fields, f"{start}{rule.find or '*'} " if rule.source == "css" else f"{start}* ")
