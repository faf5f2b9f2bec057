"""A frontier in slots held against itself: jobs over all slots, keys slot by slot."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

import redis

from shoal.errors import RedisUnavailable
from shoal.frontier.audit import Audit, Recount, Stand
from shoal.frontier.scripts import Scripts, translated_errors
from shoal.frontier.shards import Faces
from shoal.frontier.slot import SlotFrontier
from shoal.frontier.slots import SLOTS, list_prefix, slot_of
from shoal.frontier.spread_jobs import SpreadJobs
from shoal.frontier.tag import name_of, parse_name

T = TypeVar("T")


class SpreadAudit(Audit):
    """What the reconciler asks a frontier in slots."""

    def __init__(
        self, control: redis.Redis, prefix: str, scripts: Scripts, slots: Faces[SlotFrontier], jobs: SpreadJobs
    ) -> None:
        """`scripts` are those of the list of jobs."""
        super().__init__(control, prefix, scripts)
        self._list = Audit(control, list_prefix(prefix), scripts)
        """The list of jobs alone."""
        self._slots = slots
        self._jobs = jobs

    def sections(self) -> dict[str, Audit]:
        """The list of jobs and each slot, as far as they are there."""
        found = self._slots.each_there(range(SLOTS), lambda slot: slot.audit)
        return {"": self._list, **{f"{slot:02d}": audit for slot, audit in found.items()}}

    def unanswered(self, ago: timedelta) -> set[str]:
        due: set[str] = set()
        for queues in self._slots.each_there(range(SLOTS), lambda slot: slot.audit.unanswered(ago)).values():
            due |= queues
        with translated_errors("unanswered"):
            return {queue for queue in due if not self._client.exists(f"{self._prefix}:ring:{queue}")}

    def stands(self, jobs: Sequence[str]) -> dict[str, Stand]:
        """Of jobs whose slots are all there."""
        whole, parts, found = self._list.stands(jobs), self._jobs.view.statuses(jobs), dict[str, Stand]()
        for job, stand in whole.items():
            if any(part.partial for part in parts[job]):
                continue
            sums = [
                (c.queued, c.delayed, c.leased, c.done, c.dead, c.dropped, c.seen)
                for c in (part.counters for part in parts[job])
            ]
            total = tuple(map(sum, zip(stand.sums, *sums, strict=True)))
            found[job] = Stand(stand.state, stand.open, total)
        return found

    def _recount(self, job: str, repairs: int, hosts: Iterable[str]) -> Recount | None:
        """Nothing, unless all of it is there."""
        named: dict[int, list[str]] = {slot: [] for slot in self._jobs.list.slots_of(job)}
        for host in hosts:
            named.setdefault(slot_of(host), []).append(host)
        name = self._name_of(job)
        if not name:
            return None
        try:
            parts = [
                self._one(slot, lambda each, some=some: each.recounted(name, repairs, some))
                for slot, some in named.items()
            ]
        except RedisUnavailable:
            return None
        counted = [part for part in parts if part is not None]
        if not counted:
            return Recount(ended=True) if repairs and self._jobs.ends.try_end(job) else None
        return Recount(
            sum(part.missing for part in counted),
            sum(part.surplus for part in counted),
            sum(part.hosts for part in counted),
            any(part.rejoined for part in counted),
            bool(repairs) and self._jobs.ends.try_end(job),
        )

    def _name_of(self, job: str) -> str:
        standing = self._jobs.list.lives([job]).get(job)
        return name_of(job, standing.life) if standing and not standing.ended else ""

    def _one(self, slot: int, do: Callable[[Audit], T]) -> T:
        return self._slots.on(slot, lambda each: do(each.audit), patience_s=0)

    def queued_hosts(self, job: str) -> list[str]:
        name = self._name_of(job)
        if not name:
            return []
        slots = self._jobs.list.slots_of(job)
        return sorted(host for slot in slots for host in self._one(slot, lambda each: each.queued_hosts(name)))

    def drop_job(self, job: str) -> None:
        self._list.drop_job(job)
        for slot, names in self._jobs.view.names()[0].items():
            for name in names:
                if parse_name(name)[0] == job:
                    self._slots.each_there([slot], lambda each, name=name: each.drop_name(name))

    def unlisted(self, jobs: Sequence[str]) -> list[str]:
        return self._list.unlisted(jobs)

    def listed_hosts(self, start: int, count: int) -> list[str]:
        """Of all slots, as many of each."""
        found = self._slots.each_there(range(SLOTS), lambda slot: slot.audit.listed_hosts(start, count))
        return [host for hosts in found.values() for host in hosts]

    def recount_hosts(self, hosts: Sequence[str]) -> int:
        named: dict[int, list[str]] = {}
        for host in hosts:
            named.setdefault(slot_of(host), []).append(host)
        wrong = 0
        for slot, some in named.items():
            found = self._slots.each_there([slot], lambda each, some=some: each.audit.recount_hosts(some))
            wrong += sum(found.values())
        return wrong
