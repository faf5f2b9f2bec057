"""Keys of one slot that are read, several slots at a time, with its mark: is the slot here at all?"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

SLOWEST = 5
"""Hosts that are shown."""


def pattern_of(text: str) -> str:
    """That finds nothing but this: prefixes are the users', and may have any characters."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


class ServerKeys:
    """The names of the keys that are about a server."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @property
    def run(self) -> str:
        """Of the server, that was last looked at."""
        return f"{self._prefix}:server"

    @property
    def whole(self) -> str:
        """The run of which all is made good that it may have lost."""
        return f"{self._prefix}:whole"

    @property
    def asked(self) -> str:
        """Run and slot → how far the links are sent again that went from there to the server before this run."""
        return f"{self._prefix}:asked"

    @property
    def epoch(self) -> str:
        """Raised by each look at the server."""
        return f"{self._prefix}:epoch"

    @property
    def fence(self) -> str:
        """How many losses of servers are known there."""
        return f"{self._prefix}:fence"


class SlotKeys:
    """The names of one slot's keys."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.every = pattern_of(f"{prefix}:") + "*"
        """A pattern for all of them."""

    @property
    def mark(self) -> str:
        """Is the slot here?"""
        return f"{self._prefix}:slot"

    def ask_for_work(self, pipeline: Any, queues: Sequence[str]) -> None:
        """Its mark, the lease that runs out first, and the first that is due in each queue."""
        pipeline.get(self.mark)
        pipeline.zrange(f"{self._prefix}:leases", 0, 0, withscores=True)
        for queue in queues:
            pipeline.zrange(f"{self._prefix}:due:{queue}", 0, 0, withscores=True)

    def ask_for_job(self, pipeline: Any, job: str) -> None:
        """Its mark, and a job's hash, reasons and slowest hosts: at one moment, if the pipeline is a transaction."""
        pipeline.get(self.mark)
        pipeline.hgetall(f"{self._prefix}:job:{job}")
        pipeline.hgetall(f"{self._prefix}:reasons:{job}")
        pipeline.zrange(f"{self._prefix}:slow:{job}", 0, SLOWEST - 1, desc=True, withscores=True)

    def ask_for_jobs(self, pipeline: Any) -> None:
        """Its mark, and the names of the jobs that it knows."""
        pipeline.get(self.mark)
        pipeline.smembers(f"{self._prefix}:jobs")

    def ask_for_load(self, pipeline: Any, queues: Sequence[str]) -> None:
        """All that is to be done in each queue."""
        for queue in queues:
            pipeline.hmget(f"{self._prefix}:depth:{queue}", ["queued", "delayed", "leased"])

    def ask_for_depth(self, pipeline: Any, queues: Sequence[str]) -> None:
        """What waits in each queue."""
        for queue in queues:
            pipeline.hmget(f"{self._prefix}:depth:{queue}", ["queued", "delayed"])
