"""Which pages of a job need a browser, learnt page by page, for those that look alike.

Pages whose URLs have the same pattern are mostly made by the same code: what one of them needed, the next will need.

- One page that needed a browser, and none that did not: the next go to the browser at once.
- Three pages that did not, and none that did: the next go without.
- A pattern with pages of both kinds stays undecided: each of its pages is looked at without a browser first.
- Sites change: every 50th page of a pattern that goes to the browser, and the first after an hour, is looked at again.
"""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import unquote_plus

from shoal.core.frozen import frozen
from shoal.core.model import Engine
from shoal.core.url import Url

PLAIN_PAGES = 3
"""Pages that did not need a browser, before their pattern is decided."""
CHECK_EVERY = 50
"""Pages of a pattern that goes to the browser, of which one is looked at without."""
CHECK_AFTER = timedelta(hours=1)
MAX_PATTERN_CHARS = 200
LONG_WORD = 24
"""Characters of a segment that is taken for a name or a token, not for a part of the site."""
SLUG_DASHES = 3

_VARIABLE = re.compile(rf"[0-9]|.{{{LONG_WORD}}}|(?:[^-]*-){{{SLUG_DASHES}}}")
"""What differs from page to page: numbers, dates, ids, tokens, titles."""
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}\Z")


@frozen
class Route:
    """What is known about the pages of one pattern."""

    http: int = 0
    """Pages that were complete without a browser."""
    browser: int = 0
    """Pages that needed one, or were given one because of those before."""
    checked_ms: int = 0
    """When a page was last looked at without a browser, on Redis' clock."""


@frozen
class RouteNote:
    """What a page needed."""

    host: str
    pattern: str
    needed: bool
    """A browser."""
    checked: bool = True
    """Was it looked at without a browser? Not when it went to one because of those before."""


def decide(route: Route | None, now_ms: int) -> Engine | None:
    """How to ask for the next page of a pattern; None: without a browser, and see."""
    if route is None or (route.http and route.browser):
        return None
    if route.browser:
        stale = now_ms - route.checked_ms >= CHECK_AFTER // timedelta(milliseconds=1)
        return None if stale or route.browser % CHECK_EVERY == 0 else Engine.BROWSER
    return Engine.HTTP if route.http >= PLAIN_PAGES else None


def path_pattern(url: Url) -> str:
    """What the URLs of pages that look alike have in common: `/shop/*/reviews?page&sort`.

    Segments with digits, long ones and those of many words become `*`, with their ending if they have one; of the
    query the names stay, each once and in order. As deep as the path.
    """
    path, _, query = url.target.partition("?")
    pattern = "/".join(map(_segment, path.split("/")))
    names = sorted({unquote_plus(pair.partition("=")[0]) for pair in query.split("&") if pair})
    if names:
        pattern += "?" + "&".join(map(_name, names))
    return pattern[:MAX_PATTERN_CHARS]


def _segment(text: str) -> str:
    ending = _ENDING.search(text)
    stem, end = (text[: ending.start()], ending.group()) if ending else (text, "")
    return f"*{end}" if _VARIABLE.search(stem) else text


def _name(text: str) -> str:
    """A name in a query as one word; one that is as long as a value may be one."""
    return "*" if len(text) >= LONG_WORD or not text.isprintable() or " " in text else text
