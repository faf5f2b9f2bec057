"""Links between slots as they are written down: lines, and how far those of a slot are read."""

from __future__ import annotations

from shoal.core.frozen import frozen
from shoal.frontier.tag import parse_name

_DONE = "done"


@frozen
class Line:
    """Pages of a slot whose links went to other slots, or are owed to them."""

    slot: int
    """That has the pages."""
    text: str
    job: str
    life: str
    to: frozenset[int]
    pages: tuple[int, ...]

    @classmethod
    def read(cls, slot: int, text: str) -> Line:
        name, to, pages, _ = text.split(" ")
        return cls(slot, text, *parse_name(name), frozenset(map(int, to.split(","))), tuple(map(int, pages.split(","))))

    def only(self, slots: frozenset[int]) -> str:
        """The same about some of the slots that it is about; '' about none."""
        name, _, rest = self.text.split(" ", 2)
        return f"{name} {','.join(map(str, sorted(slots)))} {rest}" if slots else ""


@frozen
class Place:
    """How far the lines of a slot are read."""

    since: int = 0
    """ms on the clock of its server, from which on there may be more;"""
    upto: int = 0
    """and up to which; 0: up to now."""

    @property
    def ended(self) -> bool:
        return self.since < 0

    def __str__(self) -> str:
        return _DONE if self.ended else f"{self.since} {self.upto}"

    @classmethod
    def of(cls, text: str | None) -> Place:
        """As it was written down."""
        if text is None:
            return cls()
        return cls(-1) if text == _DONE else cls(*map(int, text.split(" ")))
