"""Each origin's robots.txt, by RFC 9309: one fetch for all workers, shared by all who wait for it.

2xx is parsed (500 KiB of it), redirects are followed five times, 4xx means all is allowed, 429, 5xx and silence mean
that nothing may be fetched until the file can be read. A fetch takes up a turn of the host: who caused one is told so,
with all that was asked, and nobody else is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shoal.core.frozen import frozen
from shoal.core.robots import EVERYTHING, Robots, RobotsCopy, parse
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch.robots_inquiry import ABOUT_PROXY, Asked, Fetch, RobotsInquiry, Shelf, ms, now_ms, settles

LONGEST_LIFETIME = timedelta(hours=24)
"""Of a copy, whatever it says itself."""
FAILURE_LIFETIME = timedelta(milliseconds=500)
FORBIDDEN_LIFETIME = timedelta(seconds=30)
"""A host that has trouble with its robots.txt is asked for it again after this, or when it says."""
LONGEST_REST = timedelta(minutes=10)
COPY_S = 0.05
"""To read a copy that another worker has fetched takes less than this."""
MAX_ORIGINS = 10_000
MAX_MEMORY = 64_000_000
"""Bytes of all files that a process has at hand, about."""
RULE_BYTES = 450
"""Of a rule in memory, beside its text."""
LARGE = 8 * 1024
"""A file of this many bytes takes milliseconds to read: other fetches need not wait for it."""

_UNREACHED = ("dns_", "connect_", "timeout_connect", "tls_")


@frozen
class Rules:
    """What an origin's robots.txt says."""

    robots: Robots
    version: str
    """Of the text; empty when there is none."""
    hops: tuple[Asked, ...] = ()
    """What was asked for the sake of this caller."""

    @property
    def asked(self) -> bool:
        """Did this caller's question take up a turn of the host?"""
        return bool(self.hops)


class RobotsUnreachable(FetchError):
    """The robots.txt cannot be had, so nothing may be fetched."""

    def __init__(
        self, reason: str, detail: str, *, retry_after: timedelta | None = None, hops: tuple[Asked, ...] = ()
    ) -> None:
        super().__init__(reason, detail, retry_after=retry_after)
        self.hops = hops
        """What was asked for the sake of this caller."""

    @property
    def asked(self) -> bool:
        """Did this caller's question take up a turn of the host?"""
        return bool(self.hops)


@frozen
class _Known:
    """An answer that holds for a while: rules, or why there are none."""

    rules: Rules | None
    until: float
    size: int = 0
    reason: str = ""
    detail: str = ""
    retry_after: timedelta | None = None
    hops: tuple[Asked, ...] = ()

    def tell(self, hops: tuple[Asked, ...] = ()) -> Rules:
        if self.rules is None:
            raise RobotsUnreachable(self.reason, self.detail, retry_after=self.retry_after, hops=hops)
        return replace(self.rules, hops=hops) if hops else self.rules


class RobotsCache:
    """Has the rules of the origins that this process asks, and gets those that it has not."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[_Known]] = {}
        self._unattended: set[asyncio.Task[_Known]] = set()
        """Whoever asked for these has been interrupted."""
        self._size = 0

    async def rules(self, url: Url, fetch: Fetch) -> Rules:
        """The rules for a URL's origin.

        Raises RobotsUnreachable when they cannot be had, and FetchError "robots_pending" while another worker fetches
        them.
        """
        origin = url.origin
        known = self._known.get(origin)
        if known is not None and time.monotonic() <= known.until:
            return known.tell()
        asking = self._asking.get(origin)
        if asking is not None:
            return await self._with_others(asking)
        asking = self._ask(url, fetch)
        try:
            found = await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._unattended.add(asking)
            raise
        return found.tell(found.hops)

    async def end_unattended(self) -> None:
        """What those had asked for who were interrupted is left to other workers, who may begin at once."""
        await _end(self._unattended)
        self._unattended.clear()

    async def end(self) -> None:
        """Nobody waits any more: what is being fetched is left to other workers, who may begin at once."""
        self._unattended.clear()
        await _end(self._asking.values())

    async def _with_others(self, asking: asyncio.Task[_Known]) -> Rules:
        """Wait for a copy that is being read; who would wait for the host itself had better come again.

        All who wait for it here would else ask the host for their pages in the same moment.
        """
        done, _ = await asyncio.wait({asking}, timeout=COPY_S)
        if not done or asking.cancelled():
            raise FetchError("robots_pending", "the robots.txt is being fetched")
        return asking.result().tell()

    def _ask(self, url: Url, fetch: Fetch) -> asyncio.Task[_Known]:
        """In a task of its own: who asked may give up, and the others wait on."""
        task = asyncio.create_task(self._find(url, fetch))
        self._asking[url.origin] = task
        task.add_done_callback(lambda done: self._note(url.origin, done))
        return task

    async def _find(self, url: Url, fetch: Fetch) -> _Known:
        copy = await self._fresh(url.origin)
        if copy is not None:
            return await self._remember(copy)
        if not await self._claim(url.origin):
            raise FetchError("robots_pending", "another worker is fetching the robots.txt")
        try:
            return await self._find_anew(url, fetch)
        except asyncio.CancelledError:
            await self._shelf.give_up(url.origin)
            raise

    async def _claim(self, origin: str) -> bool:
        """Interrupted, it is waited for all the same: a claim that comes too late would be nobody's."""
        claiming = asyncio.ensure_future(self._shelf.claim(origin))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            if await claiming:
                await self._shelf.give_up(origin)
            raise

    async def _find_anew(self, url: Url, fetch: Fetch) -> _Known:
        copy = await self._fresh(url.origin)  # whoever had the claim before us may have been quick
        if copy is not None:
            return await _read(copy)
        inquiry = RobotsInquiry(Url(url.scheme, url.host, "/robots.txt"), fetch, self._shelf)
        try:
            copy = await inquiry.copy()
        except FetchError as exc:
            await self._shelf.give_up(url.origin)
            if exc.reason.startswith(ABOUT_PROXY):
                raise  # that is about the job's way out, and tells nothing about the host
            return _failed(exc, tuple(inquiry.hops))
        known = replace(await _read(copy), hops=tuple(inquiry.hops))
        if known.rules is not None:
            await _carried_out(self._shelf.save(copy, known.rules.robots.crawl_delay()))
        return known

    async def _remember(self, copy: RobotsCopy) -> _Known:
        """What another worker has read; the frontier may have lost what it asks for."""
        known = await _read(copy)
        delay = known.rules.robots.crawl_delay() if known.rules else None
        if delay:
            await self._shelf.remind(copy.origin, delay)
        return known

    async def _fresh(self, origin: str) -> RobotsCopy | None:
        copy = await self._shelf.load(origin)
        return copy if copy is not None and _end_ms(copy) > now_ms() else None

    def _note(self, origin: str, task: asyncio.Task[_Known]) -> None:
        self._asking.pop(origin, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._forget(origin)
        self._known[origin] = known = task.result()
        self._size += known.size
        while len(self._known) > MAX_ORIGINS or (self._size > MAX_MEMORY and len(self._known) > 1):
            self._forget(next(iter(self._known)))

    def _forget(self, origin: str) -> None:
        known = self._known.pop(origin, None)
        if known is not None:
            self._size -= known.size


async def _end(tasks: Iterable[asyncio.Task[_Known]]) -> None:
    under_way = list(tasks)
    for asking in under_way:
        asking.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)


async def _carried_out(call: Coroutine[Any, Any, None]) -> None:
    """Interrupted, it is waited for all the same: what was fetched is kept."""
    task = asyncio.create_task(call)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _read(copy: RobotsCopy) -> _Known:
    """What a copy says, for as long as it holds."""
    if not settles(copy.status):
        return _failed(FetchError("robots_unreachable", "robots.txt could not be had"))
    robots = await _parsed(copy.body)
    left = (_end_ms(copy) - now_ms()) / 1000
    size = len(copy.body) + robots.rules * RULE_BYTES
    return _Known(Rules(robots, copy.version), time.monotonic() + left, size)


async def _parsed(body: bytes) -> Robots:
    if not body:
        return EVERYTHING
    return await asyncio.to_thread(parse, body) if len(body) > LARGE else parse(body)


def _failed(error: FetchError, hops: tuple[Asked, ...] = ()) -> _Known:
    """A host that cannot be reached has no robots.txt either: what is wrong with it is the reason."""
    reason, detail, lasts, rest = error.reason, error.detail, FAILURE_LIFETIME, error.retry_after
    if reason == "robots_unreachable":
        lasts = rest = min(rest or FORBIDDEN_LIFETIME, LONGEST_REST)
    elif not reason.startswith(_UNREACHED):
        reason, detail = "robots_unreachable", str(error)
    return _Known(None, time.monotonic() + lasts.total_seconds(), 0, reason, detail, rest, hops)


def _end_ms(copy: RobotsCopy) -> int:
    return min(copy.until_ms, copy.fetched_ms + ms(LONGEST_LIFETIME))
