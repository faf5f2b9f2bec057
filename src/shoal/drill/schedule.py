"""Which faults come when: drawn from the seed alone, and placed by the crawl's progress, not by the clock."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from shoal.core.frozen import frozen
from shoal.drill.kind import LOSSES, Kind
from shoal.drill.plan import Plan

FIRST, LAST = 0.08, 0.75
"""Faults come between these shares of the pages: the first must find work under way, the last some left."""


_SECONDS: dict[Kind, tuple[float, float]] = {
    Kind.KILL_WORKER: (0.1, 0.5),
    Kind.KILL_MAIN: (0.1, 0.5),
    Kind.KILL_CHILD: (0.0, 0.0),
    Kind.STOP_WORKER: (0.0, 0.1),
    Kind.FREEZE_WORKER: (1.0, 2.0),
    Kind.FREEZE_CHILD: (1.0, 2.0),
    Kind.KILL_REDIS: (0.1, 0.8),
    Kind.FREEZE_REDIS: (0.2, 1.5),
    Kind.LOCK_DATABASE: (0.3, 1.5),
    Kind.KILL_UNDER_LOCK: (0.4, 1.0),
    Kind.KILL_EVERYTHING: (0.0, 0.2),
    Kind.FLUSH_REDIS: (0.0, 0.0),
    Kind.CUT_REDIS: (0.0, 0.2),
}
"""How long each lasts, in leases; a killed process is started again after this time."""


@frozen
class Fault:
    """One fault to come."""

    kind: Kind
    at: float
    """When this share of the pages is stored."""
    worker: int
    """Which worker it hits, if it hits one."""
    seconds: float
    """How long it lasts."""
    depth: float = 0.0
    """How far back it throws Redis, from 0 to 1."""


def make_schedule(plan: Plan) -> list[Fault]:
    """The faults of a plan in their order; each kind comes once before any comes twice."""
    chance = Random(plan.seed)
    kinds = _deal(chance, plan.kinds, plan.faults)
    if plan.flush and kinds and not set(LOSSES) & set(kinds):
        kinds[len(kinds) // 2] = chance.choice(LOSSES)
    _put_losses_first(kinds)
    stride = (LAST - FIRST) / max(1, len(kinds))
    return [
        Fault(
            kind=kind,
            at=FIRST + stride * (number + chance.random()),
            worker=chance.randrange(plan.workers),
            seconds=chance.uniform(*_SECONDS[kind]) * plan.lease_s,
            depth=chance.random(),
        )
        for number, kind in enumerate(kinds)
    ]


def _put_losses_first(kinds: list[Kind]) -> None:
    """A rebuild finds again what a worker has settled and never stored; so no rebuild comes after the fault that shows
    whether one does.
    """
    places = [place for place, kind in enumerate(kinds) if kind in LOSSES or kind is Kind.KILL_UNDER_LOCK]
    ordered = sorted((kinds[place] for place in places), key=lambda kind: kind not in LOSSES)
    for place, kind in zip(places, ordered, strict=True):
        kinds[place] = kind


def _deal(chance: Random, kinds: Sequence[Kind], count: int) -> list[Kind]:
    dealt: list[Kind] = []
    while len(dealt) < count:
        deck = list(kinds)
        chance.shuffle(deck)
        dealt += deck
    return dealt[:count]
