"""Can a page be read in place, or must that happen apart?

Most pages are read in a millisecond or two. Some markup costs a parser, or a selector, the square of its length or
worse: tags in tags, attributes of one tag, formatting that is never closed, `a b c` in a deep page. What could take
longer than about 40 ms by one of these signs, cheap to see in the bytes, is not read where others wait.

No sign may depend on what the bytes mean (a comment, a value in quotes, text): who writes a page knows better ways to
hide that than we have to see it. Each is a number that the parser cannot exceed, whatever it takes the bytes for.

How many elements come of them is not seen in the bytes: formatting that is never closed is made again in each
paragraph, up to 39 times. Who looks at each of them counts them in the tree first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from math import factorial

from shoal.core.frozen import frozen
from shoal.extract.scan import Scan

LIGHT_BYTES = 256 << 10
"""A page up to this size can be light."""
LIGHT_TAGS = 3_000
"""Nested in each other, so many take a parser 25 ms."""
CONTENT_TAGS = 1_500
"""Of a page whose content is looked at part by part: 15 µs for an element or a text."""
LIGHT_STEPS = 5_000_000
"""Of selectors, from one element to another, and of the taking of texts: 5 ns each."""
LIGHT_NS = 40_000_000
"""For attributes and for formatting, each."""
_FEATHER = 4_000
"""Bytes that cannot hold enough of anything."""
_TAG_BYTES = 3
"""There are no shorter ones."""
_PAIR_NS = 2
"""For each two attributes of a tag, which are compared; those of formatting tags, too, with each other's."""
_COPY_NS = 160
"""For an element of formatting that was not closed: it is made again in each that follows, with its attributes."""
_COPIED_ATTRIBUTE_NS = 30
_COPIED_BYTE_NS = 2
"""Of these, and of their values, with the text that is made of each `href`."""
_ADOPTED = 8
"""So often one element of formatting is made again at most, when a tag ends it that stands within others."""
_SAME = 3
"""Equal elements of formatting that are made again; of more a parser knows nothing."""
_SEPARATORS = b" \t\n\f\r/\"'"
"""One of these stands before each attribute."""
_ATTRIBUTE_BYTES = 3
"""There are not enough shorter ones to count."""
_HIDDEN_ENDS = 2_000
"""Of more nobody makes out what they hide."""
_MADE = 2
"""So many elements a page has for each tag, with such as are only meant: of more, formatting that was made again."""
_SPACE = rb"[ \t\n\f\r]"
_SHORT_TAG = 99
"""Bytes: what a tag can have in so many is counted for all."""
_SHORT_LINK = 150
"""Bytes: what a link can have in so many is light in any page that has no more than the tags that are light."""
_MARKED_TAG = re.compile(rb"<((?:[hH][tT][mM][lL]|[bB][oO][dD][yY])[^>]*|[a-zA-Z][^>]{%d,})" % _SHORT_TAG)
_MERGED = (b"html", b"body")
_BASE, _LINK = b"base", b"a"
_LONG_TAG = re.compile(rb"<[a-zA-Z][^>]{%d}" % _SHORT_TAG)
_FORMATTING = (b"b", b"i", b"u", b"s", b"big", b"code", b"em", b"font", b"nobr", b"small", b"strike", b"strong", b"tt")
_NOTED = b"|".join(b"".join(b"[%c%c]" % (c, c - 32) for c in name) for name in (*_MERGED, *_FORMATTING))
"""In either case. With `(?i)` the library would look for the `<`, too, in either case, at a quarter of the speed."""
_NOTED_TAG = Scan(
    rb"<(?:(?:%b)[ \t\n\f\r/][^>]*|[bB][aA][sS][eE]|[aA][ \t\n\f\r/][^>]{%d}[^>]*)" % (_NOTED, _SHORT_LINK)
)
"""Those that are merged and those of formatting, where they have attributes; links, where they may have many; and
whatever may be a `<base>`."""
_OPEN_QUOTE = re.compile(rb"=%b*+(?:\"[^\"]*+|'[^']*+)\Z" % _SPACE)
_HIDDEN_END = Scan(rb"=%b*(?:\"[^\">]*>|'[^'>]*>)" % _SPACE)
_HIDING = re.compile(rb"=%b*+(?:\"(?=[^\">]*+>)|'(?=[^'>]*+>))" % _SPACE)
_QUIET = re.compile(r"\[[^\]]*\]|\"[^\"]*\"|'[^']*'|\s*[>+,]\s*")
_ROAMING = re.compile(r"\s*~\s*|\s+|:has", re.IGNORECASE)
_COUNTING = re.compile(r":nth-", re.IGNORECASE)
_ROAMING_OR_ESCAPED = re.compile(r"[\s~:]")
"""With a backslash anything can be written so that it is not seen."""


@frozen
class Query:
    """What a page is asked for, as far as its cost goes."""

    selector: str
    texts: bool = False
    """Is the text taken of every element that it finds? Elements in each other have it once more each."""


class Weight(Enum):
    """What a page may cost whoever reads it."""

    HEAVY = "heavy"
    LIGHT = "light"
    BARE = "bare"
    """Light, and without a `<base>`, if its bytes are read as they are: who has weighed it has seen that."""


def is_light(body: bytes, *, scale: int = 1, content: bool = False) -> bool:
    """May this be parsed where others wait?"""
    return weigh(body, scale=scale, content=content) is not Weight.HEAVY


def weigh(body: bytes, *, scale: int = 1, content: bool = False) -> Weight:
    """What it costs to parse this; where nobody waits, a page may be so many times larger.

    To look at its `content` as a whole takes longer than to take its links and fields.
    """
    if len(body) > LIGHT_BYTES * scale:
        return Weight.HEAVY
    if len(body) <= _FEATHER:
        return Weight.LIGHT
    return _weigh_tags(body, (CONTENT_TAGS if content else LIGHT_TAGS) * scale, LIGHT_NS * scale)


def is_light_tree(elements: int, queries: Iterable[Query] = (), *, scale: int = 1, content: bool = False) -> bool:
    """May so many elements be looked at where others wait? Not all that a parser makes can be seen in the bytes."""
    if elements > _MADE * (CONTENT_TAGS if content else LIGHT_TAGS) * scale:
        return False
    return sum(_steps(query, elements) for query in queries) <= LIGHT_STEPS * scale


def _weigh_tags(body: bytes, most: int, light_ns: int) -> Weight:
    tags = _tags_at_most(body, most)
    if tags > most:
        tags = _count_tags(body)
    if tags > most:
        return Weight.HEAVY
    if _has_few_bytes(len(body), tags, light_ns):
        return Weight.LIGHT
    if _HIDDEN_END.is_in(body):
        shown = _with_hidden_ends(body)
        light = shown is not None and _has_light_tags(shown, _count_tags(body), _note_tags(shown), light_ns)
        return Weight.LIGHT if light else Weight.HEAVY
    noted = _note_tags(body)
    if not _has_light_tags(body, tags, noted, light_ns):
        counted = _count_tags(body)
        if counted == tags or not _has_light_tags(body, counted, noted, light_ns):
            return Weight.HEAVY
    return Weight.LIGHT if noted.base else Weight.BARE


def _tags_at_most(body: bytes, most: int) -> int:
    """It has no more. The end of a large page is not looked at: it can hold two thirds of `most`."""
    end = 2 * most
    if len(body) <= 2 * end:
        return _count_tags(body)
    return _count_tags(body[:-end]) + end // _TAG_BYTES + 1


def _count_tags(body: bytes) -> int:
    return len(body) - len(body.replace(b"<", b""))  # which takes less time than to count them


def _steps(query: Query, elements: int) -> int:
    """At most, when all elements stand within each other, or all beside each other."""
    return _path_of(query.selector).steps(elements) + (elements**2 if query.texts else 0)


@dataclass(slots=True)
class _Noted:
    """Tags of a page that count for more than others, if they have attributes."""

    formatting: list[bytes] = field(default_factory=list[bytes])
    """Up to their ends, without the `<`."""
    links: list[bytes] = field(default_factory=list[bytes])
    """The same; they are formatting, too, but only one of them can be open."""
    merged: int = 0
    base: bool = False
    """Is there what may be a `<base>`?"""


@frozen
class _Path:
    """What a selector has to do for each element."""

    roams: int
    """How often it tries all ancestors, siblings or descendants, for each of which it goes on; rather too many."""
    counts: int
    """How often it counts siblings, besides."""
    length: int
    """Characters: what is quick is done for every one of them."""
    branches: int = 1

    def steps(self, elements: int) -> int:
        quick = elements * self.length
        roaming = _chains(elements, self.roams) if self.roams else 0
        return quick + self.branches * (roaming + self.counts * _chains(elements, self.roams + 1))


def _chains(elements: int, links: int) -> int:
    """In how many ways so many further elements follow one, each farther away than the one before."""
    return elements ** (links + 1) // factorial(links + 1)


def _has_light_tags(body: bytes, tags: int, noted: _Noted, light_ns: int) -> bool:
    """Attributes and formatting: where the page could have too much of it, by how much it has. No end is hidden."""
    short = _has_short_tags(body, noted.merged, light_ns) or _has_no_long_tag(body, tags, noted.merged, light_ns)
    if not (short or _attributes_ns(body, tags) <= light_ns or _has_few_attributes(body, light_ns)):
        return False
    return _formatting_ns(noted, tags) <= light_ns


def _note_tags(body: bytes) -> _Noted:
    noted = _Noted()
    start, end = _NOTED_TAG.find(body)
    while end >= 0:
        name, tag = body[start + 1 : start + 5].lower(), body[start + 1 : end]
        if name in _MERGED:
            noted.merged += 1
        elif name == _BASE:
            noted.base = True
        elif name[:1] == _LINK:
            noted.links.append(tag)
        else:
            noted.formatting.append(tag)
        start, end = _NOTED_TAG.find(body, end)
    return noted


def _has_few_bytes(length: int, tags: int, light_ns: int) -> bool:
    """Is it so short that in so many tags nothing can be too much, not even attributes of formatting throughout?"""
    attributes = length // _ATTRIBUTE_BYTES
    copied_ns = (1 + _ADOPTED) * attributes * _COPIED_ATTRIBUTE_NS + _SAME * length * _COPIED_BYTE_NS
    copies_ns = tags * (tags * _COPY_NS + copied_ns)
    return copies_ns + attributes**2 * _PAIR_NS <= light_ns


def _has_few_attributes(body: bytes, light_ns: int) -> bool:
    """So few that one tag could have them all?"""
    most = min(_count_attributes(body), len(body) // _ATTRIBUTE_BYTES)
    return most**2 * _PAIR_NS <= light_ns


def _has_short_tags(body: bytes, merged: int, light_ns: int) -> bool:
    """Is each tag so short that all of them cannot have too many attributes, where no end is hidden?

    Most pages are known by this.
    """
    longest = light_ns * _ATTRIBUTE_BYTES**2 // (2 * _PAIR_NS * len(body))  # with half of what is light in all of them
    end, last = 0, len(body) - longest
    while end < last:
        end = body.rfind(b">", end, end + longest) + 1
        if not end:
            return False
    return (merged * longest // _ATTRIBUTE_BYTES) ** 2 * _PAIR_NS <= light_ns // 2


def _has_no_long_tag(body: bytes, tags: int, merged: int, light_ns: int) -> bool:
    """Has no tag more bytes than are counted for all, and have all together few enough?"""
    most = _SHORT_TAG // _ATTRIBUTE_BYTES
    return (tags * most**2 + (merged * most) ** 2) * _PAIR_NS <= light_ns and not _LONG_TAG.search(body)


def _attributes_ns(body: bytes, tags: int) -> int:
    """At most, for attributes of one tag; those of all `<html>` and `<body>` are given to one."""
    pairs, merged = tags * (_SHORT_TAG // _ATTRIBUTE_BYTES) ** 2, 0
    for tag in _MARKED_TAG.findall(body):
        count = _count_attributes(tag)
        pairs += count**2
        if tag[:4].lower() in _MERGED:
            merged += count
    return (pairs + merged**2) * _PAIR_NS


def _formatting_ns(noted: _Noted, tags: int) -> int:
    """At most, for formatting that has attributes: others are few that differ."""
    different, links = set(noted.formatting), noted.links
    if not (different or links):
        return 0
    if any(map(_OPEN_QUOTE.search, (*different, *links))):  # it goes on behind this end
        return sys.maxsize
    whole = b"".join(different)
    attributes = _count_attributes(whole)
    copied_ns = attributes * _COPIED_ATTRIBUTE_NS + len(whole) * _COPIED_BYTE_NS
    copies_ns = tags * (len(different) * _COPY_NS + copied_ns)
    compared = _count_attributes(b"".join(noted.formatting)) * attributes
    adopted_ns = tags * _ADOPTED * _copy_ns(different)
    # Of links only one is open at a time.
    links_ns = tags * ((1 + _ADOPTED) * _copy_ns(links) + max(map(len, links), default=0) * _COPIED_BYTE_NS)
    return _SAME * (copies_ns + compared * _PAIR_NS) + adopted_ns + links_ns


def _copy_ns(elements: Collection[bytes]) -> int:
    """To make the largest of them again."""
    return _COPY_NS + max(map(_count_attributes, elements)) * _COPIED_ATTRIBUTE_NS if elements else 0


def _count_attributes(markup: bytes) -> int:
    """At most."""
    return len(markup) - len(markup.translate(None, _SEPARATORS))


def _with_hidden_ends(body: bytes) -> bytes | None:
    """Without any `>` that could be in the quotes of a value, and so be no end of a tag; None: there are too many."""
    shown = bytearray(body)
    done = {b'"': 0, b"'": 0}
    for number, opening in enumerate(_HIDING.finditer(body)):
        if number == _HIDDEN_ENDS:
            return None
        quote, start = opening[0][-1:], opening.end()
        end = body.find(quote, start)
        end = len(body) if end < 0 else end
        if end > done[quote]:
            start = max(start, done[quote])
            shown[start:end] = shown[start:end].replace(b">", b"x")
            done[quote] = end
    return bytes(shown)


@lru_cache(maxsize=1000)
def _path_of(selector: str) -> _Path:
    if "\\" in selector:
        return _Path(len(_ROAMING_OR_ESCAPED.findall(selector)), 0, len(selector))
    plain = _QUIET.sub(lambda match: "," if "," in match[0] and match[0][0] not in "[\"'" else ">", selector.strip())
    parts = [plain] if "(" in plain else plain.split(",")
    roams = max(len(_ROAMING.findall(part)) for part in parts)
    return _Path(roams, len(_COUNTING.findall(plain)), len(selector), 1 + plain.count(","))
