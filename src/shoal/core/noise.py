"""What counts as a change of a page, and what is noise: `changes` of a job, and the digest that pages are compared by.

White space never counts, nor does anything that is no text: markup, attributes, scripts, comments. Two pages say the
same when their digests are equal, if these were made by the same rules.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from shoal.core.date_noise import without_dates
from shoal.core.field import check_selector
from shoal.core.frozen import frozen
from shoal.core.values import STORED
from shoal.errors import BadSpec

MAX_IGNORED = 50
"""Selectors, and names of fields, each."""
DIGEST_VERSION = 2
"""Of the way in which digests are made: the last four bits of each."""
_VERSION_BITS = 0xF
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
"""Hints for who breaks lines, and marks of files: nobody sees them."""

Selector = Annotated[str, Field(min_length=1)]
FieldName = Annotated[str, Field(min_length=1, max_length=200)]


@frozen
class Noise:
    """Rules by which a page's text is made: what of it does not count."""

    ignore: tuple[str, ...] = ()
    """CSS selectors of elements that are left out."""
    dates: bool = True
    """Are dates and times left out?"""
    main: bool = False
    """Is only the main content looked at?"""

    def pack(self) -> str:
        """As one text, for who reads pages apart."""
        return orjson.dumps([self.ignore, self.dates, self.main]).decode()

    @property
    def selector(self) -> str:
        """Of everything that is left out; empty when nothing is."""
        return ", ".join(self.ignore)

    def clean(self, lines: Iterable[str]) -> list[str]:
        """Lines of text without what does not count."""
        text = "\n".join(lines)
        if not text.isascii():
            for char in _INVISIBLE:  # `translate` would take thirty times as long
                text = text.replace(char, "")
            text = unicodedata.normalize("NFC", text)
        text = "\n".join(line for each in text.split("\n") if (line := " ".join(each.split())))
        return (without_dates(text) if self.dates else text).split("\n") if text else []


@lru_cache(maxsize=200)
def unpack_noise(text: str) -> Noise:
    """The rules of a text that `pack` gives."""
    ignore, dates, main = orjson.loads(text)
    return Noise(tuple(ignore), dates, main)


class Watching(BaseModel):
    """What counts as a change between two runs of a job."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    ignore: tuple[Selector, ...] = Field(default=(), max_length=MAX_IGNORED)
    """CSS selectors of elements whose text does not count."""
    ignore_dates: bool = True
    """Dates and times do not count."""
    content: Literal["page", "main"] = "page"
    """The text of the whole page, or of its main content."""
    key: FieldName | None = None
    """The field by which an item is known again; without one, its place on its page."""
    ignore_fields: tuple[FieldName, ...] = Field(default=(), max_length=MAX_IGNORED)
    """Fields of items whose values do not count."""

    @field_validator("ignore", "ignore_fields", mode="before")
    @classmethod
    def _one_is_a_list(cls, given: object) -> object:
        return [given] if isinstance(given, str) else given

    @field_validator("ignore")
    @classmethod
    def _selectors_can_be_read(cls, selectors: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for selector in selectors if info.context != STORED else ():
            try:
                check_selector(selector)
            except BadSpec as exc:
                raise ValueError(f"{exc}; for example .advert or #visitors") from exc
        return selectors

    @field_validator("ignore_fields")
    @classmethod
    def _the_key_counts(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.data.get("key") in names and info.context != STORED:
            raise ValueError(f"{info.data['key']!r} is the key by which items are known: it cannot be left out")
        return names

    @property
    def noise(self) -> Noise:
        """The part of it that is about pages."""
        return Noise(self.ignore, self.ignore_dates, self.content == "main")


def read_watching(given: object) -> object:
    """`true` is all that there is by default, `false` nothing."""
    if given is True:
        return {}
    if given is False:
        return None
    if isinstance(given, str):
        raise ValueError("write true, or settings such as {ignore: [.advert], key: sku}")  # noqa: TRY004 - pydantic
    return given


WatchingSetting = Annotated[Watching | None, BeforeValidator(read_watching)]
NO_RULES = Watching()
"""Those of a job that says nothing."""


def digest_of_lines(lines: Iterable[str]) -> int:
    """Of a text without noise; where its lines end does not count."""
    return _digest(" ".join(lines).encode("utf-8", "replace"))


def _digest(data: bytes) -> int:
    made = int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)
    return made & ~_VERSION_BITS | DIGEST_VERSION


def digest_of_bytes(body: bytes) -> int:
    """Of what is no text."""
    return _digest(body)


NOTHING_SAID = digest_of_lines(())
"""The digest of a page without a body."""


def is_current(digest: int | None) -> bool:
    """Can it be compared with one that is made now?"""
    return digest is not None and digest & _VERSION_BITS == DIGEST_VERSION
