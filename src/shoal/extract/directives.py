"""What a page says to robots about itself: X-Robots-Tag in its headers, `<meta name=robots>` in its markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from shoal.core.frozen import frozen
from shoal.core.robots import AGENT_TOKEN

_OURS = frozenset({"robots", "*", AGENT_TOKEN.lower()})
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_AGENT = re.compile(r"\*|[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = re.compile(r"[^\s,;]+")


@frozen
class Directives:
    """What a robot must not do with a page."""

    nofollow: bool = False
    noindex: bool = False


SILENT = Directives()


def read_directives(headers: Sequence[tuple[bytes, bytes]], metas: Iterable[str] = ()) -> Directives:
    """What a response's headers and its markup say, to all robots or to us. The strictest word counts."""
    words: set[str] = set()
    for name, value in headers:
        if len(name) == len(b"x-robots-tag") and name.lower() == b"x-robots-tag":
            words.update(_header_words(value.decode("latin-1")))
    words.update(_words_of(metas))
    if not words:
        return SILENT
    both = "none" in words
    return Directives(nofollow=both or "nofollow" in words, noindex=both or "noindex" in words)


def _header_words(value: str) -> Iterator[str]:
    """An agent's name counts for what follows it, up to the next one."""
    ours = True
    for part in value.split(","):
        name, colon, rest = part.partition(":")
        name = name.strip().lower()
        if not colon:
            rest = part
        elif name in _VALUED or not _AGENT.fullmatch(name):
            continue  # a value, or a piece of a date
        else:
            ours = name in _OURS
        if ours:
            yield from _words_of([rest])


def _words_of(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _WORDS.findall(text.lower())
