"""What becomes of a page or an item from one run to the next, and how often that is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MOST_HOSTS = 1_000
"""Of which there are sums; further ones are one."""
OTHERS = "(others)"


class Kind(StrEnum):
    """What became of it."""

    NEW = "new"
    CHANGED = "changed"
    GONE = "gone"
    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"
    """Nobody can tell: one of both runs has not reached it, or has not kept what it said."""


@dataclass(slots=True)
class Sums:
    """How often; complete when all changes have been read."""

    kinds: Counter[str] = field(default_factory=Counter[str])
    whys: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    hosts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    fields: Counter[str] = field(default_factory=Counter[str])
    """Of items: how often each field changed."""

    @property
    def differs(self) -> bool:
        return any(self.kinds[kind] for kind in (Kind.NEW, Kind.CHANGED, Kind.GONE))

    @property
    def total(self) -> int:
        return self.kinds.total()

    def note(self, kind: Kind, host: str, why: str) -> None:
        self.kinds[kind.value] += 1
        if why:
            self.whys.setdefault(kind.value, Counter())[why] += 1
        name = host if host in self.hosts or len(self.hosts) < MOST_HOSTS else OTHERS
        self.hosts.setdefault(name, Counter())[kind.value] += 1

    @property
    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            **{kind.value: self.kinds[kind.value] for kind in Kind},
            "why": {kind: dict(whys) for kind, whys in self.whys.items()},
            "hosts": {host: dict(kinds) for host, kinds in self.hosts.items()},
            "fields": dict(self.fields.most_common()),
        }
