"""One parse of a page, from which links and fields are taken."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.core.field import Field
from shoal.core.url import Base
from shoal.fetch.decode import decode_text

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/xml", "text/xml", ""})
MAX_LINKS = 50_000
MAX_METAS = 100
_URL_ATTRIBUTES = frozenset({"href", "src", "action", "poster"})

Value = str | list[str] | None


@dataclass(frozen=True, slots=True)
class Html:
    """A parsed page with the base of its links."""

    tree: LexborHTMLParser
    base: Base
    rebased: bool
    """The page has a `<base>` of its own."""

    @classmethod
    def parse(cls, body: bytes, charset: str, base: Base) -> Html:
        """UTF-8 goes to the parser as it is, without a detour through text."""
        tree = LexborHTMLParser(body.removeprefix(BOM_UTF8) if charset == "utf-8" else decode_text(body, charset))
        node = tree.css_first("base[href]")
        href = node.attributes.get("href") if node else None
        return cls(tree, base.rebase(href) if href else base, bool(href))

    def hrefs(self, *, skip_nofollow: bool = False) -> list[str]:
        """What `<a>`, `<area>` and `<link rel=canonical>` point to, as written, each once."""
        found = dict.fromkeys(
            href
            for node in self.tree.css("a[href], area[href]")[:MAX_LINKS]
            if (href := node.attrs["href"]) and not (skip_nofollow and _is_nofollow(node))
        )
        if canonical := self.canonical():
            found[canonical] = None
        return list(found)

    def canonical(self) -> str | None:
        """The href of `<link rel=canonical>`; search engines, too, look for it in the head only."""
        head = self.tree.head
        node = head.css_first('link[rel~="canonical" i][href]') if head else None
        return node.attributes.get("href") if node else None

    def metas(self, names: Iterable[str]) -> list[str]:
        """The contents of `<meta>` elements of these names, wherever they stand: broken markup moves them about."""
        selector = ", ".join(f'meta[name="{name}" i][content]' for name in names)
        return [node.attributes.get("content") or "" for node in self.tree.css(selector)[:MAX_METAS]]

    def take(self, fields: Sequence[Field]) -> dict[str, Value]:
        """The values of the fields; None or an empty list where the page has none."""
        return {field.name: self._value(field) for field in fields}

    def _value(self, field: Field) -> Value:
        if field.many:
            values = (self._of_node(node, field) for node in self.tree.css(field.selector))
            return [value for value in values if value is not None]
        node = self.tree.css_first(field.selector)
        return None if node is None else self._of_node(node, field)

    def _of_node(self, node: LexborNode, field: Field) -> str | None:
        if field.attribute is None:
            return " ".join(node.text().split())
        value = node.attributes.get(field.attribute)
        if value is not None and field.attribute in _URL_ATTRIBUTES:
            url = self.base.join(value)
            return str(url) if url else value
        return value


def _is_nofollow(node: LexborNode) -> bool:
    return "nofollow" in (node.attributes.get("rel") or "").lower().split()
