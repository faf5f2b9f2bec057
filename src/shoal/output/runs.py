"""The runs of a place: each is written down before its first file, as whole before the pointer moves, and the oldest
are removed when a new one is there.

A run is one folder, which nobody else writes to. It is removed as a whole, and only when the pointer is at a newer run:
what is older than that can never be pointed to again. One that is still delivered is never removed: those of this
database are known by their deliveries, those of others by the time of their last part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, cast

import orjson

from shoal.core.frozen import frozen, values_of
from shoal.errors import PlaceUnavailable
from shoal.output.place import Store
from shoal.output.publishing import LATEST, SWAP_TRIES, Order, Run, read_latest

RUNS = ".shoal-runs.json"
GRACE_S = 3_600
"""A reader who has read the pointer finds the set for at least so long after the pointer has moved."""
MOST_RUNS = 1_000
"""That are known of a place: of more than these, old ones are removed without a grace."""
TOUCH_S = 300
"""Between two notes that a run is still delivered."""
_NAME = re.compile(r"[a-z0-9]{1,40}(-[0-9]{1,10}-[A-Za-z0-9][A-Za-z0-9._-]{0,39})?")


@frozen
class Known:
    """A run that has files in the place."""

    run: str
    order: Order
    complete: bool = False
    """Was it ever a whole set?"""
    idle_ms: int | None = None
    """Since when nobody is pointed to it, as far as anybody has looked; of one that is not whole, its last part."""


BeingDelivered = Callable[[Collection[Order]], Collection[Order]]
"""Which of these are still delivered, as far as the database knows."""


def note_run(store: Store, run: Run, now_ms: int) -> None:
    """Write down that a run puts files there, and still does."""

    def with_it(known: list[Known]) -> list[Known]:
        mine = next((each for each in known if each.run == run.name), None)
        if mine is None:
            return [*known, Known(run.name, run.order, idle_ms=now_ms)]
        fresh = mine.idle_ms is not None and now_ms - mine.idle_ms < TOUCH_S * 1_000
        return known if mine.complete or fresh else _with(known, replace(mine, idle_ms=now_ms))

    _change(store, with_it)


def note_complete(store: Store, run: Run) -> None:
    """Write down that all files of a run are there, and that readers may be pointed to it from now on."""

    def with_it(known: list[Known]) -> list[Known]:
        return _with(known, Known(run.name, run.order, complete=True))

    _change(store, with_it)


def remove_old(store: Store, keep: int, now_ms: int, being_delivered: BeingDelivered) -> int:
    """Keep so many whole runs, and remove the others; returns how many were removed."""
    removed = 0

    def without_old(known: list[Known]) -> list[Known]:
        nonlocal removed
        found = store.get(LATEST)
        latest = read_latest(found[0]) if found else None
        if latest is None:
            return known
        known = [_looked_at(each, latest.run, now_ms) for each in known]
        old = _old_ones(known, latest.run, latest.order, keep, now_ms)
        alive = being_delivered([each.order for each in old]) if old else ()
        old = [each for each in old if each.order not in alive]
        for each in old:
            store.remove_run(each.run)
        removed = len(old)
        return [each for each in known if each not in old]

    _change(store, without_old)
    return removed


def _with(known: list[Known], mine: Known) -> list[Known]:
    if any(each.run == mine.run for each in known):
        return [mine if each.run == mine.run else each for each in known]
    return [*known, mine]


def _looked_at(each: Known, latest: str, now_ms: int) -> Known:
    idle_ms = None if each.run == latest else now_ms if each.idle_ms is None else each.idle_ms
    return replace(each, complete=each.complete or each.run == latest, idle_ms=idle_ms)


def _old_ones(known: list[Known], latest: str, order: Order, keep: int, now_ms: int) -> list[Known]:
    """Older than what is pointed to, not among the last whole ones, and not looked at by a reader any more."""
    older = sorted((each for each in known if each.order < order and each.run != latest), key=lambda each: each.order)
    kept = {each.run for each in [each for each in older if each.complete][-(keep - 1) :]} if keep > 1 else set[str]()
    since_ms = now_ms - GRACE_S * 1_000
    crowd = len(known) - MOST_RUNS
    return [
        each
        for place, each in enumerate(older)
        if each.run not in kept
        and ((place < crowd and each.complete) or (each.idle_ms is not None and each.idle_ms <= since_ms))
    ]


def _change(store: Store, change: Callable[[list[Known]], list[Known]]) -> None:
    for _ in range(SWAP_TRIES):
        found = store.get(RUNS)
        known = _read(found[0]) if found else []
        changed = change(known)
        if changed == known or store.swap(RUNS, _text(changed), found[1] if found else None):
            return
    raise PlaceUnavailable(f"{RUNS} was changed by others {SWAP_TRIES} times in a row")


def _text(known: list[Known]) -> bytes:
    return orjson.dumps(
        {"runs": [values_of(each) for each in known]},
        option=orjson.OPT_INDENT_2,
    )


def _read(text: bytes) -> list[Known]:
    """What is no word of ours is nothing that may be removed."""
    try:
        listed: list[Any] = orjson.loads(text)["runs"]
        return [_known(cast("dict[str, Any]", each)) for each in listed if _NAME.fullmatch(str(each["run"]))]
    except (ValueError, TypeError, KeyError):
        return []


def _known(values: dict[str, Any]) -> Known:
    created, job, number = values["order"]
    idle_ms = values["idle_ms"]
    order = (int(created), str(job), int(number))
    return Known(str(values["run"]), order, bool(values["complete"]), None if idle_ms is None else int(idle_ms))
