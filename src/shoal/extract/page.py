"""One parse of a page, from which links and values are taken, each up to a cap."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.core.frozen import frozen
from shoal.core.robots import AGENT_TOKEN
from shoal.core.url import Base
from shoal.extract.allowance import Allowance
from shoal.extract.scan import Scan
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
_BASE = Scan(rb"<[bB][aA][sS][eE]")
"""Without these bytes a page has no `<base>`; to look through its tree for one takes three times as long."""
URL_ATTRIBUTES = frozenset({"href", "src", "action", "poster"})


@frozen
class Html:
    """A parsed page with the base of its links."""

    tree: LexborHTMLParser
    base: Base
    base_href: str = ""
    """Of the page's own `<base>`."""
    allowance: Allowance = field(default_factory=Allowance)
    """How much may still be taken."""
    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is made of the page only when it is asked for, and once."""

    @property
    def cut(self) -> dict[str, None]:
        """Of what there was more than was taken."""
        return self.allowance.cut

    @classmethod
    def parse(cls, body: bytes, charset: str, base: Base, *, bare: bool = False) -> Html:
        """UTF-8 goes to the parser as it is, without a detour through text. `bare`: no `<base>` is in its bytes."""
        if charset == "utf-8":
            tree, may_have_base = LexborHTMLParser(body.removeprefix(BOM_UTF8)), not bare and _BASE.is_in(body)
        else:
            tree, may_have_base = LexborHTMLParser(decode_text(body, charset)), True
        href = _base_href(tree) if may_have_base else ""
        return cls(tree, base.rebase(href) if href else base, href)

    def hrefs(self, *, skip_nofollow: bool = False) -> list[str]:
        """What `<a>`, `<area>` and `<link rel=canonical>` point to, as written, each once."""
        nodes = self.tree.css("a[href], area[href]")
        if len(nodes) > MAX_LINKS:
            self.cut["links"] = None
        if skip_nofollow:
            nodes = [node for node in nodes[:MAX_LINKS] if not _is_nofollow(node)]
        found = dict.fromkeys([href for node in nodes[:MAX_LINKS] if (href := node.attrs["href"])])
        if canonical := self.canonical:
            found[canonical] = None
        if len("".join(found)) > MAX_HREF_CHARS:  # else none is too long, nor are all
            return list(self._short(found))
        return list(found)

    @property
    def canonical(self) -> str:
        """The href of `<link rel=canonical>`; search engines, too, look for it in the head only."""
        if "canonical" not in self.memory:
            head = self.tree.head
            node = head.css_first('link[rel~="canonical" i][href]') if head else None
            href = node.attributes.get("href") if node else None
            self.memory["canonical"] = href if href and len(href) <= MAX_HREF_CHARS else ""
        return self.memory["canonical"]

    def metas(self, names: Collection[str]) -> list[str]:
        """The contents of `<meta>` elements of these names, wherever they stand: broken markup moves them about."""
        heard: list[str] = []
        for attributes in (node.attrs for node in self.tree.tags("meta")):
            if (attributes.get("name") or "").lower() not in names or "content" not in attributes:
                continue
            if len(heard) == MAX_METAS:
                self.cut["metas"] = None
                break
            heard.append((attributes["content"] or "")[:MAX_META_CHARS])
        return heard

    def _short(self, hrefs: Iterable[str]) -> Iterator[str]:
        left = MAX_HREFS_CHARS
        for href in hrefs:
            if len(href) > min(left, MAX_HREF_CHARS):
                self.cut["links"] = None
                continue
            left -= len(href)
            yield href

    def text_of(self, node: LexborNode) -> str:
        """With its white space put in order."""
        return self.allowance.read(node.text)

    def attribute_of(self, node: LexborNode, name: str) -> str | None:
        """As it is written, or a whole address where it is one."""
        value = node.attrs.get(name)
        return self.absolute(value) if value is not None and name in URL_ATTRIBUTES else value

    def absolute(self, value: str) -> str:
        """The whole address, where there is one."""
        return (self.base.join_text(value) if len(value) <= MAX_HREF_CHARS else None) or value


def _base_href(tree: LexborHTMLParser) -> str:
    href = next((href for node in tree.tags("base") if (href := node.attributes.get("href")) is not None), "")
    return href if len(href) <= MAX_HREF_CHARS else ""


def _is_nofollow(node: LexborNode) -> bool:
    return "nofollow" in (node.attributes.get("rel") or "").lower().split()
