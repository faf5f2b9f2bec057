"""The frontier's sums as counters: they never fall, but begin at zero with each run of the server.

A server that was started again may have lost its last counts. Whoever computes rates takes a counter that has fallen a
little for one that began anew and has come that far already, and sees a million pages within ten seconds. So where the
counters begin is written down beside them, once for each run, the same for everybody who reads them.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import redis

from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import translated_errors

OUTAGE = "outage"
"""How often workers had to wait begins with this word, and a colon."""
_RUN = "run"


class Counters:
    """Sums over all jobs since the server of one frontier was started."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def read(self) -> dict[str, int]:
        """Name → count."""
        with translated_errors("counters"):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hgetall(f"{self._prefix}:stats")
            pipeline.hgetall(f"{self._prefix}:outages")
            pipeline.hgetall(f"{self._prefix}:base")
            pipeline.info("server")
            stats, outages, base, server = cast("tuple[dict[str, str], ...]", tuple(pipeline.execute()))
        sums = _numbers(stats) | {f"{OUTAGE}:{name}": count for name, count in _numbers(outages).items()}
        start = self._start(sums, base, str(cast("dict[str, Any]", server)["run_id"]))
        return {name: max(0, count - start.get(name, 0)) for name, count in sums.items()}

    def _start(self, sums: dict[str, int], base: dict[str, str], run: str) -> Mapping[str, int]:
        """Where they began. A frontier that nobody has read yet began at zero; another run of the server begins now."""
        known = base.pop(_RUN, None)
        if known == run:
            return _numbers(base)
        start = sums if known else {}
        with suppress(RedisUnavailable), translated_errors("counters"):  # refused for now: they stay at zero until then
            pipeline = self._client.pipeline(transaction=True)
            pipeline.delete(f"{self._prefix}:base")
            pipeline.hset(f"{self._prefix}:base", mapping={**start, _RUN: run})
            pipeline.execute()
        return start


def _numbers(values: Mapping[str, str]) -> dict[str, int]:
    return {name: int(count) for name, count in values.items()}
