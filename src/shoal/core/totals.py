"""What became of all that a job has discovered, in one equation.

Discovered is the sum of fetched, failed, filtered, robots, duplicates and pending, at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, fields
from typing import TYPE_CHECKING

from shoal.core.frozen import frozen
from shoal.core.model import Outcome

if TYPE_CHECKING:
    from shoal.core.job_status import Counters


@frozen
class Totals:
    """Every URL that was submitted or found, each time that it was, and what became of it."""

    discovered: int
    fetched: int
    """Stored, redirects among them."""
    failed: int
    """Given up: the dead letters."""
    filtered: int
    """Left out by scope, patterns or budgets, or dropped when the job was cancelled."""
    robots: int
    """Refused by robots.txt, or by the page itself (noindex)."""
    duplicates: int
    """Met again."""
    pending: int
    """Waiting, or being fetched."""

    @classmethod
    def of(cls, counters: Counters, reasons: Mapping[str, int]) -> Totals:
        """From the sums, and the outcomes by reason, which alone know robots.txt."""
        robots = sum(count for name, count in reasons.items() if name.startswith(f"{Outcome.ROBOTS.value}:"))
        return cls(
            discovered=counters.seen + counters.duplicates,
            fetched=counters.done,
            failed=counters.dead,
            filtered=counters.filtered + counters.dropped - robots,
            robots=robots,
            duplicates=counters.duplicates,
            pending=counters.pending,
        )

    @property
    def reconciles(self) -> bool:
        """Does the equation hold, with nothing below zero?"""
        discovered, *parts = astuple(self)
        return discovered == sum(parts) and min(parts) >= 0

    def __str__(self) -> str:
        parts = " + ".join(f"{getattr(self, each.name):,} {each.name}" for each in fields(self)[1:])
        return f"{self.discovered:,} discovered {'=' if self.reconciles else '≠'} {parts}"

    @property
    def as_json(self) -> dict[str, int]:
        return {each.name: getattr(self, each.name) for each in fields(self)}
