"""The kinds of faults."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from shoal.errors import InputError


class Kind(StrEnum):
    """What is done to whom."""

    KILL_WORKER = "kill -9 worker"
    """Main process and pool at once, as when a machine dies."""
    KILL_MAIN = "kill -9 main process"
    KILL_CHILD = "kill -9 pool process"
    STOP_WORKER = "SIGTERM worker"
    FREEZE_WORKER = "freeze worker"
    FREEZE_CHILD = "freeze pool process"
    KILL_REDIS = "kill -9 Redis"
    FREEZE_REDIS = "freeze Redis"
    LOCK_DATABASE = "lock database"
    KILL_UNDER_LOCK = "kill -9 worker under lock"
    """With results in its hands that it could not store: whoever settles before he stores loses them."""
    KILL_EVERYTHING = "kill -9 everything"
    FLUSH_REDIS = "FLUSHALL"
    CUT_REDIS = "AOF cut short"
    """Redis dies and comes back older than it was."""

    @property
    def hits_worker(self) -> bool:
        """Others can go on meanwhile."""
        return self in _WORKER_FAULTS

    @property
    def has_victim(self) -> bool:
        """Is one worker hit more than the others?"""
        return self.hits_worker or self is Kind.KILL_UNDER_LOCK

    @property
    def may_cost_fetches(self) -> bool:
        """A worker that is told to stop has the time to finish or to give back what it has not asked for."""
        return self is not Kind.STOP_WORKER


_WORKER_FAULTS = frozenset(
    (Kind.KILL_WORKER, Kind.KILL_MAIN, Kind.KILL_CHILD, Kind.STOP_WORKER, Kind.FREEZE_WORKER, Kind.FREEZE_CHILD)
)
DECK = tuple(Kind)
"""What a drill draws from unless it is told otherwise."""
LOSSES = (Kind.FLUSH_REDIS, Kind.CUT_REDIS)
"""Redis forgets, and must be filled again from database and archive."""


def kinds_named(parts: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds whose names contain one of these words; all of the deck when there are none."""
    found = tuple(kind for kind in Kind if any(part.lower() in kind.lower() for part in parts))
    unknown = [part for part in parts if not any(part.lower() in kind.lower() for kind in Kind)]
    if unknown:
        raise InputError(f"no fault is called {', '.join(unknown)}; there are {', '.join(Kind)}")
    return found or DECK


def kinds_for(parts: Sequence[str], *, losses: bool) -> tuple[Kind, ...]:
    """The kinds with these words, with or without those in which Redis forgets."""
    found = tuple(kind for kind in kinds_named(parts) if losses or kind not in LOSSES)
    if not found:
        raise InputError(f"without {' and '.join(LOSSES)} no fault is left")
    return found
