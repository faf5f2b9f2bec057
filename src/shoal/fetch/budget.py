"""Bytes of large bodies that one process holds at a time: who would exceed them waits.

A body is small until it has grown beyond a megabyte, and then room is taken for all that may still come of it, once:
nobody holds a part and waits for the rest, so nobody waits for those who wait for him. Room is held until the task ends
that asked for it, which is a visit: the page has been read by then. A task that holds some already does not wait.
"""

from __future__ import annotations

import asyncio

SMALL_BODY = 1_048_576
"""Bytes: nobody waits for a body up to this."""
BODIES_BYTES = 256_000_000


class Budget:
    """So many bytes, and the line of those who wait for some. For one event loop."""

    def __init__(self, most: int = BODIES_BYTES) -> None:
        self._most = most
        self._held = 0
        self._holders: dict[asyncio.Task[object], int] = {}
        self._line: dict[asyncio.Future[None], int] = {}

    async def hold(self, size: int) -> None:
        """Room for this many bytes, or for all there are, until the task ends that runs now."""
        task = asyncio.current_task()
        assert task is not None
        size = min(size, self._most)
        if task in self._holders or (not self._line and self._held + size <= self._most):
            self._held += size
        else:
            await self._wait(size)
        if task not in self._holders:
            self._holders[task] = 0
            task.add_done_callback(self._release)
        self._holders[task] += size

    async def _wait(self, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line[turn] = size
        try:
            await turn
        except asyncio.CancelledError:
            if self._line.pop(turn, None) is None:  # its turn came in the same moment
                self._held -= size
            self._let_in()
            raise

    def _release(self, task: asyncio.Task[object]) -> None:
        self._held -= self._holders.pop(task)
        self._let_in()

    def _let_in(self) -> None:
        while self._line:
            turn, size = next(iter(self._line.items()))
            if self._held + size > self._most:
                return
            del self._line[turn]
            self._held += size
            if not turn.done():
                turn.set_result(None)
