"""One parse of a page, from which links and fields are taken, each up to a cap."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.core.field import Field
from shoal.core.robots import AGENT_TOKEN
from shoal.core.url import Base
from shoal.fetch.decode import decode_text

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/xml", "text/xml", ""})
META_NAMES = ("robots", AGENT_TOKEN.lower())
"""Of the `<meta>` elements that speak to us."""
MAX_LINKS = 50_000
"""Links taken from a page."""
MAX_HREF_CHARS = 8_000
"""Of one link as written: it may be longer than the URL that it means."""
MAX_HREFS_CHARS = 5_000_000
"""Of all links of a page together."""
MAX_JOINED_CHARS = 8_000_000
"""Of all URLs that they mean: a short link may mean a long one."""
MAX_METAS = 100
"""Elements in which a page speaks to robots."""
MAX_META_CHARS = 1_000
"""Of each of them."""
MAX_VALUE_CHARS = 100_000
"""Of one value of a field; a longer one is cut."""
MAX_VALUES = 10_000
"""Values of a field that is a list."""
MAX_TEXT_CHARS = 5_000_000
"""Of text that values are taken from, of all fields together."""
MAX_ITEM_CHARS = 1_000_000
"""Of all values of a page together."""
_URL_ATTRIBUTES = frozenset({"href", "src", "action", "poster"})

Value = str | list[str] | None


@dataclass(frozen=True, slots=True)
class Html:
    """A parsed page with the base of its links."""

    tree: LexborHTMLParser
    base: Base
    base_href: str = ""
    """Of the page's own `<base>`."""
    cut: dict[str, None] = field(default_factory=dict[str, None])
    """Of what there was more than was taken."""
    room: dict[str, int] = field(default_factory=lambda: {"text": MAX_TEXT_CHARS})
    """How much may still be read."""

    @classmethod
    def parse(cls, body: bytes, charset: str, base: Base) -> Html:
        """UTF-8 goes to the parser as it is, without a detour through text."""
        tree = LexborHTMLParser(body.removeprefix(BOM_UTF8) if charset == "utf-8" else decode_text(body, charset))
        node = tree.css_first("base[href]")
        href = (node.attributes.get("href") if node else None) or ""
        if len(href) > MAX_HREF_CHARS:
            href = ""
        return cls(tree, base.rebase(href) if href else base, href)

    def hrefs(self, *, skip_nofollow: bool = False) -> list[str]:
        """What `<a>`, `<area>` and `<link rel=canonical>` point to, as written, each once."""
        nodes = self.tree.css("a[href], area[href]")
        if len(nodes) > MAX_LINKS:
            self.cut["links"] = None
        found = dict.fromkeys(
            href
            for node in nodes[:MAX_LINKS]
            if (href := node.attrs["href"]) and not (skip_nofollow and _is_nofollow(node))
        )
        if canonical := self.canonical():
            found[canonical] = None
        if sum(map(len, found)) > MAX_HREF_CHARS:  # else none is too long, nor are all
            return list(self._short(found))
        return list(found)

    def canonical(self) -> str | None:
        """The href of `<link rel=canonical>`; search engines, too, look for it in the head only."""
        head = self.tree.head
        node = head.css_first('link[rel~="canonical" i][href]') if head else None
        href = node.attributes.get("href") if node else None
        return href if href and len(href) <= MAX_HREF_CHARS else None

    def metas(self, names: Iterable[str]) -> list[str]:
        """The contents of `<meta>` elements of these names, wherever they stand: broken markup moves them about."""
        nodes = self.tree.css(", ".join(f'meta[name="{name}" i][content]' for name in names))
        if len(nodes) > MAX_METAS:
            self.cut["metas"] = None
        return [(node.attributes.get("content") or "")[:MAX_META_CHARS] for node in nodes[:MAX_METAS]]

    def take(self, fields: Sequence[Field]) -> dict[str, Value]:
        """The values of the fields; None or an empty list where the page has none."""
        left = MAX_ITEM_CHARS
        values: dict[str, Value] = {}
        for each in fields:
            found = list(self._within(self._found(each), left))
            left -= sum(map(len, found))
            values[each.name] = found if each.many else next(iter(found), None)
        return values

    def _short(self, hrefs: Iterable[str]) -> Iterator[str]:
        left = MAX_HREFS_CHARS
        for href in hrefs:
            if len(href) > min(left, MAX_HREF_CHARS):
                self.cut["links"] = None
                continue
            left -= len(href)
            yield href

    def _found(self, field: Field) -> Iterator[str]:
        if field.many:
            nodes = self.tree.css(field.selector)
            values = (value for node in nodes if (value := self._of_node(node, field)) is not None)
            yield from islice(values, MAX_VALUES)
            if next(values, None) is not None:
                self.cut["values"] = None
        elif (node := self.tree.css_first(field.selector)) and (value := self._of_node(node, field)) is not None:
            yield value

    def _within(self, values: Iterable[str], left: int) -> Iterator[str]:
        """As much of these as an item may have."""
        for value in values:
            most = min(left, MAX_VALUE_CHARS)
            if len(value) > most:
                self.cut["values"] = None
                if left < MAX_VALUE_CHARS:  # the item is full
                    return
            yield value[:most]
            left -= min(len(value), most)

    def _text_of(self, node: LexborNode) -> str:
        """Elements within each other have the same text once more each."""
        if self.room["text"] <= 0:
            self.cut["values"] = None
            return ""
        text = node.text()
        self.room["text"] -= len(text)
        return text

    def _of_node(self, node: LexborNode, field: Field) -> str | None:
        if field.attribute is None:
            return " ".join(self._text_of(node).split())
        value = node.attributes.get(field.attribute)
        if value is not None and field.attribute in _URL_ATTRIBUTES:
            url = self.base.join(value) if len(value) <= MAX_HREF_CHARS else None
            return str(url) if url else value
        return value


def _is_nofollow(node: LexborNode) -> bool:
    return "nofollow" in (node.attributes.get("rel") or "").lower().split()
