"""Requests that were lost with a worker, in the hands of one process: a slot knows only of its own.

One of them may have killed its worker, so few are in one process at a time, and of those that are at their last chance
only one, with no other beside it. What a slot gives beyond that goes back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from shoal.core.model import Lease

COMPANY = 16
"""Requests that were lost once, in one process at a time."""
LAST_CHANCE = 2


@dataclass(slots=True)
class _Held:
    losses: int
    until: float
    """When the lease runs out, unless it is renewed."""


class Suspects:
    """Those that this process has."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], _Held] = {}
        """By group and index."""
        self._lock = threading.Lock()
        """A worker leases, renews and settles in several threads."""

    def refused(self, leases: Sequence[Lease], lease_for: timedelta) -> list[Lease]:
        """Those of new leases that must not be here now; the others are."""
        refused: list[Lease] = []
        for lease in leases:
            losses = lease.request.losses
            if not 0 < losses <= LAST_CHANCE:
                continue  # one that was lost too often is given up, and not fetched
            with self._lock:
                if self._trusts(losses):
                    until = time.monotonic() + lease_for.total_seconds()
                    self._held[lease.group, lease.index] = _Held(losses, until)
                else:
                    refused.append(lease)
        return refused

    def _trusts(self, losses: int) -> bool:
        now = time.monotonic()
        self._held = {key: held for key, held in self._held.items() if held.until > now}
        if any(held.losses == LAST_CHANCE for held in self._held.values()):
            return False
        return len(self._held) < (COMPANY if losses < LAST_CHANCE else 1)

    def renewed(self, groups: Collection[int], lease_for: timedelta) -> None:
        """Their leases last for so long from now on."""
        with self._lock:
            for (group, _), held in self._held.items():
                if group in groups:
                    held.until = time.monotonic() + lease_for.total_seconds()

    def gone(self, leases: Iterable[Lease]) -> None:
        """They are in other hands, or at their end."""
        if self._held:
            with self._lock:
                for lease in leases:
                    self._held.pop((lease.group, lease.index), None)
