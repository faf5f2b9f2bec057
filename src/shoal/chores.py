"""Chores of the housekeeping: what is done, how often over the whole fleet, and what was put right by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

import structlog

from shoal.core.frozen import frozen
from shoal.frontier.audit import Audit

log = structlog.get_logger()


@frozen
class Chore:
    """One chore; safe to repeat, to miss, and to do twice at once."""

    name: str
    do: Callable[[], None]
    every: timedelta | None = None
    """At most so often, whoever keeps house; None is in every round."""


@frozen
class Repairs:
    """Every repair is logged and counted."""

    audit: Audit

    def note(self, what: str, count: int = 1, job: str = "") -> None:
        """So much was put right."""
        log.warning("repaired", what=what, job=job, count=count)
        self.count(what, count)

    def count(self, what: str, count: int = 1) -> None:
        """Likewise, of what has a line of its own."""
        self.audit.count_repair(what, count)


class Window:
    """Some of many at a time, in their order; after the last comes the first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._last = ""

    def next(self, names: Iterable[str]) -> list[str]:
        """The next ones of those that there are now."""
        ordered = sorted(names)
        rest = [name for name in ordered if name > self._last]
        chosen = (rest or ordered)[: self._size]
        self._last = chosen[-1] if chosen else ""
        return chosen
