"""Strangers' XML read as a stream: nothing is built, nothing is looked up, nothing can grow.

No reference but to a character means anything here: before the parser sees it, each `&` that begins no other is made
`&amp;`. So there are no entities, whatever a document declares, and URLs with a bare `&` in them, of which sitemaps are
full, come out as they were meant. External things are never loaded. What is broken is read up to where it breaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from xml.parsers import expat

from shoal.fetch.decode import codec_named, decode_text

MAX_NESTED = 100
"""Elements within each other."""
MAX_ENTRY_CHARS = 10_000
"""Of one element's text, of those whose text is asked for; the rest of it is dropped."""

_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)")
_FORBIDDEN = bytes(range(0x20)).translate(None, b"\t\n\r")
"""Characters that XML has not, and that some documents have."""
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s{0,5}=\s{0,5}["']([A-Za-z0-9_.:-]{2,40})["']""")


class Enough(Exception):
    """No more is wanted."""


class Visitor(Protocol):
    """Who is told of elements; their names come without a prefix."""

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> bool:
        """An element begins, the last of the path; True: its text is wanted."""
        ...

    def end(self, path: list[str], text: str) -> None:
        """It ends; its text, if that was wanted."""
        ...


class _Walk:
    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._path: list[str] = []
        self._text: list[str] | None = None
        self._room = 0

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._path) >= MAX_NESTED:
            raise Enough
        self._path.append(name.rpartition(":")[2])
        self._text = [] if self._visitor.begin(self._path, attributes) else None
        self._room = MAX_ENTRY_CHARS

    def text(self, text: str) -> None:
        if self._text is not None and self._room > 0:
            self._text.append(text[: self._room])
            self._room -= len(text)

    def end(self, _name: str) -> None:
        self._visitor.end(self._path, "".join(self._text or ()))
        self._path.pop()
        self._text = None


def walk(body: bytes, charset: str, visitor: Visitor) -> bool:
    """Tell a visitor of all elements; False when the document could not be read to its end."""
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    walking = _Walk(visitor)
    parser.StartElementHandler = walking.begin
    parser.EndElementHandler = walking.end
    parser.CharacterDataHandler = walking.text
    try:
        parser.Parse(_cleaned(body, charset), True)
    except (expat.ExpatError, Enough):
        return False
    return True


def _cleaned(body: bytes, charset: str) -> bytes:
    """UTF-8, whatever it was, with nothing in it that breaks a parser or refers to anything."""
    declared = _DECLARED.match(body[:300])
    if declared and charset not in ("utf-8", "utf-16", "utf-32"):
        charset = codec_named(declared[1].decode("ascii")) or charset
    text = decode_text(body, charset).encode("utf-8", "replace").lstrip()
    return _BARE.sub(b"&amp;", text.translate(None, _FORBIDDEN))
