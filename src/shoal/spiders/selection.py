"""What a selector has found on a page: elements, or texts and attributes that an XPath names.

CSS is asked of selectolax, XPath of lxml, each on a parse of its own. Within an element that the one has found, the
other reads that element alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

from lxml import etree
from lxml import html as lxml_html
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from shoal.errors import InputError


class BadSelector(InputError):
    """This is not a selector."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What was found, in the page's order; it may be nothing."""

    _found: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        """Of the first, without needless space; empty when there is none."""
        return next((_text_of(each) for each in self._found), "")

    @property
    def texts(self) -> list[str]:
        """Of each."""
        return [_text_of(each) for each in self._found]

    @property
    def html(self) -> str:
        """Of the first, with its own tag."""
        return next((_html_of(each) for each in self._found), "")

    @overload
    def attr(self, name: str) -> str | None: ...
    @overload
    def attr(self, name: str, default: str) -> str: ...
    def attr(self, name: str, default: str | None = None) -> str | None:
        """An attribute of the first, as it is written."""
        return next((value for each in self._found if (value := _attr_of(each, name)) is not None), default)

    def attrs(self, name: str) -> list[str]:
        """The attribute of each that has it."""
        return [value for each in self._found if (value := _attr_of(each, name)) is not None]

    def all(self) -> list[Selection]:
        """Each as a selection of its own."""
        return [Selection((each,)) for each in self._found]

    @property
    def first(self) -> Selection:
        """The first alone."""
        return Selection(self._found[:1])

    def css(self, selector: str) -> Selection:
        """What a CSS selector finds within these."""
        return Selection(_once(found for each in self._found for found in _css_within(each, selector)))

    def xpath(self, expression: str) -> Selection:
        """What an XPath finds from each of these: `./a`, `.//a/@href`."""
        return Selection(_once(found for each in self._found for found in _xpath_within(each, expression)))

    def __iter__(self) -> Iterator[Selection]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def __repr__(self) -> str:
        return f"<Selection of {len(self._found)}: {self.text[:60]!r}>"


def by_css(tree: LexborHTMLParser, selector: str) -> Selection:
    """What a CSS selector finds on a page."""
    return Selection(tuple(_css(tree.css, selector)))


def by_xpath(root: etree._Element | None, expression: str) -> Selection:  # pyright: ignore[reportPrivateUsage]
    """What an XPath finds on a page; None stands for an empty one."""
    if root is None:
        etree_check(expression)
        return Selection()
    return Selection(tuple(_xpath(root, expression)))


def etree_check(expression: str) -> None:
    """Raises BadSelector unless it is an XPath."""
    try:
        etree.XPath(expression)
    except etree.XPathError as exc:
        raise BadSelector(f"{expression!r} is not an XPath: {exc}") from exc


def _css(ask: Callable[[str], list[LexborNode]], selector: str) -> list[LexborNode]:
    try:
        return ask(selector)
    except SelectolaxError as exc:
        raise BadSelector(f"{selector!r} is not a CSS selector that can be parsed") from exc


def _xpath(node: Any, expression: str) -> Sequence[Any]:
    try:
        found = node.xpath(expression)
    except etree.XPathError as exc:
        raise BadSelector(f"{expression!r} is not an XPath: {exc}") from exc
    if isinstance(found, list):
        return cast("list[Any]", found)
    return [str(found)] if found != "" else []


def _css_within(each: Any, selector: str) -> Sequence[Any]:
    if isinstance(each, str):
        return ()
    if isinstance(each, LexborNode):
        within = _css(each.css, selector)
        return [node for node in within if node.mem_id != each.mem_id]
    return _css(LexborHTMLParser(_html_of(each)).css, selector)


def _xpath_within(each: Any, expression: str) -> Sequence[Any]:
    if isinstance(each, str):
        return ()
    if isinstance(each, LexborNode):
        each = lxml_html.fragment_fromstring(_html_of(each), create_parent=False)
    return _xpath(each, expression)


def _once(found: Iterator[Any]) -> tuple[Any, ...]:
    """Elements within each other find the same."""
    return tuple({_key(each): each for each in found}.values())


def _key(each: Any) -> object:
    return each.mem_id if isinstance(each, LexborNode) else id(each)


def _text_of(each: Any) -> str:
    if isinstance(each, LexborNode):
        return " ".join(each.text().split())
    text = each if isinstance(each, str) else "".join(map(str, each.itertext()))
    return " ".join(text.split())


def _html_of(each: Any) -> str:
    if isinstance(each, str):
        return each
    if isinstance(each, LexborNode):
        return each.html or ""
    return lxml_html.tostring(each, encoding="unicode", with_tail=False)


def _attr_of(each: Any, name: str) -> str | None:
    if isinstance(each, str):
        return None
    if isinstance(each, LexborNode):
        return each.attributes.get(name)
    value = each.get(name)
    return None if value is None else str(value)
