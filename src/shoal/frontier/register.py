"""The jobs that a frontier knows, and how each of them stands."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import redis

from shoal.core.job_status import JobStatus
from shoal.core.model import JobState
from shoal.frontier.scripts import translated_errors
from shoal.frontier.troubles import TroubleBoard
from shoal.frontier.wire import ms, read_status


class Register:
    """Looks jobs up; changes nothing."""

    def __init__(self, client: redis.Redis, prefix: str, board: TroubleBoard) -> None:
        self._client = client
        self._prefix = prefix
        self._board = board

    def statuses(self, jobs: Sequence[str]) -> list[JobStatus | None]:
        """Several jobs in one round trip, each as it was at one moment."""
        found: list[JobStatus | None] = []
        with translated_errors("status"):
            pipeline = self._client.pipeline(transaction=True)
            for job in jobs:
                pipeline.hgetall(f"{self._prefix}:job:{job}")
                pipeline.hgetall(f"{self._prefix}:reasons:{job}")
                pipeline.zrange(f"{self._prefix}:slow:{job}", 0, 4, desc=True, withscores=True)
            pipeline.hgetall(f"{self._prefix}:troubles")
            pipeline.info("persistence")
            pipeline.time()
            *answers, told, persistence, (seconds, micros) = pipeline.execute()
        now = seconds * 1000 + micros // 1000
        troubles = self._board.read(told, persistence, now)
        for i, job in enumerate(jobs):
            values, reasons, slow = answers[3 * i : 3 * i + 3]
            status = read_status(job, values, reasons, slow, now) if values else None
            troubled = troubles and status and status.state is JobState.RUNNING
            found.append(replace(status, troubles=troubles) if status and troubled else status)
        return found

    def known(self) -> list[str]:
        """Every job that lives in the frontier."""
        with translated_errors("known_jobs"):
            return sorted(cast("set[str]", self._client.smembers(f"{self._prefix}:jobs")))

    def ended(self, ago: timedelta) -> list[str]:
        """Jobs that ended at least so long ago and still have keys."""
        jobs = self.known()
        with translated_errors("ended_jobs"):
            pipeline = self._client.pipeline(transaction=False)
            for job in jobs:
                pipeline.hget(f"{self._prefix}:job:{job}", "ended")
            pipeline.time()
            *ended, (seconds, _) = pipeline.execute()
        latest = seconds * 1000 - ms(ago)
        return [job for job, at in zip(jobs, ended, strict=True) if at is not None and int(at) <= latest]
