"""How much may still be taken from a page, and what was noted on the way: one for each page, whatever its kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, cast

from shoal.core.url import Base

MAX_VALUE_CHARS = 100_000
"""Of one value of a field; a longer one is cut."""
MAX_VALUES = 10_000
"""Values of a field that is a list, and items of a page."""
MAX_TEXT_CHARS = 5_000_000
"""Of text that values are taken from, of all fields together."""
MAX_ITEM_CHARS = 1_000_000
"""Of all values of a page together."""
MAX_STEPS = 20_000_000
"""Of regular expressions: for each character of a text, as many as its pattern has parts."""
MAX_ITEM_PARTS = 200_000
"""Values of a page, with those within lists and objects."""
MAX_MARKUP_CHARS = 2_000_000
"""Of elements that are parsed once more: those in which both CSS and XPath are searched."""
MAX_NESTING = 30
"""Lists and objects within each other in a value."""


class Allowance:
    """Of one page."""

    __slots__ = ("chars", "cut", "incomplete", "markup", "parts", "steps", "text", "unconverted", "unreadable")

    def __init__(self) -> None:
        self.text = MAX_TEXT_CHARS
        self.chars = MAX_ITEM_CHARS
        self.steps = MAX_STEPS
        self.markup = MAX_MARKUP_CHARS
        self.parts = MAX_ITEM_PARTS
        self.cut: dict[str, None] = {}
        """Of what there was more than was taken."""
        self.incomplete: dict[str, int] = {}
        """Required fields that were missing, each with how many items or objects were left out for it."""
        self.unconverted: dict[str, int] = {}
        """Fields with values that are none of their type."""
        self.unreadable = False
        """Is it no JSON, though it says so?"""

    def charge(self, chars: int) -> None:
        """Text was read. Elements within each other have the same text once more each."""
        self.text -= chars

    def has_text(self) -> bool:
        """May more be read?"""
        if self.text > 0:
            return True
        self.cut["values"] = None
        return False

    def read(self, text_of: Callable[[], str]) -> str:
        """The text of an element, with its white space put in order; an empty one when enough was read."""
        if self.text <= 0:
            self.cut["values"] = None
            return ""
        text = text_of()
        self.text -= len(text)
        # Most texts are in order already: of all white space, only the space is printable.
        return text.strip(" ") if "  " not in text and text.isprintable() else " ".join(text.split())

    def has_markup(self, chars: int) -> bool:
        """May so much be parsed once more?"""
        self.markup -= chars
        if self.markup >= 0:
            return True
        self.cut["values"] = None
        return False

    def step(self, steps: int) -> bool:
        """May a regular expression do so many?"""
        self.steps -= steps
        if self.steps >= 0:
            return True
        self.cut["values"] = None
        return False

    def fit(self, value: str) -> str | None:
        """As much of a text as a value may have; nothing when the page has had its share."""
        self.parts -= 1
        size = len(value)
        if size <= MAX_VALUE_CHARS and size <= self.chars and self.parts >= 0:
            self.chars -= size
            return value
        self.cut["values"] = None
        if self.chars < MAX_VALUE_CHARS or self.parts < 0:
            return None
        self.chars -= MAX_VALUE_CHARS
        return value[:MAX_VALUE_CHARS]

    def fit_json(self, value: Any, depth: int = MAX_NESTING) -> Any:
        """The same for any JSON value; what is too deep or too much is left out."""
        if isinstance(value, str):
            return self.fit(value.replace("\x00", "") if "\x00" in value else value)
        self.parts -= 1
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if depth == 0 or self.parts < 0:
            self.cut["values"] = None
            return None
        if isinstance(value, list):
            parts = cast(list[Any], value)
            return [self.fit_json(part, depth - 1) for part in parts[: self._most(len(parts))]]
        if isinstance(value, dict):
            named = list(cast(dict[str, Any], value).items())
            return {self._name(name): self.fit_json(part, depth - 1) for name, part in named[: self._most(len(named))]}
        return None

    def _name(self, name: str) -> str:
        self.chars -= len(name)
        return name.replace("\x00", "")[:MAX_VALUE_CHARS]

    def _most(self, wanted: int) -> int:
        if wanted > max(0, self.parts):
            self.cut["values"] = None
        return max(0, min(wanted, self.parts))


class Page(Protocol):
    """What values are taken from: markup or JSON."""

    @property
    def base(self) -> Base:
        """Of addresses in it."""
        ...

    @property
    def allowance(self) -> Allowance:
        """How much may still be taken."""
        ...
