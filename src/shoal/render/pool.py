"""The browser of a process: started when it is first needed, and replaced before it leaks.

There is one browser that takes pages. It is replaced after so many pages, so much memory or so long a time, and when it
crashes or hangs. A browser that is replaced takes no more pages, finishes those that it has, and then ends; it does not
outlive the last of their deadlines.

Memory has a budget for all browsers of the process together. Near it, the browser is replaced; beyond it, the page that
takes most is ended, one at a look, as long as there are others: what one page can take alone is bounded by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from shoal.errors import FetchError, InputError
from shoal.log_names import of_no_visit
from shoal.render.browser import Browser
from shoal.render.limits import RenderLimits
from shoal.render.owner import reap_orphans

log = structlog.get_logger()

NEAR = 0.8
"""Of the memory: a browser that takes so much is replaced, so that pages seldom come to the end of it."""
KILL_LASTS_S = 5.0
"""A page that crashes so soon after a renderer was killed is the one that it belonged to."""


class Running:
    """A browser and the pages that are under way in it."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.under_way = 0
        self.pages = 0
        """That it was given, with those that are not open yet."""
        self.until = time.monotonic()
        """When the last of the pages must be over."""
        self.why = ""
        """Why it takes no more pages."""
        self.bytes = 0
        self.renderers: Mapping[int, int] = {}
        """Process id → bytes."""
        self._idle = asyncio.Event()
        self._kills = list[tuple[float, FetchError]]()

    def begin(self, total: timedelta) -> None:
        self.under_way += 1
        self.pages += 1
        self._idle.clear()
        self.until = max(self.until, time.monotonic() + total.total_seconds())

    def end(self) -> None:
        self.under_way -= 1
        if not self.under_way:
            self._idle.set()

    async def drain(self) -> None:
        """Until no page is under way, or none may be."""
        if not self.under_way or self.browser.lost.is_set():
            return
        lost = asyncio.ensure_future(self.browser.lost.wait())
        idle = asyncio.ensure_future(self._idle.wait())
        try:
            within = max(0.0, self.until - time.monotonic())
            await asyncio.wait([lost, idle], timeout=within, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
            idle.cancel()

    def look(self, page_memory: int) -> None:
        """See what the tree takes; a page that takes too much loses its process."""
        memory = self.browser.memory()
        self.bytes, self.renderers = memory.tree, memory.renderers
        for pid, size in memory.renderers.items():
            if size > page_memory:
                self.kill(pid, FetchError("page_too_big", f"it took more than {page_memory} bytes of memory"))
                log.warning("page_killed", bytes=size, limit=page_memory)

    def kill(self, pid: int, why: FetchError) -> None:
        """End the process of a page; the page is told why."""
        self._kills.append((time.monotonic(), why))
        self.browser.kill_renderer(pid)

    def claim_kill(self) -> FetchError | None:
        """Why a renderer was just killed, if one was, and no other page has said that it was its own."""
        recent = [kill for kill in self._kills if kill[0] > time.monotonic() - KILL_LASTS_S]
        self._kills = recent[1:]
        return recent[0][1] if recent else None


class Pool:
    """For one event loop."""

    def __init__(self, limits: RenderLimits, find: Callable[[], str], flags: tuple[str, ...] = ()) -> None:
        self._limits = limits
        self._find = find
        self._flags = flags
        self._current: Running | None = None
        self._leaving = dict[Running, asyncio.Task[None]]()
        self._starting = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def current(self) -> Browser | None:
        """The browser that takes pages, if one was needed already."""
        return self._current.browser if self._current else None

    @property
    def browsers(self) -> int:
        """That run now: one, and those that finish their last pages."""
        return len(self._all())

    @property
    def pages(self) -> int:
        """That are open in them."""
        return sum(running.under_way for running in self._all())

    @asynccontextmanager
    async def page(self, total: timedelta) -> AsyncGenerator[Running]:
        """A browser for one page, which takes no longer than this; raises FetchError."""
        running = await self._take(total)
        try:
            yield running
        finally:
            running.end()
            self._judge(running)
            async with self._changed:
                self._changed.notify_all()

    def replace(self, running: Running, why: str) -> None:
        """Take no more pages with this browser; it ends with the last of those that it has."""
        if running.why:
            return
        running.why = why
        if self._current is running:
            self._current = None
        log.info("browser_replaced", why=why, pages=running.pages, bytes=running.bytes)
        self._leaving[running] = asyncio.create_task(self._leave(running), context=of_no_visit())

    async def close(self) -> None:
        """End all browsers, whatever they are doing."""
        self._closed = True
        if self._watching:
            self._watching.cancel()
        async with self._starting:
            for running in self._all():
                running.until = 0.0
                self.replace(running, "closed")
                running.browser.lost.set()
            await asyncio.gather(*self._leaving.values())

    async def _take(self, total: timedelta) -> Running:
        while True:
            await self._room()
            async with self._starting:
                if self._closed:
                    raise FetchError("browser_crashed", "the renderer is closed")
                if self._current and (why := self._fault(self._current)):
                    self.replace(self._current, why)
                if self._current is None and self._is_full():
                    continue
                running = self._current = self._current or await self._start()
                running.begin(total)
                if not self._watching or self._watching.done():
                    self._watching = asyncio.create_task(self._watch(), context=of_no_visit())
                return running

    async def _room(self) -> None:
        """Wait while the browsers take too much memory, and a page that ends could give some back."""
        async with self._changed:
            while self._is_full() and not self._closed:
                await self._changed.wait()

    def _is_full(self) -> bool:
        """The memory of a browser that is to be replaced counts until it is gone."""
        return bool(self._leaving) and self._bytes() > self._limits.memory * NEAR

    def _bytes(self) -> int:
        return sum(running.bytes for running in self._all())

    async def _start(self) -> Running:
        reaped = await asyncio.to_thread(reap_orphans)
        if reaped:
            log.warning("browsers_reaped", count=reaped)
        try:
            executable = self._find()
        except InputError as exc:
            raise FetchError("browser_missing", str(exc)) from exc
        return Running(await Browser.start(executable, self._flags))

    def _judge(self, running: Running) -> None:
        if not running.why and (why := self._fault(running)):
            self.replace(running, why)

    def _fault(self, running: Running) -> str:
        """Why this browser should take no more pages; empty when it may."""
        if running.browser.lost.is_set():
            return "crashed"
        if running.pages >= self._limits.pages:
            return "pages"
        if running.bytes > self._limits.memory * NEAR:
            return "memory"
        return "age" if running.browser.age >= self._limits.age else ""

    async def _leave(self, running: Running) -> None:
        try:
            await running.drain()
            await running.browser.close()
        finally:
            del self._leaving[running]
            async with self._changed:
                self._changed.notify_all()

    async def _watch(self) -> None:
        """Look at memory, age and life now and then, also while no page comes."""
        while self._all():
            await asyncio.sleep(self._limits.look.total_seconds())
            for running in self._all():
                if not running.browser.lost.is_set():
                    running.look(self._limits.page_memory)
                self._judge(running)
            self._make_room()

    def _make_room(self) -> None:
        """Beyond the budget, the page that takes most has to go, and may come back when there is room."""
        taken, limit = self._bytes(), self._limits.memory
        if taken <= limit or sum(running.under_way for running in self._all()) < 2:
            return
        sizes = [(size, pid, running) for running in self._all() for pid, size in running.renderers.items()]
        size, pid, running = max(sizes, key=lambda each: each[0], default=(0, 0, None))
        if running is not None and not running.browser.lost.is_set():
            running.kill(pid, FetchError("memory_short", f"it took {size} bytes of memory, and all together {taken}"))
            log.warning("page_put_off", bytes=size, together=taken, limit=limit)

    def _all(self) -> list[Running]:
        return [*([self._current] if self._current else []), *self._leaving]
