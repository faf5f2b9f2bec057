"""Copies of robots.txt that all workers share: the texts in the database, the right to fetch one in Redis."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from shoal.core.robots import RobotsCopy
from shoal.core.url import parse
from shoal.frontier.frontier import Frontier
from shoal.store.robots import RobotsStore
from shoal.worker.threads import in_thread

T = TypeVar("T")


class RobotsShelf:
    """The shelf of one process: the stores are sync, and called in its threads."""

    def __init__(self, store: RobotsStore, frontier: Frontier, threads: ThreadPoolExecutor) -> None:
        self._store = store
        self._frontier = frontier
        self._threads = threads

    async def load(self, origin: str) -> RobotsCopy | None:
        """The last copy, however old."""
        return await self._in_thread(lambda: self._store.load(origin))

    async def claim(self, origin: str) -> bool:
        """May we fetch it? Only one worker at a time may."""
        return await self._in_thread(lambda: self._frontier.claim_robots(origin))

    async def remind(self, origin: str, crawl_delay: float) -> None:
        """A copy asks for this; a frontier that was emptied has forgotten it."""
        host = parse(f"{origin}/").host
        await self._in_thread(lambda: self._frontier.learn_robots(host, crawl_delay, origin))

    async def turn(self, host: str) -> timedelta | None:
        """Take a turn on a host that a redirect leads to: the time until then, None when it must not be asked now."""
        return await self._in_thread(lambda: self._frontier.drop_in(host))

    async def give_up(self, origin: str) -> None:
        """It could not be fetched: others may try."""
        await self._in_thread(lambda: self._frontier.unclaim_robots(origin))

    async def save(self, copy: RobotsCopy, crawl_delay: float | None) -> None:
        """Keep a copy, and let the frontier know what it asks for."""
        await self._in_thread(lambda: self._keep(copy, crawl_delay))

    def _keep(self, copy: RobotsCopy, crawl_delay: float | None) -> None:
        self._store.save(copy)
        self._frontier.learn_robots(parse(f"{copy.origin}/").host, crawl_delay, copy.origin)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await in_thread(self._threads, call)
