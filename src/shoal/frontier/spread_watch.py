"""Looking at a frontier in slots as a whole: what is about hosts, summed up or put in order over all slots."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import zip_longest
from typing import Any

import redis

from shoal.core.advice import QueueSample
from shoal.core.fleet import Load, QueueDepth, ShardFigures
from shoal.core.host_status import HostStatus
from shoal.core.model import ALL_QUEUES
from shoal.core.trouble import Trouble
from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import JobList
from shoal.frontier.scripts import Scripts, translated_errors
from shoal.frontier.shards import Faces, Shards
from shoal.frontier.slots import SLOTS, list_prefix, slot_of
from shoal.frontier.tag import name_of
from shoal.frontier.watch import SAMPLED_HOSTS, Watch

EVERY = range(SLOTS)


def _watch(client: redis.Redis, prefix: str, _slot: int) -> Watch:
    return Watch(client, prefix)


class SpreadWatch(Watch):
    """What can be seen of a frontier in slots; those of servers that are away are left out."""

    def __init__(self, control: redis.Redis, prefix: str, shards: Shards, *, lasts: bool = False) -> None:
        """`lasts`: others go on with the shards, and know which of them are away."""
        super().__init__(control, prefix)
        self._lasts = lasts
        self._jobs_prefix = list_prefix(prefix)
        self._shards = shards
        self._slots = Faces(shards, _watch)
        self._workers = Faces(shards, lambda client, prefix, _: Scripts(client, prefix, shards.server_prefix))
        """As those call slots who change something there."""
        self._list = JobList(control, prefix)

    def close_connections(self) -> None:
        super().close_connections()
        if not self._lasts:
            self._shards.close()

    def shards(self) -> list[ShardFigures]:
        slots, found = self._shards.by_server(), list[ShardFigures]()
        for name in (*self._shards.names, *self._shards.unnamed):
            figures = ShardFigures(name, len(slots.get(name, ())), None)
            try:
                client = self._shards.present(name)
                with translated_errors("shards"):
                    figures = ShardFigures(name, figures.slots, int(client.info("memory")["used_memory"]))
            except RedisUnavailable as exc:
                self._shards.failed(name, exc)
            found.append(figures)
        return found

    def queues(self) -> list[QueueDepth]:
        found = self._slots.each_there(EVERY, lambda slot: slot.queues()).values()
        due = self._slots.each_there(EVERY, lambda slot: slot.due_jobs()).values()
        return [
            QueueDepth(
                queue,
                sum(depths[i].queued for depths in found),
                sum(depths[i].delayed for depths in found),
                sum(depths[i].leased for depths in found),
                len(set[str]().union(*(jobs[queue] for jobs in due))),
            )
            for i, queue in enumerate(ALL_QUEUES)
        ]

    def overdue(self) -> dict[str, timedelta]:
        found = self._slots.each_there(EVERY, lambda slot: slot.overdue()).values()
        return {queue: max((each[queue] for each in found), default=timedelta()) for queue in ALL_QUEUES}

    def samples(self, at_most: int = SAMPLED_HOSTS) -> list[QueueSample]:
        """Some of each slot: a host, with its bucket, is in one slot only."""
        each = max(1, at_most // SLOTS)
        found = self._slots.each_there(EVERY, lambda slot: slot.samples(each)).values()
        return [
            QueueSample(
                queue,
                tuple(host for samples in found for host in samples[i].hosts),
                sum(samples[i].retries for samples in found),
            )
            for i, queue in enumerate(ALL_QUEUES)
        ]

    def load(self) -> Load:
        """URLs that wait, and the memory of the fullest server; one question to each."""
        with translated_errors("load"):
            loads = [_load([], self._client.info("memory"))]
        for name, slots in self._shards.by_server().items():
            try:
                client = self._shards.present(name)
                with translated_errors("load"):
                    pipeline = client.pipeline(transaction=False)
                    for slot in slots:
                        self._shards.keys[slot].ask_for_load(pipeline, ALL_QUEUES)
                    pipeline.info("memory")
                    *depths, memory = pipeline.execute()
            except RedisUnavailable as exc:
                self._shards.failed(name, exc)
                continue
            loads.append(_load(depths, memory))
        fullest = max(loads, key=lambda load: load.memory / (load.memory_limit or 1 << 62))
        return Load(sum(load.urls for load in loads), fullest.memory, fullest.memory_limit)

    def ping(self) -> None:
        """The control Redis and at least one shard answer."""
        super().ping()
        problem: RedisUnavailable | None = None
        for name in self._shards.names:
            try:
                client = self._shards.present(name)
                with translated_errors("ping"):
                    client.ping()
            except RedisUnavailable as exc:
                self._shards.failed(name, exc)
                problem = exc
            else:
                return
        if problem:
            raise problem

    def stats(self) -> dict[str, int]:
        return _summed(super().stats(), *self._slots.each_there(EVERY, lambda slot: slot.stats()).values())

    def counted(self) -> dict[str, int]:
        return _summed(super().counted(), *self._slots.each_there(EVERY, lambda slot: slot.counted()).values())

    def expired_leases(self) -> int:
        return sum(self._slots.each_there(EVERY, lambda slot: slot.expired_leases()).values())

    def troubles(self) -> tuple[Trouble, ...]:
        for name in self._shards.names:
            try:
                client = self._shards.present(name)
                with translated_errors("ping"):
                    client.ping()
            except RedisUnavailable as exc:
                self._shards.failed(name, exc)
        self._shards.table()
        return (*super().troubles(), *self._shards.troubles())

    def hosts(self, limit: int, before: tuple[int, str] | None = None) -> list[HostStatus]:
        found = self._slots.each_there(EVERY, lambda slot: slot.hosts(limit, before)).values()
        every = [host for hosts in found for host in hosts]
        return sorted(every, key=lambda host: (host.seen_ms, host.host), reverse=True)[:limit]

    def host(self, host: str) -> HostStatus | None:
        return self._slots.on(slot_of(host), lambda slot: slot.host(host))

    def reaches(self, host: str) -> bool:
        """Also False for one that takes no word: its server was started anew, or its slot is on its way."""
        try:
            self._workers.on(slot_of(host), lambda each: each.call("show_hosts", [host]), patience_s=0)
        except RedisUnavailable:
            return False
        return True

    def waiting_hosts(self, job: str, at_most: int) -> list[str]:
        standing = self._list.lives([job]).get(job)
        if standing is None:
            return []
        name = name_of(job, standing.life)
        found = self._slots.each_there(EVERY, lambda slot: slot.waiting_hosts(name, at_most)).values()
        turns = zip_longest(*found)
        return [host for turn in turns for host in turn if host is not None][:at_most]


def _load(depths: Sequence[Sequence[str | None]], memory: Mapping[str, Any]) -> Load:
    urls = sum(int(count or 0) for depth in depths for count in depth)
    return Load(urls, int(memory["used_memory"]), int(memory.get("maxmemory", 0)))


def _summed(*parts: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found
