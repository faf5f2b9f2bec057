"""A memory of one process that does not grow without end."""

from __future__ import annotations

from typing import Any, TypeVar

MOST_KNOWN = 10_000

T = TypeVar("T")


def remember(memory: dict[Any, T], key: object, value: T) -> None:
    """What was remembered first is forgotten first."""
    if len(memory) >= MOST_KNOWN and key not in memory:
        del memory[next(iter(memory))]
    memory[key] = value
