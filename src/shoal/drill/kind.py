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
    KILL_EVERYTHING = "kill -9 everything"
    FLUSH_REDIS = "FLUSHALL"

    @property
    def hits_worker(self) -> bool:
        """Others can go on meanwhile."""
        return self in _WORKER_FAULTS


_WORKER_FAULTS = frozenset(
    (Kind.KILL_WORKER, Kind.KILL_MAIN, Kind.KILL_CHILD, Kind.STOP_WORKER, Kind.FREEZE_WORKER, Kind.FREEZE_CHILD)
)
DECK = tuple(kind for kind in Kind if kind is not Kind.FLUSH_REDIS)
"""What a drill draws from unless it is told otherwise."""


def kinds_named(parts: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds whose names contain one of these words; all of the deck when there are none."""
    found = tuple(kind for kind in Kind if any(part.lower() in kind.lower() for part in parts))
    unknown = [part for part in parts if not any(part.lower() in kind.lower() for kind in Kind)]
    if unknown:
        raise InputError(f"no fault is called {', '.join(unknown)}; there are {', '.join(Kind)}")
    return found or DECK
