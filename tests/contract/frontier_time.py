"""Time passes in a frontier: every moment that stands in Redis is set back, for its clock cannot be set forward."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from typing import Any, cast

import redis

from shoal.core.model import ALL_QUEUES, Lease
from shoal.frontier.frontier import Frontier
from tests.contract.frontier_calls import MINUTE, settle
from tests.contract.keyspace import classify, key_names

_TIMETABLES = {"ready", "lag", "render", "delayed", "due", "due_jobs", "leases", "hosts"}
_OF_A_HOST = (
    *("slot", "hold", "probe_at", "gone", "quiet", "cut_at"),
    *("pace_at", "robots_at", "top_at", "met", "listed"),
)
_OF_A_JOB = {"created", "started", "deadline", "paused", "ended", "since", "mark"}
_SET_BACK = """
local h = cmsgpack.unpack(redis.call('GET', KEYS[1]))
for i = 2, #ARGV do
  if h[ARGV[i]] then h[ARGV[i]] = h[ARGV[i]] - tonumber(ARGV[1]) end
end
redis.call('SET', KEYS[1], cmsgpack.pack(h), 'KEEPTTL')
"""
_SPENT = ("s ", "t ")
"""Moments among what a job has spent: a host's first lease, and its next slot."""


class Clock:
    """The clock of one frontier."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client: Any = client
        self._prefix = prefix
        self._began = time.monotonic()
        self._passed_s = 0.0

    @property
    def now(self) -> float:
        """Seconds since this clock was made: what was let pass, and what the test itself took."""
        return self._passed_s + time.monotonic() - self._began

    def let_pass(self, duration: timedelta | float) -> None:
        """So much time, or so many seconds, and nothing happens meanwhile."""
        ms = duration / timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration * 1000
        self._passed_s += ms / 1000
        families = [(key, classify(key, self._prefix)[0].name) for key in key_names(self._client, self._prefix)]
        tables = [key for key, family in families if family in _TIMETABLES]
        hashes = [(key, family) for key, family in families if family in ("job", "spend")]
        reading = self._client.pipeline(transaction=True)
        for key in tables:
            reading.zrange(key, 0, -1, withscores=True)
        for key, _ in hashes:
            reading.hgetall(key)
        found = reading.execute()
        writing = self._client.pipeline(transaction=True)
        for key, members in zip(tables, found[: len(tables)], strict=True):
            if members:
                writing.zadd(key, {member: score - ms for member, score in members})
        for key in (key for key, family in families if family == "host"):
            writing.eval(_SET_BACK, 1, key, ms, *_OF_A_HOST)
        for (key, family), values in zip(hashes, found[len(tables) :], strict=True):
            if changed := _set_back(family, cast("dict[str, str]", values), ms):
                writing.hset(key, mapping=changed)
        writing.execute()


def _set_back(family: str, values: dict[str, str], ms: float) -> dict[str, str]:
    """A job's moments are whole milliseconds."""
    moments = {name for name in values if (name in _OF_A_JOB if family == "job" else name.startswith(_SPENT))}
    return {name: f"{float(values[name]) - ms:.{3 * (family == 'spend')}f}" for name in moments}


def crawl(
    frontier: Frontier, clock: Clock, duration: float, *, step: float = 0.05, limit: int = 100, holding: bool = False
) -> Counter[str]:
    """One worker crawls for so many seconds, and every page takes one step: job → pages."""
    shares: Counter[str] = Counter()
    held: list[Lease] = []
    for _ in range(round(duration / step)):
        if not holding:
            settle(frontier, held)
            held = []
        got = frontier.lease(queues=ALL_QUEUES, limit=limit, lease_for=MINUTE).leases
        shares.update(lease.job for lease in got)
        held += got
        clock.let_pass(step)
    if not holding:
        settle(frontier, held)
    return shares
