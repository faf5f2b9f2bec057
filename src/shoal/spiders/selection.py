"""What a selector has found on a page: elements, or texts and attributes that an XPath names.

CSS is asked of selectolax, XPath of lxml, each on a parse of its own. An element that CSS has found is asked for an
XPath where it stands on its page, by a mirror; for CSS within one that XPath has found, that element is parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, overload

from lxml import etree
from lxml import html as lxml_html
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from shoal.errors import InputError
from shoal.spiders.mirror import Mirrors, as_node


class BadSelector(InputError):
    """This is not a selector."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What was found, in the page's order; it may be nothing."""

    _found: tuple[Any, ...] = ()
    _mirrors: Mirrors = field(default_factory=Mirrors, repr=False, compare=False)

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
        return [Selection((each,), self._mirrors) for each in self._found]

    @property
    def first(self) -> Selection:
        """The first alone."""
        return Selection(self._found[:1], self._mirrors)

    def css(self, selector: str) -> Selection:
        """What a CSS selector finds within these, each once; an element is not within itself."""
        found = (node for each in _outermost(self._found) for node in _css_within(each, selector))
        return Selection(_once(found), self._mirrors)

    def xpath(self, expression: str) -> Selection:
        """What an XPath finds from each of these, each once: `./a`, `.//a/@href`; `//a` searches the whole page."""
        found = (one for each in self._found for one in _xpath_from(each, expression, self._mirrors))
        return Selection(_once(found), self._mirrors)

    def __iter__(self) -> Iterator[Selection]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def __repr__(self) -> str:
        return f"<Selection of {len(self._found)}: {self.text[:60]!r}>"


def by_css(tree: LexborHTMLParser, selector: str, mirrors: Mirrors) -> Selection:
    """What a CSS selector finds on a page."""
    return Selection(tuple(_css(tree.css, selector)), mirrors)


def by_xpath(root: etree._Element | None, expression: str, mirrors: Mirrors) -> Selection:  # pyright: ignore[reportPrivateUsage]
    """What an XPath finds on a page; None stands for an empty one."""
    if root is None:
        etree_check(expression)
        return Selection()
    return Selection(tuple(_xpath(root, expression)), mirrors)


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
    except (etree.XPathError, ValueError) as exc:
        raise BadSelector(f"{expression!r} is not an XPath: {exc}") from exc
    if isinstance(found, list):
        return [each for each in cast("list[Any]", found) if not isinstance(each, tuple)]  # namespaces
    return [str(found)] if found != "" else []


def _outermost(found: Sequence[Any]) -> Iterator[Any]:
    """Elements of XPath's parse without those that are within others: they have the same in them, parsed once more."""
    all_of_them = set(found)
    for each in found:
        if isinstance(each, str | LexborNode) or not any(above in all_of_them for above in each.iterancestors()):
            yield each


def _css_within(each: Any, selector: str) -> Sequence[Any]:
    if isinstance(each, str) or not (isinstance(each, LexborNode) or isinstance(each.tag, str)):
        return ()  # texts and comments
    node = each if isinstance(each, LexborNode) else as_node(each)
    if node is None:
        return ()
    return [found for found in _css(node.css, selector) if found.mem_id != node.mem_id]


def _xpath_from(each: Any, expression: str, mirrors: Mirrors) -> Sequence[Any]:
    if isinstance(each, str):
        return ()
    if not isinstance(each, LexborNode):
        return _xpath(each, expression)
    mirror = mirrors.of(each)
    element = mirror.elements.get(each.mem_id)
    if element is None:
        etree_check(expression)
        return ()
    return [found if isinstance(found, str) else mirror.nodes[found] for found in _xpath(element, expression)]


def _once(found: Iterable[Any]) -> tuple[Any, ...]:
    """Elements within each other find the same."""
    return tuple({_key(each): each for each in found}.values())


def _key(each: Any) -> object:
    """By which something that is found twice is known again."""
    if isinstance(each, LexborNode):
        return each.mem_id
    if not isinstance(each, str):
        return each
    parent = cast("Any", each).getparent() if hasattr(each, "getparent") else None
    if parent is None:  # the value of a function belongs to nobody, and is one for each element
        return object()
    return parent, getattr(each, "attrname", None), getattr(each, "is_tail", False)


def _text_of(each: Any) -> str:
    if isinstance(each, LexborNode):
        return " ".join(each.text().split())
    if isinstance(each, str):
        text = each
    else:  # comments and instructions have a text, and none within them
        text = "".join(map(str, each.itertext())) if isinstance(each.tag, str) else each.text or ""
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
