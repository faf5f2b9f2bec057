"""When two pages say the same: a hash of all their words, and one that is alike for alike texts (a simhash).

Both are 64 bits, kept as signed integers. The simhash is made of the runs of three words that a text has: each votes on
all bits. Texts that share most of them differ in few bits; their number is the distance.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from shoal.core.frozen import frozen

MAX_WORDS = 20_000
"""Of a text that are compared."""
MIN_WORDS = 20
"""A text with fewer is like any other: it is not compared."""
MAX_DISTANCE = 7
_RUN = 3
_BITS = 64
_LANE = 24
"""Bits of a counter; there are eight in one number."""
_VOTES = tuple(sum((byte >> bit & 1) << (_LANE * bit) for bit in range(8)) for byte in range(256))
_MASK = (1 << _LANE) - 1
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


class Duplicates(BaseModel):
    """What becomes of pages that say what an earlier one says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    distance: int = Field(default=3, ge=0, le=MAX_DISTANCE)
    """Bits in which the simhash may differ; 0: the very same words."""
    follow: bool = True
    """Follow their links."""
    items: bool = True
    """Keep their items."""


_WORDS: dict[str, dict[str, bool]] = {"mark": {}, "skip": {"follow": False}}


def read_duplicates(given: object) -> object:
    """`mark`, or `skip`: then their links are not followed."""
    if not isinstance(given, str):
        return given
    if given not in _WORDS:
        raise ValueError(
            f"there is no {given[:40]!r}: write mark, skip, or settings such as {{distance: 2, follow: false}}"
        )
    return _WORDS[given]


DuplicatesSetting = Annotated[Duplicates | None, BeforeValidator(read_duplicates)]


@frozen
class Likeness:
    """By which a text is known again."""

    content: int
    simhash: int


def likeness_of(text: str) -> Likeness | None:
    """Of a page's text; None when it is too short to be compared."""
    words = _WORD.findall(text.casefold())[:MAX_WORDS]
    if len(words) < MIN_WORDS:
        return None
    content = blake2b(" ".join(words).encode("utf-8", "replace"), digest_size=8).digest()
    return Likeness(int.from_bytes(content, "big", signed=True), _simhash(words))


def hex_of(value: int) -> str:
    """64 bits as 16 digits."""
    return f"{value & ((1 << _BITS) - 1):016x}"


def _simhash(words: list[str]) -> int:
    runs = {" ".join(run) for run in zip(*(words[start:] for start in range(_RUN)), strict=False)}
    hashes = b"".join(blake2b(run.encode("utf-8", "replace"), digest_size=8).digest() for run in runs)
    half, found = len(runs) / 2, 0
    for place in range(8):
        votes = sum(map(_VOTES.__getitem__, hashes[place::8]))
        for bit in range(8):
            if votes >> (_LANE * bit) & _MASK > half:
                found |= 1 << (8 * place + bit)
    return found - (1 << _BITS) if found >> (_BITS - 1) else found
