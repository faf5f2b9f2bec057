"""A parsed page for XPath, element by element the one that CSS is asked of: who goes from one to the other stays there.

The mirror is made when a spider asks an element for an XPath, once for a page, and only of what XML can hold:
attributes such as `@click` are left out, as no XPath could name them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_LEVELS = 256
"""Of elements within each other; what is deeper has no XPath, as with the parser that XPath is asked of otherwise."""
_UNFIT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has no room for."""
_FIRST = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_OTHER = _FIRST + "0-9.\u00b7\u0300-\u036f\u203f-\u2040\\-"
"""Of a name in XML: fewer than the letters and digits that Python knows."""
_NAME = re.compile(f"[{_FIRST}][{_OTHER}]*")
_NO_NAME = re.compile(f"^(?![{_FIRST}])|[^{_OTHER}]")
_TABLES = {
    **dict.fromkeys(("tr",), "<table><tbody>"),
    **dict.fromkeys(("td", "th"), "<table><tbody><tr>"),
    **dict.fromkeys(("tbody", "thead", "tfoot", "caption", "colgroup"), "<table>"),
    "col": "<table><colgroup>",
}
"""Without which a parser drops such elements."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """Both ways between the elements of one parse and those of the other."""

    elements: dict[int, Any] = field(default_factory=dict[int, Any])
    """By where a node is in memory."""
    nodes: dict[Any, LexborNode] = field(default_factory=dict[Any, LexborNode])
    """By element."""

    @classmethod
    def of(cls, parser: LexborHTMLParser) -> Mirror:
        mirror = cls()
        if (root := parser.root) is not None:
            mirror._grow(root)
        return mirror

    def _grow(self, root: LexborNode) -> None:
        """In the page's order, so that an element's parent is there before it."""
        levels = {root.mem_id: 0}
        last: dict[int, Any] = {}  # the youngest child of each parent: the next text there is its tail
        texts: dict[tuple[Any, bool], list[str]] = {}  # comments cut them into pieces
        for node in root.traverse(include_text=True):
            place, number = (node.parent.mem_id if node.parent else 0), node.mem_id
            level = levels.get(place, MAX_LEVELS) + 1
            if node.is_element_node and (number in levels or level <= MAX_LEVELS):
                levels.setdefault(number, level)
                element = last[place] = self.elements[number] = _element(node, self.elements.get(place))
                self.nodes[element] = node
            elif node.is_text_node and place in self.elements:
                behind = last.get(place)
                owner = (self.elements[place], False) if behind is None else (behind, True)
                texts.setdefault(owner, []).append(node.text_content or "")
        for (element, is_tail), parts in texts.items():
            setattr(element, "tail" if is_tail else "text", _fit("".join(parts)))


class Mirrors:
    """Of all parses that belong to a page: its own, and those of elements that XPath has found."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[LexborHTMLParser, Mirror]] = {}

    def of(self, node: LexborNode) -> Mirror:
        """Made once; it keeps the parse, or another could have the same number."""
        parser = node.parser
        if id(parser) not in self._known:
            self._known[id(parser)] = (parser, Mirror.of(parser))
        return self._known[id(parser)][1]


def as_node(element: Any) -> LexborNode | None:
    """An element of a parse that is not ours, parsed once more for CSS."""
    markup = etree.tostring(element, encoding="unicode", method="html", with_tail=False)
    tag = str(element.tag)
    tree = LexborHTMLParser(_TABLES.get(tag, "") + markup)
    return tree.css_first(tag) if _NAME.fullmatch(tag) else tree.root


def _element(node: LexborNode, above: Any) -> Any:
    tag = _tag(node.tag or "")
    given = {name: _fit(value or "") for name, value in node.attributes.items() if _is_name(name)}
    element = etree.Element(tag, given)
    if above is not None:
        above.append(element)
    return element


def _fit(text: str) -> str:
    return text if text.isprintable() else _UNFIT.sub("", text)


@lru_cache(maxsize=5_000)
def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


@lru_cache(maxsize=5_000)
def _tag(name: str) -> str:
    """The same, or, where XML would not have it, with `_` in place of what it would not."""
    return name if _is_name(name) else _NO_NAME.sub("_", name)
