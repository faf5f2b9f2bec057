"""The workers of a frontier: who is alive, and what they have done.

A worker that does not say so again is forgotten: who dies leaves nothing behind.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import orjson
import redis

from shoal.core.fleet import WorkerBeat
from shoal.frontier.scripts import translated_errors
from shoal.frontier.wire import ms

BEAT_LIFETIME = timedelta(seconds=20)
"""A worker that is silent for this long is taken for dead."""
REFUSALS = ("too_large", "not_json", "content_type", "malformed", "unknown_task", "arguments")
"""Why a worker did not take a message of the broker for a doorbell."""

DRIFTED = "drift"
"""Sums about runs that differ from earlier ones begin with this word."""


class Crew:
    """What workers tell about themselves."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def heartbeat(self, beat: WorkerBeat, lifetime: timedelta = BEAT_LIFETIME) -> None:
        """A worker lives; unless it says so again it is forgotten after `lifetime`."""
        with translated_errors("heartbeat"):
            worker = beat.name
            seconds, _ = self._client.time()
            pipeline = self._client.pipeline(transaction=True)
            pipeline.set(f"{self._prefix}:worker:{worker}", orjson.dumps(asdict(beat)), ex=lifetime)
            pipeline.zadd(f"{self._prefix}:workers", {worker: seconds * 1000 + ms(lifetime)})
            pipeline.zremrangebyscore(f"{self._prefix}:workers", "-inf", seconds * 1000)
            pipeline.execute()

    def depart(self, worker: str) -> None:
        """A worker has stopped."""
        with translated_errors("depart"):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.delete(f"{self._prefix}:worker:{worker}")
            pipeline.zrem(f"{self._prefix}:workers", worker)
            pipeline.execute()

    def count(self, what: str, times: int = 1) -> None:
        """One more, or several, in the frontier's sums, such as `slices`."""
        with translated_errors("stats"):
            self._client.hincrby(f"{self._prefix}:stats", what, times)

    def count_slice(self) -> None:
        """One more slice was run."""
        self.count("slices")

    def count_restart(self, reason: str) -> None:
        """A worker, or a process of one, had to be started again."""
        self.count(f"restarts:{reason}")

    def count_refused(self, reason: str, times: int) -> None:
        """So many messages of the broker were not doorbells, and were dropped."""
        self.count(f"refused:{reason}", times)
