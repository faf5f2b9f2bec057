"""Trouble: something that Shoal needs and a worker cannot use at the moment."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from shoal.core.frozen import frozen

MAX_MESSAGE = 200


class Need(StrEnum):
    """What Shoal cannot work without."""

    REDIS = "redis"
    DATABASE = "database"
    ARCHIVE = "archive"


@frozen
class Trouble:
    """What a worker process waits for."""

    what: Need
    message: str
    """For people: why."""
    lasted_ms: int
    """Until the moment when it was asked for; 0 when nobody knows since when."""
    worker: str = ""
    """The process that met it."""


def gist(error: BaseException) -> str:
    """The first line of an error, for a place where there is one line."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:MAX_MESSAGE]


def worst(troubles: Iterable[Trouble]) -> list[tuple[Trouble, int]]:
    """Of each kind the one that lasts longest, and how many processes have met it; the longest first."""
    found: dict[Need, list[Trouble]] = {}
    for trouble in troubles:
        found.setdefault(trouble.what, []).append(trouble)
    longest = [(max(of_kind, key=_lasted), len({each.worker for each in of_kind})) for of_kind in found.values()]
    return sorted(longest, key=lambda pair: -pair[0].lasted_ms)


def explain(troubles: Iterable[Trouble]) -> str | None:
    """Why the work pauses, in a line; None when it does not."""
    return "; ".join(_paused(trouble, many) for trouble, many in worst(troubles)) or None


def _paused(trouble: Trouble, many: int) -> str:
    lasted = f" for {trouble.lasted_ms // 1000} s" if trouble.lasted_ms else ""
    return f"paused{lasted}: {trouble.message}" + (f" ({many} processes)" if many > 1 else "")


def _lasted(trouble: Trouble) -> int:
    return trouble.lasted_ms
