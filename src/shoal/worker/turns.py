"""Whose page is read next, where only one can be read at a time.

Everybody has a place in a ring and one turn each time it goes round, however many pages he has brought: a page waits
for the one that is being read, and for one of each who came before. Who was a burden comes last for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

LAST_S = 60.0
"""So long somebody comes last."""


class Turns:
    """One at a time, and all who wait in turn."""

    def __init__(self) -> None:
        self._ring: dict[str, deque[asyncio.Future[None]]] = {}
        """Who has a turn or waits for one → what he waits with; in the order of their turns."""
        self._last_until: dict[str, float] = {}
        self._taken = False

    @asynccontextmanager
    async def of(self, who: str) -> AsyncGenerator[None]:
        """His turn, when it has come."""
        await self._wait(who)
        try:
            yield
        finally:
            self._pass_on(who)

    def put_last(self, who: str) -> None:
        """He was a burden: all others go before him for a while."""
        now = time.monotonic()
        self._last_until = {each: until for each, until in self._last_until.items() if until > now}
        self._last_until[who] = now + LAST_S

    async def _wait(self, who: str) -> None:
        waiting = self._ring.setdefault(who, deque())
        if not self._taken:
            self._taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came just now
                self._pass_on(who)
            raise

    def _pass_on(self, who: str) -> None:
        if waiting := self._ring.pop(who, None):
            self._ring[who] = waiting  # behind all others
        self._taken = False
        while not self._taken and (following := self._following()) is not None:
            turn = self._ring[following].popleft()
            if not turn.cancelled():
                self._taken = True
                turn.set_result(None)

    def _following(self) -> str | None:
        now = time.monotonic()
        self._ring = {who: waiting for who, waiting in self._ring.items() if waiting}
        late = [who for who in self._ring if self._last_until.get(who, 0.0) > now]
        return next((who for who in self._ring if who not in late), late[0] if late else None)
