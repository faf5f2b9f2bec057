"""What a spider sends along with a request, in texts that are made of URLs: behind tabs, if it is anything.

No URL has a tab, nor has JSON on one line, nor the name of a callback: the first two tabs are always ours.
"""

from __future__ import annotations

from shoal.core.model import Level, Request
from shoal.core.url import parse

TAB = "\t"


def tail_of(request: Request) -> str:
    """To be put behind a text."""
    return f"{TAB}{request.callback}{TAB}{request.meta}" if request.callback or request.meta else ""


def split_tail(text: str) -> tuple[str, str, str]:
    """(text, callback, meta)"""
    if TAB not in text:
        return text, "", ""
    plain, callback, meta = text.split(TAB, 2)
    return plain, callback, meta


def line_of(request: Request) -> str:
    """A request as one line, for those that know its depth: its URL, and its level where that is not the normal one."""
    tail = tail_of(request)
    if request.level is Level.NORMAL:
        return f"{request.url}{tail}"
    return f"{request.url} {request.level.value}{tail}"


def read_line(line: str, depth: int, found_on: int | None = None) -> Request:
    """The request of a line."""
    text, callback, meta = split_tail(line)
    url, _, level = text.partition(" ")
    priority = Level(int(level)) if level else Level.NORMAL
    return Request(parse(url), depth, priority, callback=callback, meta=meta, found_on=found_on)
