"""Leases from a frontier in slots: a share from each slot that has work, of jobs that the list says are running."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from shoal.core.model import JobState, Lease, LeaseBatch
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.shards import Faces
from shoal.frontier.slot import SlotFrontier
from shoal.frontier.slots import SLOTS
from shoal.frontier.spread_jobs import SpreadJobs
from shoal.frontier.suspects import Suspects
from shoal.frontier.tag import parse_name
from shoal.frontier.wire import Glance

SHARES = 4
"""So many slots, if they have work, share what one lease asks for;"""
LEAST_SHARE = 64
"""but each call of a slot, which costs as much as a few pages, is for so many, or for half of them."""

T = TypeVar("T")


@dataclass(slots=True)
class _Order:
    """What a worker wants, and what it has got of it."""

    queues: Sequence[str]
    limit: int
    lease_for: timedelta
    most: dict[str, int]
    unproven: int
    taken: list[Lease] = field(default_factory=list[Lease])

    @property
    def left(self) -> int:
        return self.limit - len(self.taken)

    def lease(self, wanted: int, slot: Frontier) -> LeaseBatch:
        """So many at the most, from one slot."""
        batch = slot.lease(
            queues=self.queues, limit=wanted, lease_for=self.lease_for, most=self.most, unproven=self.unproven
        )
        self.taken += batch.leases
        for lease in batch.leases:
            if lease.queue in self.most:
                self.most[lease.queue] -= 1
        return batch


class Leasing:
    """Who takes leases for one process."""

    def __init__(self, jobs: SpreadJobs, slots: Faces[SlotFrontier], suspects: Suspects) -> None:
        self._jobs = jobs
        self._slots = slots
        self._suspects = suspects
        self._runs: dict[int, str] = {}

    def lease(
        self, queues: Sequence[str], limit: int, lease_for: timedelta, most: dict[str, int], unproven: int
    ) -> LeaseBatch:
        """What may be fetched now. Raises RedisUnavailable, with nothing in hand, when nobody can tell whose it is."""
        glances = self._jobs.view.glances(queues)
        if not glances:
            raise RedisUnavailable("no shard of the frontier answers")
        order = _Order(queues, limit, lease_for, most, unproven)
        waits = {slot: min(glance.waits.values(), default=None) for slot, glance in glances.items()}
        batches = self._lease_in_turn(order, _in_turn(glances, queues))
        try:
            order.taken = self._of_living(order.taken)
            self._jobs.note_starts(order.taken)
        except RedisUnavailable:
            self._give_back(order.taken)  # nobody can tell whose they are
            raise
        if refused := self._suspects.refused(order.taken, lease_for):
            order.taken = [lease for lease in order.taken if lease not in refused]
            self._give_back(refused)
        waits |= {slot: batch.next_due for slot, batch in batches.items()}
        self._runs |= {slot: batch.server for slot, batch in batches.items()}
        next_due = min((wait for wait in waits.values() if wait is not None), default=None)
        return LeaseBatch(
            tuple(replace(lease, job=parse_name(lease.job)[0]) for lease in order.taken),
            next_due,
            sum(glance.expired for glance in glances.values()),
            self._ended_by(batches.values()),
            " ".join(sorted(set(self._runs.values()))),
            trusted=all(batch.trusted for batch in batches.values()),
        )

    def _lease_in_turn(self, order: _Order, slots: Sequence[int]) -> dict[int, LeaseBatch]:
        """From each a share, so that no slot's jobs wait for another's; then once more from those that have more."""
        share, batches = max(min(LEAST_SHARE, order.limit // 2), -(-order.limit // SHARES)), dict[int, LeaseBatch]()
        while slots and order.left:
            generous: list[int] = []
            for slot in slots:
                wanted = min(share, order.left)
                if not wanted:
                    break
                with suppress(RedisUnavailable):
                    batch = self._slots.on(slot, partial(order.lease, wanted), tries=1, patience_s=0)
                    earlier = batches[slot].ended if slot in batches else ()
                    batches[slot] = replace(batch, ended=(*earlier, *batch.ended))
                    if len(batch.leases) == wanted:
                        generous.append(slot)
            slots, share = generous, order.limit
        return batches

    def _of_living(self, taken: list[Lease]) -> list[Lease]:
        """Those of the present lives of jobs that run; a slot that was away may give others."""
        names = {lease.job for lease in taken}
        states = self._jobs.current(names)
        if all(states.get(name) == JobState.RUNNING for name in names):
            return taken
        others = [lease for lease in taken if states.get(lease.job) != JobState.RUNNING]
        self._give_back(others)
        for slot, name in {(of_group(lease.group), lease.job) for lease in others}:
            with suppress(RedisUnavailable):  # until somebody who keeps house has seen to it
                self._slots.on(slot, lambda each, name=name: each.follow_state(name, "paused"), patience_s=0)
        return [lease for lease in taken if states.get(lease.job) == JobState.RUNNING]

    def _give_back(self, leases: Sequence[Lease]) -> None:
        for slot, some in by_slot(leases, lambda each: of_group(each.group)).items():
            with suppress(RedisUnavailable):  # else they run out
                self._slots.on(slot, lambda each, some=some: each.release(some), patience_s=0)

    def _ended_by(self, batches: Iterable[LeaseBatch]) -> tuple[str, ...]:
        with suppress(RedisUnavailable):  # else the end is found by who keeps house
            names = [name for batch in batches for name in batch.ended]
            self._jobs.check_seconds(names)
            return self.ended(names)
        return ()

    def ended(self, quiet: Iterable[str]) -> tuple[str, ...]:
        """Those of the jobs of which a slot has nothing left that have come to their end by this."""
        jobs = dict.fromkeys(parse_name(name)[0] for name in quiet)
        return tuple(job for job in jobs if self._jobs.ends.try_end(job))


def _in_turn(glances: Mapping[int, Glance], queues: Sequence[str]) -> list[int]:
    """Slots with something due, the most urgent queues first; among equals, everybody begins with another one."""
    due = {slot: queues.index(glance.due[0]) for slot, glance in glances.items() if glance.due}
    return sorted(due, key=lambda slot: (due[slot], random.random()))


def by_slot(things: Iterable[T], slot: Callable[[T], int]) -> dict[int, list[T]]:
    """Slot → what belongs there."""
    found: dict[int, list[T]] = {}
    for thing in things:
        found.setdefault(slot(thing), []).append(thing)
    return found


def of_group(group: int) -> int:
    """The slot that gave this number to a lease group."""
    return group % SLOTS
