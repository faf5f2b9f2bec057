"""Where a URL of a job is at this moment: queued, delayed, leased, or only seen. Changes nothing.

A request is in one place, but moves while it is looked for: from a queue into a lease, from there to its end, or to the
delayed, and back. The places are looked at in this order, so who goes its way is met; who went back is met the second
time. Queues are lists, in which nobody can look a URL up: they are looked through from their end, some entries a call.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import cast

import redis

from shoal.core.frozen import frozen
from shoal.core.model import JobState, Request
from shoal.core.url import Url
from shoal.frontier.entry import RENDER, decode, decode_record
from shoal.frontier.scripts import Scripts, connect, translated_errors

ENTRIES_AT_ONCE = 5_000
"""Entries of a queue that one call looks at: a few milliseconds in which nobody else is served."""
MOST_ENTRIES = 1_000_000
"""Of one level of a host's queue, the last that came."""
MOST_GROUPS = 5_000
"""Lease groups, the first to run out."""
GROUPS_AT_ONCE = 50
MOST_DELAYED = 1_000_000
DELAYED_AT_ONCE = 1_000
LOOKS = 2
"""Through all places."""
_FLAG = {"http": "h", "https": "s"}


class Where(StrEnum):
    """The places in which a request is not finished."""

    QUEUED = "queued"
    DELAYED = "delayed"
    LEASED = "leased"


@frozen
class Found:
    """A request, and its place."""

    where: Where
    request: Request
    before: int = 0
    """Of a queued one: how many of its host and job come before it."""
    until_ms: int = 0
    """Of a delayed one, when it is due; of a leased one, when the lease runs out."""
    holder: str = ""
    """Of a leased one: the process that has it."""


@frozen
class Sighting:
    """What the frontier knows of a URL in a job."""

    now_ms: int
    state: JobState | None
    """Of the job; None when the frontier does not know it."""
    seen: bool = False
    rebuilding: bool = False
    """The job is on its way back: what it has seen is not complete."""
    ready_ms: float | None = None
    """When the host may next be asked for this job; infinite when an operator has paused it, None without a queue."""
    queued: int = 0
    """Requests of the job that wait for this host."""
    unsearched: bool = False
    """It may be in a queue that is too long to be looked through."""
    budget: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the job, and the host within it, have used of budgets."""
    found: Found | None = None


class Whereabouts:
    """Looks for URLs in one frontier."""

    def __init__(self, client: redis.Redis, prefix: str = "shoal") -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = Scripts(client, prefix)

    @classmethod
    def at(cls, url: str, prefix: str = "shoal") -> Whereabouts:
        return cls(connect(url), prefix)

    def close_connections(self) -> None:
        self._client.close()

    def look(self, job: str, url: Url, *, wait: bool = True) -> Sighting:
        """What is known of a URL; unless somebody knows its end (`wait`), it is looked for."""
        answer = self._scripts.call("look_up", [job, url.fingerprint, url.host])
        now, state, seen, rebuild, places, lengths, budget = answer
        if not state:
            return Sighting(int(now), None)
        waiting = [float(at) for at in cast("list[str]", places) if at != ""]
        queued = [int(length) for length in cast("list[int]", lengths)]
        return Sighting(
            int(now),
            JobState(state),
            bool(seen),
            bool(rebuild),
            min(waiting, default=None),
            sum(queued),
            max(queued) > MOST_ENTRIES,
            dict(zip(budget[::2], budget[1::2], strict=True)),
            self._find(job, url, queued) if seen and wait else None,
        )

    def _find(self, job: str, url: Url, lengths: Sequence[int]) -> Found | None:
        for again in range(LOOKS):
            queued = self._queued(job, url, lengths, everywhere=again > 0)
            if found := queued or self._leased(job, url) or self._delayed(job, url):
                return found
        return None

    def _queued(self, job: str, url: Url, lengths: Sequence[int], *, everywhere: bool) -> Found | None:
        """In the levels that had entries, or `everywhere`: what was empty may not be so any more."""
        for level, length in enumerate(lengths):
            if (length or everywhere) and (found := self._in_level(job, url, level)):
                place, entry = found
                ahead = sum(lengths[RENDER if level >= RENDER else 0 : level])  # each half has its own queues
                return Found(Where.QUEUED, decode(url.host, level, entry), before=ahead + place)
        return None

    def _in_level(self, job: str, url: Url, level: int) -> tuple[int, str] | None:
        """(entries of the level before it, the entry)"""
        for looked_at in range(0, MOST_ENTRIES, ENTRIES_AT_ONCE):
            args = [job, url.host, level, _FLAG[url.scheme], url.target, looked_at, ENTRIES_AT_ONCE]
            place, entry, left = self._scripts.call("find_entry", args)
            if entry:
                return int(place), str(entry)
            if not left:
                return None
        return None

    def _leased(self, job: str, url: Url) -> Found | None:
        with translated_errors("leases"):
            found = self._client.zrange(f"{self._prefix}:leases", 0, MOST_GROUPS - 1, withscores=True)
            groups = cast("list[tuple[str, float]]", found)
            for start in range(0, len(groups), GROUPS_AT_ONCE):
                some = groups[start : start + GROUPS_AT_ONCE]
                pipeline = self._client.pipeline(transaction=False)
                for group, _ in some:
                    pipeline.hvals(f"{self._prefix}:lease:{group}")
                for (group, until), records in zip(some, pipeline.execute(), strict=True):
                    if request := _among(records, job, url):
                        holder = cast("str | None", self._client.get(f"{self._prefix}:holder:{group}"))
                        return Found(Where.LEASED, request, until_ms=int(until), holder=holder or "")
        return None

    def _delayed(self, job: str, url: Url) -> Found | None:
        target = re.sub(r"([*?\[\]\\])", r"\\\1", url.target)
        pattern = f"{job} {url.host} ? {_FLAG[url.scheme]}*{target}*"
        with translated_errors("delayed"):
            for record, due in self._scan_delayed(job, pattern):
                if request := _among([record], job, url):
                    return Found(Where.DELAYED, request, until_ms=int(due))
        return None

    def _scan_delayed(self, job: str, pattern: str) -> Iterator[tuple[str, float]]:
        cursor = 0
        for _ in range(MOST_DELAYED // DELAYED_AT_ONCE):
            cursor, some = cast(
                "tuple[int, list[tuple[str, float]]]",
                self._client.zscan(f"{self._prefix}:delayed:{job}", cursor, pattern, DELAYED_AT_ONCE),
            )
            yield from some
            if not int(cursor):
                return


def _among(records: Iterable[str], job: str, url: Url) -> Request | None:
    start = f"{job} {url.host} "
    for record in records:
        if record.startswith(start) and url.target in record:
            _, request = decode_record(record)
            if request.url == url:
                return request
    return None
