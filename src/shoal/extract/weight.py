"""Can a page be read in place, or must that happen apart?

Most pages are read in a millisecond or two. Some markup costs a parser, or a selector, the square of its length or
worse: tags in tags, attributes of one tag, formatting that is never closed, `a b c` in a deep page. What could take
longer than about 30 ms by these signs, cheap to see in the bytes, is not read where others wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from math import factorial

from shoal.core.field import Field

LIGHT_BYTES = 256 << 10
"""A page up to this size can be light."""
LIGHT_TAGS = 3_000
"""Nested in each other, so many take a parser 25 ms."""
LIGHT_STEPS = 5_000_000
"""Of selectors on their way up from an element: 5 ns each."""
_FEATHER = 9_000
"""Bytes that cannot hold more tags or attributes than are light."""
_STRETCH = 4096
"""Half of a long tag: one holds such a stretch, wherever it begins."""
_LONG_TAG = 8192
_STONE = 64 << 10
"""Bytes that can hold so many attributes that a parser takes a fifth of a second for them."""
_TAG = re.compile(rb"""<([a-zA-Z]++)(?:[^>"']++|"[^"]*+"|'[^']*+'|["'])*+""")
_MERGED = (b"html", b"body")
_QUIET = re.compile(r"\[[^\]]*\]|\"[^\"]*\"|'[^']*'|\s*[>+,]\s*")
_ROAMING = re.compile(r"\s*~\s*|\s+|:has")


def is_light(body: bytes, fields: Iterable[Field] = (), *, scale: int = 1) -> bool:
    """May this be read where others wait? Where nobody waits, a page may be so many times larger."""
    if len(body) > LIGHT_BYTES * scale:
        return False
    tags, most = body.count(b"<"), LIGHT_TAGS * scale
    if len(body) > _FEATHER and (tags > most or body.count(b"=") > most or _has_long_tag(body)):
        return False
    if len(body) > _STONE and _has_many_attributes(body):
        return False
    roams = [_roams(field.selector) for field in fields]
    if not any(roams):
        return True
    depth = tags - body.count(b"</")
    return sum(depth ** (roam + 1) / factorial(roam + 1) for roam in roams) <= LIGHT_STEPS


def _has_long_tag(body: bytes) -> bool:
    """A stretch without the end of a tag is text, or lies within a long tag."""
    for end in range(_STRETCH, len(body) + 1, _STRETCH):
        if body.find(b">", end - _STRETCH, end) >= 0:
            continue
        last_end = body.rfind(b">", 0, end)
        start = body.find(b"<", last_end + 1, end)
        if start >= 0 and body.find(b">", start, start + _LONG_TAG) < 0:
            return True
    return False


def _has_many_attributes(body: bytes) -> bool:
    """Could a tag have more than fit into a long one? Quotes hide its end, and those of `<body>` are added up."""
    merged = 0
    for tag in _TAG.finditer(body):
        if tag.end() - tag.start() > _LONG_TAG:
            return True
        if tag[1].lower() in _MERGED:
            merged += tag.end() - tag.start()
    return merged > _LONG_TAG


@lru_cache(maxsize=1000)
def _roams(selector: str) -> int:
    """How often a selector must try all ancestors, siblings or descendants of an element; rather too many."""
    plain = _QUIET.sub(lambda match: "," if "," in match[0] and match[0][0] not in "[\"'" else ">", selector.strip())
    parts = [plain] if "(" in plain else plain.split(",")
    return max(len(_ROAMING.findall(part)) for part in parts)
