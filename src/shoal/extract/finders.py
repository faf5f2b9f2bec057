"""Where a rule looks: elements by CSS or XPath, parts of JSON, structured data.

Elements are those of the one parse that links are taken from. XPath is searched in a second parse by another parser,
which is made only for rules that need it; an element goes from one to the other as its markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.core.expressions import compile_jmespath, compile_xpath
from shoal.core.rules import LINKED, Rule
from shoal.extract.allowance import MAX_VALUES, Page
from shoal.extract.linked import linked_values
from shoal.extract.page import Html

if TYPE_CHECKING:
    from lxml.etree import _Element as Element  # pyright: ignore[reportPrivateUsage]

Find = Callable[[Any, Html], Iterable[Any]]
"""From what a rule belongs to, all that it finds there."""
PAGE, ELEMENT, XML, JSON = "page", "element", "xml", "json"
"""What a rule can belong to: the page, an element of it by CSS, one by XPath, or something that is JSON."""
ROOT = ":root"
_TABLES = {
    **dict.fromkeys(("tr",), "<table><tbody>"),
    **dict.fromkeys(("td", "th"), "<table><tbody><tr>"),
    **dict.fromkeys(("tbody", "thead", "tfoot", "caption", "colgroup"), "<table>"),
}
"""Without which a parser drops such elements."""


def opengraph_selector(name: str) -> str:
    """Of the `<meta>` elements of a property."""
    full = name if ":" in name else f"og:{name}"
    return f'meta[property="{full}" i], meta[name="{full}" i]'


def finder(rule: Rule, scope: str) -> Find:
    """All that a rule finds, in the order of the page."""
    if not rule.source:
        return _itself
    if rule.source == "xpath":
        return _by_xpath(rule.find, scope)
    if rule.source == "json":
        return _by_json(rule.find)
    if rule.source in LINKED:
        return lambda _, page: linked_values(page, rule.source, rule.find)
    if rule.source == "opengraph":
        return _by_css(opengraph_selector(rule.find), PAGE, anywhere=True)
    return _by_css(rule.find, scope, anywhere=rule.find.startswith(ROOT))


def first_finder(rule: Rule, scope: str) -> Callable[[Any, Html], Any]:
    """The first that a rule finds, or None: quicker than all of them, where that is possible."""
    anywhere = rule.source == "opengraph" or rule.find.startswith(ROOT)
    if rule.source not in ("css", "opengraph") or (scope == XML and not anywhere):
        find = finder(rule, scope)
        return lambda here, page: next(iter(find(here, page)), None)
    selector = rule.find if rule.source == "css" else opengraph_selector(rule.find)
    if anywhere:
        return lambda _, page: page.tree.css_first(selector)
    if scope == PAGE:
        return lambda here, _: here.css_first(selector)

    def first(here: LexborNode, _: Html) -> LexborNode | None:
        found = here.css_first(selector)
        if found is None or found.mem_id != here.mem_id:
            return found
        return next(iter(here.css(selector)[1:]), None)

    return first


def scope_of(rule: Rule, scope: str) -> str:
    """What the fields of an object belong to."""
    if rule.gives_json or scope == JSON:
        return JSON
    if not rule.source:
        return scope
    return XML if rule.source == "xpath" else ELEMENT


def capped(found: Iterable[Any], page: Page) -> Iterable[Any]:
    """Not more than a list may have."""
    values = iter(found)
    yield from islice(values, MAX_VALUES)
    if next(values, None) is not None:
        page.allowance.cut["values"] = None


def _itself(here: Any, _: Html) -> Iterable[Any]:
    return (here,)


def _by_css(selector: str, scope: str, *, anywhere: bool) -> Find:
    if anywhere:
        return lambda _, page: page.tree.css(selector)
    if scope == PAGE:
        return lambda here, _: here.css(selector)
    if scope == XML:
        return lambda here, page: _within(as_node(here, page), selector)
    return lambda here, _: _within(here, selector)


def _within(here: LexborNode | None, selector: str) -> list[LexborNode]:
    """An element is not within itself."""
    if here is None:
        return []
    found = here.css(selector)
    return found[1:] if found and found[0].mem_id == here.mem_id else found


def _by_xpath(text: str, scope: str) -> Find:
    from lxml.etree import XPathError

    search = compile_xpath(text)

    def find(here: Any, page: Html) -> Iterable[Any]:
        element = here if scope == XML else as_element(here, page, whole=scope == PAGE)
        if element is None:
            return ()
        try:
            found = search(element)
        except XPathError:  # too much of something
            page.allowance.cut["values"] = None
            return ()
        return cast(list[Any], found) if isinstance(found, list) else (found,)

    return find


def _by_json(text: str) -> Find:
    search = compile_jmespath(text)

    def find(here: Any, _: Html) -> Iterable[Any]:
        found = search(here)
        return () if found is None else (found,)

    return find


def as_element(node: LexborNode, page: Html, *, whole: bool) -> Element | None:
    """The same for XPath: the page as it came, or an element by its markup."""
    if whole and "xml" in page.memory:
        return page.memory["xml"]
    if not page.allowance.has_text():
        return None
    markup = node.html or ""
    page.allowance.charge(len(markup))
    if not whole and not page.allowance.has_markup(len(markup)):
        return None
    root = _parse_markup(markup)
    if whole:
        page.memory["xml"] = root
        return root
    body = root.find("body") if root is not None else None
    return body[0] if body is not None and len(body) else None


def as_node(element: Element, page: Html) -> LexborNode | None:
    """The same for CSS."""
    from lxml import etree

    if not page.allowance.has_text():
        return None
    markup = etree.tostring(element, encoding="unicode", method="html", with_tail=False)
    page.allowance.charge(len(markup))
    if not page.allowance.has_markup(len(markup)):
        return None
    tag = str(element.tag)
    tree = LexborHTMLParser(_TABLES.get(tag, "") + markup)
    page.memory.setdefault("trees", []).append(tree)  # a node does not live longer than its tree
    return tree.css_first(tag)


def _parse_markup(markup: str) -> Element | None:
    from lxml import etree

    parser = etree.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=False)
    try:
        return etree.fromstring(markup, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
