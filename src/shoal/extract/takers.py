"""Rules made ready: each becomes a function from what it belongs to, to its value; once for a job, for every page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from selectolax.lexbor import LexborNode

from shoal.core.convert import convert
from shoal.core.expressions import compile_jmespath
from shoal.core.frozen import frozen
from shoal.core.pattern import compile_pattern
from shoal.core.rules import Rule
from shoal.extract.allowance import Page
from shoal.extract.finders import ELEMENT, JSON, PAGE, ROOT, XML, Find, capped, finder, first_finder, scope_of
from shoal.extract.linked import read_json_text
from shoal.extract.page import MAX_HREF_CHARS, URL_ATTRIBUTES, Html

_WHOLE_BELOW = 2.0**63
"""A number from here on is kept as it is: no database and no JSON writer takes it for a whole one."""

Take = Callable[[Any, Any], Any]
"""From what a rule belongs to, its value; None or an empty list when there is none."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})


@frozen
class Field:
    """A rule, ready for use."""

    name: str
    take: Take
    default: Any = None
    required: bool = False
    place: str = ""
    """With the names of the objects that it is in."""
    counts: bool = True
    """Is it a sign of an item that there is a value?"""


def fields_of(rules: Sequence[Rule], scope: str = PAGE, place: str = "") -> tuple[Field, ...]:
    """The rules of an object, ready for use."""
    return tuple(
        Field(
            rule.name,
            taker(rule, scope, f"{place}{rule.name}"),
            rule.default,
            rule.required,
            f"{place}{rule.name}",
            not rule.is_const,
        )
        for rule in rules
    )


def take_object(here: Any, page: Page, fields: Sequence[Field]) -> dict[str, Any] | None:
    """An object with all fields; None when there is nothing of it, or when something is missing that must not be."""
    values: dict[str, Any] = {}
    found, missing = False, ""
    for field in fields:
        value = field.take(here, page)
        if not value and (value in _EMPTY and not isinstance(value, bool | int | float)):
            missing = missing or (field.place if field.required else "")
            value = value if field.default is None else field.default
        elif value is not False and field.counts:
            found = True
        values[field.name] = value
    if found and missing:
        _count(page.allowance.incomplete, missing)
        return None
    return values if found else None


def taker(rule: Rule, scope: str, place: str) -> Take:
    """What takes the value of a rule."""
    if rule.is_const:
        return lambda _here, _page: rule.const
    if not _fits(rule, scope):
        return lambda _here, _page: [] if rule.many else None
    if rule.source == "json" and scope in (ELEMENT, XML):  # the JSON that stands in the element
        rule = replace(rule, source="", find="", path=rule.find)
    if rule.fields:
        return _objects(rule, scope, place)
    if rule.take == "exists":
        first = first_finder(rule, scope)
        return lambda here, page: first(here, page) is not None
    if rule.source == "css" and not rule.regex and not rule.type and not rule.path and scope != XML:
        return _plain_list(rule, scope) if rule.many else _plain(rule, scope)
    return _values(rule, scope, place)


def _fits(rule: Rule, scope: str) -> bool:
    """Has it anything to look for here? Selectors have not in JSON, nor has a path of JSON in a page that is none."""
    if scope == JSON:
        return rule.source in ("", "json") and not (rule.path or rule.attribute or rule.take != "text")
    return rule.source != "json" or scope != PAGE


def _plain(rule: Rule, scope: str) -> Take:
    """Most fields: the text or an attribute of the first element."""
    if scope == PAGE and rule.take == "text" and not rule.attribute and not rule.find.startswith(ROOT):
        return _text_of_page(rule.find)
    if scope == PAGE and rule.attribute and not rule.find.startswith(ROOT):
        return _attribute_of_page(rule.find, rule.attribute)
    first, read = first_finder(rule, scope), _node_reader(rule)

    def take(here: Any, page: Html) -> str | None:
        node = first(here, page)
        value = None if node is None else read(node, page)
        return None if value is None else page.allowance.fit(value)

    return take


def _text_of_page(selector: str) -> Take:
    """The commonest of all, without detours: ten fields shall cost less than the links."""

    def take(root: LexborNode, page: Html) -> str | None:
        node = root.css_first(selector)
        if node is None:
            return None
        allowance = page.allowance
        return allowance.fit(allowance.read(node.text))

    return take


def _attribute_of_page(selector: str, name: str) -> Take:
    """The next common one."""
    is_url = name in URL_ATTRIBUTES

    def take(root: LexborNode, page: Html) -> str | None:
        node = root.css_first(selector)
        value = None if node is None else node.attrs.get(name)
        if value is None:
            return None
        return page.allowance.fit(page.absolute(value) if is_url else value)

    return take


def _plain_list(rule: Rule, scope: str) -> Take:
    """The same of all elements."""
    find, read = finder(rule, scope), _node_reader(rule)

    def take(here: Any, page: Html) -> list[str]:
        nodes, fit = find(here, page), page.allowance.fit
        values = (read(node, page) for node in capped(nodes, page))
        return [fitted for value in values if value is not None and (fitted := fit(value)) is not None]

    return take


def _objects(rule: Rule, scope: str, place: str) -> Take:
    inner = scope_of(rule, scope)
    fields = fields_of(rule.fields, inner, f"{place}.")
    find = json_finder(rule, scope) if rule.gives_json else finder(rule, scope)

    def take(here: Any, page: Html) -> Any:
        found = (take_object(one, page, fields) for one in capped(spread(find(here, page), rule), page))
        objects = (one for one in found if one is not None)
        return list(objects) if rule.many else next(objects, None)

    return take


def _values(rule: Rule, scope: str, place: str) -> Take:
    """Everything else: from all that is found, those that give a value."""
    gives_json = rule.gives_json or scope == JSON
    find = json_finder(rule, scope) if rule.gives_json else finder(rule, scope)
    read = _of_json if gives_json else _reader(rule)
    make = _maker(rule, place)

    def values(here: Any, page: Html) -> Iterable[Any]:
        for found in capped(spread(find(here, page), rule, in_json=gives_json), page):
            value = make(read(found, page), page)
            if value is not None:
                yield value

    def take(here: Any, page: Html) -> Any:
        if rule.many:
            return list(values(here, page))
        return next(iter(values(here, page)), None)

    return take


def spread(found: Iterable[Any], rule: Rule, *, in_json: bool = True) -> Iterable[Any]:
    """A list in JSON is many values, where many are wanted; where one of a type is, its first ones."""
    if not in_json or not (rule.many or rule.type or rule.regex or rule.fields):
        return found
    return (part for one in found for part in (cast(list[Any], one) if isinstance(one, list) else (one,)))


def json_finder(rule: Rule, scope: str) -> Find:
    """JSON that stands in the text of an element, and what is wanted of it."""
    if not rule.path:
        return finder(rule, scope)
    elements, search, read = finder(rule, scope), compile_jmespath(rule.path), _raw_text(rule)

    def find(here: Any, page: Html) -> Iterable[Any]:
        for element in elements(here, page):
            found = search(read_json_text(page, read(element)))
            if found is not None:
                yield found

    return find


def _raw_text(rule: Rule) -> Callable[[Any], str]:
    """Of an element that holds JSON: its attribute, or its text as it is."""

    def read(found: Any) -> str:
        if isinstance(found, str):
            return found
        if rule.attribute:
            given = found.attributes if isinstance(found, LexborNode) else found.attrib
            return given.get(rule.attribute) or ""
        if isinstance(found, LexborNode):
            return found.text()
        return "".join(found.itertext()) if hasattr(found, "itertext") else ""

    return read


def _reader(rule: Rule) -> Callable[[Any, Html], Any]:
    """What is taken of something that was found."""
    attribute, of_node = _attribute(rule), _node_reader(rule)

    def read(found: Any, page: Html) -> Any:
        return of_node(found, page) if isinstance(found, LexborNode) else _of_xml(found, page, attribute, rule.take)

    return read


def _attribute(rule: Rule) -> str:
    return "content" if rule.source == "opengraph" else rule.attribute


def _node_reader(rule: Rule) -> Callable[[LexborNode, Html], str | None]:
    """What is taken of an element that CSS has found."""
    if attribute := _attribute(rule):
        return lambda node, page: page.attribute_of(node, attribute)
    if rule.take == "text":
        return lambda node, page: page.allowance.read(node.text)

    def read(node: LexborNode, page: Html) -> str | None:
        if not page.allowance.has_text():
            return None
        text = (node.html or "") if rule.take == "html" else " ".join(node.text(deep=False).split())
        page.allowance.charge(len(text))
        return text

    return read


def _of_xml(found: Any, page: Html, attribute: str, take: str) -> Any:
    """Of what XPath has found: an element, a text, a number or a truth."""
    if isinstance(found, str):
        return " ".join(found.split())
    if isinstance(found, bool | float):
        whole = isinstance(found, float) and found.is_integer() and abs(found) < _WHOLE_BELOW
        return int(found) if whole else page.allowance.fit_json(found)
    if attribute:
        value = found.get(attribute)
        return page.absolute(value) if value is not None and attribute in URL_ATTRIBUTES else value
    if not page.allowance.has_text():
        return None
    if take == "html":
        from lxml import etree

        text = etree.tostring(found, encoding="unicode", method="html", with_tail=False)
    elif take == "own":
        text = " ".join("".join([found.text or "", *(child.tail or "" for child in found)]).split())
    else:
        text = " ".join("".join(found.itertext()).split())
    page.allowance.charge(len(text))
    return text


def _of_json(value: Any, _: Page) -> Any:
    return value.strip() if isinstance(value, str) else value


def _maker(rule: Rule, place: str) -> Callable[[Any, Page], Any]:
    """What is made of a value: a part of it by a regular expression, then a type."""
    pattern = cast(Any, compile_pattern(rule.regex)) if rule.regex else None

    def make(value: Any, page: Page) -> Any:
        if pattern is not None:
            value = _matched(pattern, value, page)
        if value is None or not rule.type:
            return page.allowance.fit_json(value)
        made = _typed(value, rule, page) if value != "" else None
        if made is None and value != "":
            _count(page.allowance.unconverted, place)
        return page.allowance.fit_json(made)

    return make


def _matched(pattern: Any, value: Any, page: Page) -> str | None:
    """The first group of a pattern, or all of it."""
    text = value if isinstance(value, str) else convert(value, "text")
    if text is None or not page.allowance.step(len(text) * pattern.programsize):
        return None
    match = pattern.search(text)
    return None if match is None else match.group(1 if pattern.groups else 0)


def _typed(value: Any, rule: Rule, page: Page) -> Any:
    if rule.type == "url":
        url = page.base.join(value) if isinstance(value, str) and len(value) <= MAX_HREF_CHARS else None
        return str(url) if url else None
    if rule.type == "json":
        return read_json_text(page, value) if isinstance(value, str) else value
    return convert(value, rule.type, rule.locale, rule.format)


def _count(names: dict[str, int], name: str) -> None:
    names[name] = names.get(name, 0) + 1
