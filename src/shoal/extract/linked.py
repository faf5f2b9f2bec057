"""Structured data that pages carry for search engines: JSON-LD and microdata, both as JSON-LD's nodes.

A node is an object with an `@type`. `Product.offers.price` goes from all nodes of a type along the names of their
properties, through lists as if they were not there: sites write one offer with and without a list around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from selectolax.lexbor import LexborNode

from shoal.core.json_text import read_json
from shoal.extract.allowance import Page
from shoal.extract.page import Html

MAX_NODES = 10_000
"""Nodes of a page, and values on the way from one."""
MAX_LEVELS = 30
"""Of nodes within each other."""

Node = dict[str, Any]

_WRAPPER = re.compile(r"\A\s*(?:<!--|//\s*<!\[CDATA\[|<!\[CDATA\[)|(?:-->|//\s*\]\]>|\]\]>)\s*\Z")
_CONTENT = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}
_ADDRESS = {
    **dict.fromkeys(("a", "area", "link"), "href"),
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    "object": "data",
}


def linked_values(html: Html, kind: str, way: str) -> Iterator[Any]:
    """What a way such as `Product.offers.price` leads to."""
    wanted, *names = way.split(".")
    found = 0
    for node in _nodes(html, kind):
        if wanted == "*" or wanted in _types(node):
            for value in _along(node, names):
                found += 1
                if found > MAX_NODES:
                    html.cut["values"] = None
                    return
                yield value


def _nodes(html: Html, kind: str) -> list[Node]:
    if kind not in html.memory:
        html.memory[kind] = _microdata(html) if kind == "microdata" else list(_json_ld(html))
    return html.memory[kind]


def _along(value: Any, names: list[str]) -> Iterator[Any]:
    waiting = [(value, 0)]
    while waiting:
        here, place = waiting.pop()
        if isinstance(here, list):
            waiting += [(part, place) for part in reversed(cast(list[Any], here)[:MAX_NODES])]
        elif place == len(names):
            plain = cast(Node, here).get("@value", here) if isinstance(here, dict) else here
            if plain is not None:
                yield plain
        elif isinstance(here, dict):
            waiting.append((cast(Node, here).get(names[place]), place + 1))


def _types(node: Node) -> list[str]:
    given = node.get("@type")
    names = cast(list[Any], given) if isinstance(given, list) else [given]
    return [re.split(r"[/#:]", name)[-1] for name in names if isinstance(name, str)]


def _json_ld(html: Html) -> Iterator[Node]:
    found = 0
    for script in html.tree.css('script[type*="ld+json" i]'):
        value = read_json_text(html, script.text())
        waiting = [(value, MAX_LEVELS)]
        while waiting:
            here, levels = waiting.pop()
            parts = cast(list[Any], here) if isinstance(here, list) else []
            if isinstance(here, dict):
                node = cast(Node, here)
                parts = list(node.values())
                if "@type" in node:
                    found += 1
                    yield node
            if found >= MAX_NODES:
                html.cut["values"] = None
                return
            if levels:
                waiting += [(part, levels - 1) for part in reversed(parts) if isinstance(part, dict | list)]


def read_json_text(page: Page, text: str) -> Any:
    """The JSON that stands in a script or an attribute; None when it is none."""
    if not page.allowance.has_text():
        return None
    page.allowance.charge(len(text))
    try:
        return read_json(_WRAPPER.sub("", text))
    except ValueError:
        return None


def _microdata(html: Html) -> list[Node]:
    """The items of a page in their order; properties that an item has from elsewhere (itemref) are not looked for."""
    nodes: list[Node] = []
    root = html.tree.root
    waiting: list[tuple[LexborNode, Node | None, int]] = [(root, None, 0)] if root else []
    while waiting:
        element, owner, level = waiting.pop()
        attributes = element.attributes
        if "itemprop" in attributes or "itemscope" in attributes:
            item = _item(attributes) if "itemscope" in attributes and level < MAX_LEVELS else None
            if owner is not None and (names := attributes.get("itemprop")):
                _give(owner, names, item or _property(html, element, attributes))
            if item is not None:
                nodes.append(item)
                owner, level = item, level + 1
            if len(nodes) >= MAX_NODES:
                html.cut["values"] = None
                return nodes
        waiting += [(child, owner, level) for child in reversed(list(element.iter()))]
    return nodes


def _item(attributes: dict[str, str | None]) -> Node:
    return {"@type": (attributes.get("itemtype") or "").split()}


def _give(owner: Node, names: str, value: Any) -> None:
    for name in names.split()[:10]:
        if name not in owner:
            owner[name] = value
        elif isinstance(owner[name], list):
            cast(list[Any], owner[name]).append(value)
        else:
            owner[name] = [owner[name], value]


def _property(html: Html, element: LexborNode, attributes: dict[str, str | None]) -> str:
    tag = element.tag or ""
    if (name := _ADDRESS.get(tag)) and (address := attributes.get(name)):
        return html.absolute(address)
    if (value := attributes.get("content")) is not None or (value := attributes.get(_CONTENT.get(tag, ""))) is not None:
        return value
    return html.text_of(element)
