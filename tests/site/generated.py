"""Sites of any size, made on request.

`LinkedSite` is a tree, which bounds the depth, laid over a shuffled ring of all pages, which gives each
page its other links. Everything expensive is built once: a page is one join of ready-made bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.site import words
from tests.site.reply import HTML, NOT_FOUND, Reply, nth, page, plain

_HEADERS = (("Content-Type", HTML),)
_OPEN_ROBOTS = plain("User-agent: *\nDisallow:\n")
_FILLERS = 64  # distinct bodies of prose, shared among the pages
_STRIDE = 7919  # a prime, so that neighbouring pages link to far apart stretches of the ring


def page_target(number: int) -> str:
    """The one address by which pages link to page `number`."""
    return f"/p/{number}" if number else "/"


def page_number(target: str, pages: int) -> int | None:
    """The page that a target asks for; `/p/0` is answered too, although nothing links to it."""
    digits = "0" if target == "/" else target.removeprefix("/p/")
    if target.startswith("/p/") or target == "/":
        number = int(digits) if digits.isascii() and digits.isdigit() else pages
        return number if number < pages else None
    return None


class LinkedSite:
    """`pages` pages of about `size` bytes with up to `links` links each, all within a few hops of `/`."""

    def __init__(self, pages: int = 20_000, links: int = 80, size: int = 25_000, *, seed: int = 1) -> None:
        self.pages = pages
        self.links = links
        self._branches = max(1, links // 2)
        random = Random(seed)
        self._anchors = [_anchor(number) for number in range(pages)]
        ring = random.sample(self._anchors, pages)
        # Doubled, so that a stretch which runs over the end is still one slice.
        self._ring = ring + ring[: min(links, pages)]
        prose = max(0, size - 200 - min(links, pages) * len(self._anchors[-1]))
        self._fillers = [_filler(random, prose) for _ in range(_FILLERS)]

    def respond(self, path_and_query: str, hits: int) -> Reply:
        number = page_number(path_and_query, self.pages)
        if number is None:
            return _OPEN_ROBOTS if path_and_query == "/robots.txt" else NOT_FOUND
        return Reply(200, _HEADERS, self._body(number))

    def _body(self, number: int) -> bytes:
        head = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>Page {number}</title></head>\n<body><h1>Page {number}</h1>\n"
            f'<p class="price">£{number % 90 + 5}.{number % 100:02d}</p>\n<ul>\n'
        )
        parts = [head.encode(), *self._links(number), b"</ul>\n", self._fillers[number % _FILLERS]]
        return b"".join((*parts, b"</body></html>\n"))

    def _links(self, number: int) -> list[bytes]:
        first = number * self._branches + 1
        children = self._anchors[first : first + self._branches]
        start = number * _STRIDE % self.pages
        return children + self._ring[start : start + self.links - len(children)]


def _anchor(number: int) -> bytes:
    noun = words.NOUNS[number % len(words.NOUNS)]
    return f'<li><a href="{page_target(number)}">The {noun} of page {number}</a></li>\n'.encode()


def _filler(random: Random, size: int) -> bytes:
    """Whole paragraphs of prose: at least `size` bytes, by less than one paragraph."""
    paragraphs: list[bytes] = []
    while size > 0:
        paragraphs.append(_paragraph(random))
        size -= len(paragraphs[-1])
    return b"".join(paragraphs)


def _paragraph(random: Random) -> bytes:
    parts = (words.OPENINGS, words.MIDDLES, words.ENDINGS)
    text = " ".join(random.choice(part) for _ in range(3) for part in parts)
    return f"<p>{text}</p>\n".encode()


class SlowSite:
    """`/` links to every page; all of them answer after `delay` seconds, robots.txt at once."""

    def __init__(self, delay: float, pages: int = 20) -> None:
        self.delay = delay
        self.pages = pages

    def respond(self, path_and_query: str, hits: int) -> Reply:
        number = page_number(path_and_query, self.pages)
        if number is None:
            return _OPEN_ROBOTS if path_and_query == "/robots.txt" else NOT_FOUND
        linked = range(1, self.pages) if number == 0 else range(0)
        links = "".join(f'<a href="{page_target(other)}">Page {other}</a>\n' for other in linked)
        text = f"<!doctype html>\n<title>Page {number}</title>\n<h1>Page {number}</h1>\n{links}"
        return page(text, delay=self.delay)


@dataclass(frozen=True, slots=True)
class StatusSite:
    """Scripted: the nth request for a target gets the nth of its replies, and the last one repeats."""

    replies: Mapping[str, Sequence[Reply]]

    def respond(self, path_and_query: str, hits: int) -> Reply:
        script = self.replies.get(path_and_query)
        return nth(tuple(script), hits) if script else NOT_FOUND
