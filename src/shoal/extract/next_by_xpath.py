"""The link to the next page of a list, by an XPath expression."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from lxml import etree, html


def hrefs_by_xpath(body: bytes, charset: str, selector: str, most: int) -> list[str]:
    """What it finds, as written, so many at the most; nothing where the page cannot be read."""
    parser = html.HTMLParser(encoding=charset, no_network=True, huge_tree=False)
    try:
        root = html.document_fromstring(body, parser=parser)
        found: Any = _compiled(selector)(root)
    except (etree.LxmlError, LookupError, ValueError):
        return []
    values = cast(list[Any], found) if isinstance(found, list) else [found]
    return [_href_of_value(value) for value in values[:most]]


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
