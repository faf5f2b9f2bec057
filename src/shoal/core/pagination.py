"""`next`: the selector of the link to the next page, checked when a job is submitted."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

MAX_NEXT_CHARS = 1_000


def is_xpath(selector: str) -> bool:
    """CSS never begins so."""
    return selector.startswith(("/", "(", "./"))


def check_selector(selector: str) -> str:
    """The selector, if it is one; raises ValueError with what is wrong."""
    if len(selector) > MAX_NEXT_CHARS:
        raise ValueError(f"a selector of {len(selector)} characters; at most {MAX_NEXT_CHARS} are allowed")
    try:
        if is_xpath(selector):
            _check_xpath(selector)
        elif selector:
            LexborHTMLParser("").css(selector)
    except (SelectolaxError, ValueError) as exc:
        kind = "XPath" if is_xpath(selector) else "CSS"
        raise ValueError(f"{selector!r} is no {kind} selector: {exc}; for example a.next, or //a[@rel='next']") from exc
    return selector


def _check_xpath(selector: str) -> None:
    from lxml import etree  # which few jobs need

    try:
        etree.XPath(selector)
    except etree.XPathError as exc:
        raise ValueError(str(exc)) from exc
