"""How often somebody has tried to log in and failed, by address and by key: all processes of the API count together.

A try is counted before it is made, and given back when it was right: who tries at the same moment is counted as well.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import cast

import redis

from shoal.frontier.scripts import connect, translated_errors

WINDOW = timedelta(minutes=1)
MOST = 10
"""Wrong tries of one address, or with one key's prefix, from the first of them until the window ends."""


class Attempts:
    """Those of one frontier."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    @classmethod
    def at(cls, url: str, prefix: str) -> Attempts:
        return cls(connect(url), prefix)

    def begin(self, *whose: str) -> timedelta:
        """One more try: zero when it may be made, else how long nobody of these may."""
        told = self._count(1, whose)
        left = [ms for count, ms in zip(told[::3], told[2::3], strict=True) if count > MOST]
        return timedelta(milliseconds=max(1, *left)) if left else timedelta()

    def forgive(self, *whose: str) -> None:
        """It was right."""
        self._count(-1, whose)

    def _count(self, by: int, whose: Sequence[str]) -> list[int]:
        with translated_errors("log in"), self._client.pipeline() as batch:
            for place in map(self._place, whose):
                batch.incrby(place, by)
                batch.pexpire(place, WINDOW, nx=True)
                batch.pttl(place)
            return cast("list[int]", batch.execute())

    def _place(self, whose: str) -> str:
        digest = sha256(whose.encode("utf-8", "replace")).hexdigest()
        return f"{self._prefix}:attempts:{digest}"
