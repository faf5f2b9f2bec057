"""The formats of a page: its main content or all of it as markdown, text or HTML; links; what it says of itself."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from shoal.core.content import PAGE
from shoal.core.frozen import frozen
from shoal.core.url import Base
from shoal.extract.main_text import MainContent, main_content, whole
from shoal.extract.markup import Writer
from shoal.extract.metadata import metadata_of
from shoal.extract.outline import Outline, Part, outline
from shoal.extract.page import MAX_HREF_CHARS, Html

MAX_CONTENT_CHARS = 250_000
"""Of each of html, markdown and text, and of all links that are listed."""
MAX_LINK_TEXT = 500
"""Characters of the text of a link."""
_LINK_CHARS = 30
"""That a link takes besides its URL and its text."""
_TITLE_CHARS = 1_000


@frozen
class Content:
    """Takes formats from pages."""

    formats: Mapping[str, str]
    """Name → of the `main` content, or of the whole `page`."""

    def take(self, html: Html) -> dict[str, Any]:
        """The values, by the names of the formats."""
        wanted = set(self.formats.items())
        join = _joiner(html.base)
        found: dict[str, Any] = {}
        if ("metadata", PAGE) in wanted:
            found["metadata"] = metadata_of(html.tree, join)
        extents = {extent for name, extent in wanted if name != "metadata"}
        if extents:
            page = outline_of(html)
            for extent in sorted(extents):
                content = whole(page) if extent == PAGE else main_content(page, title_of(html.tree))
                names = {name for name, of in wanted if of == extent and name != "metadata"}
                found |= _written(Writer(content, join), names, html.cut)
        return {name: found[name] for name in self.formats}


def outline_of(html: Html, left_out: Container[int] = ()) -> Outline:
    """The parts of a page, without these elements; one without a body has none."""
    body = html.tree.body
    page = outline(body, left_out) if body is not None else Outline(Part("body"))
    if page.cut:
        html.cut["content"] = None
    return page


def title_of(tree: LexborHTMLParser) -> str:
    """By which its heading is known."""
    node = tree.css_first("title")
    return node.text()[:_TITLE_CHARS] if node else ""


def text_of(content: MainContent) -> str:
    """The content as plain text."""
    return Writer(content, lambda _: None).text()


def _joiner(base: Base) -> Any:
    def join(href: str) -> str | None:
        if not href or href.startswith("#") or len(href) > MAX_HREF_CHARS:
            return None
        url = base.join(href)
        return str(url) if url else None

    return join


def _written(writer: Writer, names: set[str], cut: dict[str, None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if names & {"html", "markdown"}:
        markup = _within(writer.html(), cut)
        found["html"] = markup
        if "markdown" in names:
            from shoal.extract.markdown import markdown_of  # with a library that few jobs need

            found["markdown"] = _within(markdown_of(markup), cut)
    if "text" in names:
        found["text"] = _within(writer.text(), cut)
    if "links" in names:
        found["links"] = _listed(writer.links(), cut)
    return found


def _within(text: str, cut: dict[str, None]) -> str:
    """As much as an item may have of it, in whole lines where there are any."""
    if len(text) <= MAX_CONTENT_CHARS:
        return text
    cut["content"] = None
    end = text.rfind("\n", 0, MAX_CONTENT_CHARS)
    return text[: end if end > 0 else MAX_CONTENT_CHARS].rstrip()


def _listed(links: list[tuple[str, str]], cut: dict[str, None]) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = []
    left = MAX_CONTENT_CHARS
    for url, text in links:
        shown = text[:MAX_LINK_TEXT]
        left -= len(url) + len(shown) + _LINK_CHARS
        if left < 0:
            cut["content"] = None
            break
        listed.append({"url": url, "text": shown})
    return listed
