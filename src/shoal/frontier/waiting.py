"""Which of its hosts a job has to wait for. Changes nothing."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from typing import cast

import redis

from shoal.frontier.scripts import connect, translated_errors

LOOK_AT_MOST = 50


class Waiting:
    """The places of jobs that may not be asked for at this moment."""

    def __init__(self, client: redis.Redis, prefix: str = "shoal") -> None:
        self._client = client
        self._prefix = prefix

    @classmethod
    def at(cls, url: str, prefix: str = "shoal") -> Waiting:
        return cls(connect(url), prefix)

    def close_connections(self) -> None:
        self._client.close()

    def hosts(self, job: str, at_most: int = LOOK_AT_MOST) -> list[str]:
        """Hosts with work of this job that may be asked later or, paused, never; the longest waits first."""
        with translated_errors("waiting"):
            seconds, micros = self._client.time()
            later = f"({seconds * 1000 + micros // 1000}"
            pipeline = self._client.pipeline(transaction=False)
            for key in (f"{self._prefix}:ready:{job}", f"{self._prefix}:lag:{job}"):
                pipeline.zrevrangebyscore(key, "+inf", later, start=0, num=at_most, withscores=True)
            found = [place for places in pipeline.execute() for place in cast("list[tuple[str, float]]", places)]
        return [host for host, _ in sorted(found, key=lambda place: -place[1])[:at_most]]
