"""The link to the next page of a list, by a selector: CSS, or XPath, which begins with `/` or `(`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

from lxml import etree, html
from selectolax.lexbor import LexborNode

from shoal.core.pagination import is_xpath
from shoal.extract.page import MAX_HREF_CHARS, Html

MAX_NEXT = 100
"""Links to next pages that are taken from one page: several lists may have one each."""
_STEP = re.compile(r"//|::")


def next_links(page: Html, body: bytes, charset: str, selector: str) -> tuple[str, ...]:
    """Where the next pages are, as written; none at the end of a list."""
    found = _by_xpath(body, charset, selector) if is_xpath(selector) else _by_css(page, selector)
    return tuple(dict.fromkeys(href for href in found if href and len(href) <= MAX_HREF_CHARS))


def rough_selector(selector: str) -> str:
    """CSS that costs about as much to search for."""
    return _STEP.sub(" ", selector) if is_xpath(selector) else selector


def _by_css(page: Html, selector: str) -> list[str]:
    return [_href_of(node) for node in page.tree.css(selector)[:MAX_NEXT]]


def _href_of(node: LexborNode) -> str:
    """Of the element itself, or of the first link within it."""
    if (href := node.attributes.get("href")) is not None:
        return href.strip()
    inner = node.css_first("a[href]")
    return (inner.attributes.get("href") or "").strip() if inner else ""


def _by_xpath(body: bytes, charset: str, selector: str) -> list[str]:
    parser = html.HTMLParser(encoding=charset, no_network=True, huge_tree=False)
    try:
        root = html.document_fromstring(body, parser=parser)
        found: Any = _compiled(selector)(root)
    except (etree.LxmlError, LookupError, ValueError):
        return []
    values = cast(list[Any], found) if isinstance(found, list) else [found]
    return [_href_of_value(value) for value in values[:MAX_NEXT]]


def _href_of_value(value: Any) -> str:
    """An attribute's text, or an element's link."""
    if isinstance(value, str):
        return value.strip()
    if not isinstance(value, etree._Element):  # pyright: ignore[reportPrivateUsage] - it has no other name
        return ""
    inner = (
        value
        if value.get("href") is not None
        else next((link for link in value.iter("a") if link.get("href") is not None), None)
    )
    return (inner.get("href") or "").strip() if inner is not None else ""


@lru_cache(maxsize=100)
def _compiled(selector: str) -> etree.XPath:
    return etree.XPath(selector)
