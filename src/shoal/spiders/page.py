"""The page that a spider gets: what was fetched, and ways to look into it. It asks for nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lxml import etree
from lxml import html as lxml_html
from selectolax.lexbor import LexborHTMLParser

from shoal.core.json_text import read_json
from shoal.core.url import Base
from shoal.fetch.decode import decode_text
from shoal.spiders.follow import Follow, Priority
from shoal.spiders.mirror import Mirrors
from shoal.spiders.selection import Selection, by_css, by_xpath


@dataclass(frozen=True)
class Page:
    """One fetched page."""

    url: str
    body: bytes = field(repr=False)
    """Without its content encodings."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """By names in lower case; of a name that comes twice, both values with a comma between them."""
    charset: str = "utf-8"
    depth: int = 0
    """Links away from a start URL."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What `Follow` has sent along."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the job says: `params`."""
    callback: str = ""
    """Which callback of the spider gets it; empty for the first."""

    @property
    def content_type(self) -> str:
        """The media type, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @cached_property
    def text(self) -> str:
        """The body as text."""
        return decode_text(self.body, self.charset)

    def json(self) -> Any:
        """The body as JSON; raises ValueError when it is none."""
        return read_json(self.text)

    def css(self, selector: str) -> Selection:
        """What a CSS selector finds: `page.css("h1").text`."""
        return by_css(self._tree, selector, self._mirrors)

    def xpath(self, expression: str) -> Selection:
        """What an XPath finds: `page.xpath("//h1/text()").text`."""
        return by_xpath(self._root, expression, self._mirrors)

    def urljoin(self, href: str) -> str:
        """An href of the page as an absolute URL, as browsers read it; raises ValueError when it is none of the web."""
        url = self._base.join(href)
        if url is None:
            raise ValueError(f"{href!r} on {self.url} does not lead to a page of the web")
        return str(url)

    def links(
        self, selector: str = "a[href], area[href]", *, callback: str = "", priority: Priority = "normal"
    ) -> Iterator[Follow]:
        """Every link that a selector finds, each once, to be followed: `yield from page.links(".pager a")`."""
        found = dict.fromkeys(url for href in self.css(selector).attrs("href") if (url := self._base.join(href)))
        for url in found:
            yield Follow(str(url), callback, priority)

    def parsed_as(self, tree: LexborHTMLParser) -> Page:
        """The same page, whose parse is there already."""
        self.__dict__["_tree"] = tree
        return self

    @cached_property
    def _tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.text)

    @cached_property
    def _root(self) -> etree._Element | None:  # pyright: ignore[reportPrivateUsage]
        try:
            return lxml_html.document_fromstring(self.text.encode("utf-8", "replace"), parser=_utf8_parser())
        except etree.ParserError:  # it is empty
            return None

    @cached_property
    def _mirrors(self) -> Mirrors:
        return Mirrors()

    @cached_property
    def _base(self) -> Base:
        base = Base(self.url)
        node = self._tree.css_first("base[href]") if "<base" in self.text.lower() else None
        href = node.attributes.get("href") if node else None
        return base.rebase(href) if href else base


def _utf8_parser() -> lxml_html.HTMLParser:
    return lxml_html.HTMLParser(encoding="utf-8")
