"""The link to the next page of a list, by a selector: CSS, or XPath, which begins with `/` or `(`."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

from shoal.core.pagination import is_xpath
from shoal.extract.page import MAX_HREF_CHARS, Html

MAX_NEXT = 100
"""Links to next pages that are taken from one page: several lists may have one each."""
_STEP = re.compile(r"//|::")


def next_links(page: Html, body: bytes, charset: str, selector: str) -> tuple[str, ...]:
    """Where the next pages are, as written; none at the end of a list."""
    if is_xpath(selector):
        from shoal.extract.next_by_xpath import hrefs_by_xpath  # with lxml, which few jobs need

        found = hrefs_by_xpath(body, charset, selector, MAX_NEXT)
    else:
        found = [_href_of(node) for node in page.tree.css(selector)[:MAX_NEXT]]
    return tuple(dict.fromkeys(href for href in found if href and len(href) <= MAX_HREF_CHARS))


def rough_selector(selector: str) -> str:
    """CSS that costs about as much to search for."""
    return _STEP.sub(" ", selector) if is_xpath(selector) else selector


def _href_of(node: LexborNode) -> str:
    """Of the element itself, or of the first link within it."""
    if (href := node.attributes.get("href")) is not None:
        return href.strip()
    inner = node.css_first("a[href]")
    return (inner.attributes.get("href") or "").strip() if inner else ""
