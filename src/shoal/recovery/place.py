"""How far a job is rebuilt: one line of text in the frontier, read by whoever goes on with it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from enum import StrEnum

from shoal.core.frozen import frozen


class Part(StrEnum):
    """The parts of the way. The frontier takes no URLs of a job while it recalls."""

    DROP = "recall drop"
    """What is known of it is to be dropped first."""
    PAGES = "recall pages"
    LETTERS = "recall letters"
    REPLAYS = "recall replays"
    URLS = "admit urls"
    LINKS = "admit links"
    FOUND = "admit found"

    @property
    def recalls(self) -> bool:
        """Is what is stored still to be counted?"""
        return self.value.startswith("recall ")


@frozen
class Place:
    """How far a job is rebuilt."""

    part: Part
    last: int = 0
    """The id of the last row behind it."""
    upto: int = 0
    """The last row that matters; 0: all that there are."""
    token: str = "-"
    """Of this attempt: a job can be lost once more."""

    @classmethod
    def first(cls) -> Place:
        return cls(Part.PAGES, token=secrets.token_hex(4))

    @classmethod
    def read(cls, text: str) -> Place:
        part, last, upto, token = text.rsplit(" ", 3)
        return cls(Part(part), int(last), int(upto), token)

    def __str__(self) -> str:
        return f"{self.part} {self.last} {self.upto} {self.token}"

    def at(self, part: Part, upto: int = 0) -> Place:
        """The beginning of another part."""
        return Place(part, 0, upto, self.token)

    def behind(self, row: int) -> Place:
        return replace(self, last=row)

    def covers(self, row: int) -> bool:
        return not self.upto or row <= self.upto
