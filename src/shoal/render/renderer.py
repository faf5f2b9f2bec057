"""Renders pages in a browser of this process: what stands behind the port.

A slot, a gate, a browser, a fresh context, the page, and all of it closed again. The order's total time bounds the
whole; closing has a bound of its own, and a browser that does not keep it is replaced.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from shoal.errors import FetchError
from shoal.fetch.guard import Guard
from shoal.render.browser import Browser
from shoal.render.gate import Gate, Tally, Terms
from shoal.render.limits import RenderLimits
from shoal.render.pace import Pace
from shoal.render.pool import Pool, Running
from shoal.render.port import Order, Rendered, RenderLoad

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

RenderPage = Callable[["BrowserContext", Order, Gate], Awaitable[Rendered]]
ContextOptions = Callable[[Order, str, Mapping[str, Mapping[str, Any]]], Mapping[str, Any]]


class BrowserRenderer:
    """Implements `Renderer`."""

    def __init__(
        self,
        limits: RenderLimits,
        guard: Guard,
        find: Callable[[], str],
        user_agent: str = "",
        *,
        render_page: RenderPage | None = None,
        context_options: ContextOptions | None = None,
    ) -> None:
        """`user_agent`: who is asking; it is added to what the browser says about itself."""
        self._limits = limits
        self._user_agent = user_agent
        self._guard = guard
        self.pool = Pool(limits, find)
        self._render_page = render_page
        self._context_options = context_options
        self._slots = asyncio.Semaphore(limits.at_once)
        self._pace = Pace()

    @property
    def load(self) -> RenderLoad:
        """Browsers that run, and pages in them."""
        return RenderLoad(self.pool.browsers, self.pool.pages)

    async def render(self, order: Order) -> Rendered:
        """Open, wait, act, bring home; raises FetchError."""
        total = order.total + self._limits.closing
        async with self._slots, self.pool.page(total) as running, self._gate(order) as gate:
            return await self._within(running, order, gate)

    async def close(self) -> None:
        """End the browser and everything that belongs to it."""
        await self.pool.close()

    @asynccontextmanager
    async def _gate(self, order: Order) -> AsyncGenerator[Gate]:
        """One for each page: what is left of a page that would not close must not be taken for the next one's."""
        gate = await Gate.open(self._guard, self._pace)
        gate.begin(terms_of(order))
        try:
            yield gate
        finally:
            gate.end()
            await gate.close()

    async def _within(self, running: Running, order: Order, gate: Gate) -> Rendered:
        """The page, or what befalls its browser meanwhile."""
        opened = asyncio.Event()
        work = asyncio.create_task(self._in_context(running, order, gate, opened))
        lost = asyncio.create_task(running.browser.lost.wait())
        try:
            within = order.total.total_seconds()
            await asyncio.wait([work, lost], timeout=within, return_when=asyncio.FIRST_COMPLETED)
            if not _is_good(work) and await running.browser.is_lost(in_doubt=_is_suspicious(work)):
                raise FetchError("browser_crashed", "the browser ended while it rendered the page")
            if work.done():
                return work.result()
            if not opened.is_set():
                self.pool.replace(running, "hung")
            raise FetchError("render_timeout", f"not done in {within:g} s")
        finally:
            lost.cancel()
            await _stop(work)

    async def _in_context(self, running: Running, order: Order, gate: Gate, opened: asyncio.Event) -> Rendered:
        try:
            context = await running.browser.context(self._options(order, gate.url, running.browser))
        except FetchError as exc:
            if exc.reason == "browser_crashed":
                self.pool.replace(running, "hung")
            raise
        opened.set()
        crashed = asyncio.Event()
        context.on("page", lambda page: _listen(page, crashed))
        try:
            return await self._unless_crashed(running, context, order, gate, crashed)
        finally:
            await self._close(running, context)

    async def _unless_crashed(
        self, running: Running, context: BrowserContext, order: Order, gate: Gate, crashed: asyncio.Event
    ) -> Rendered:
        from playwright.async_api import Error

        crash = asyncio.create_task(crashed.wait())
        work = asyncio.ensure_future(self._page(context, order, gate))
        try:
            await asyncio.wait([work, crash], return_when=asyncio.FIRST_COMPLETED)
            if not crashed.is_set():
                return work.result()
            raise running.claim_kill() or FetchError("page_crashed", "its process ended")
        except Error as exc:
            raise FetchError("page_crashed", str(exc)[:500]) from exc
        finally:
            crash.cancel()
            await _stop(work)

    async def _close(self, running: Running, context: BrowserContext) -> None:
        """Within its own time, also when the page's is over."""
        closing = asyncio.ensure_future(context.close())
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())
        lost = asyncio.create_task(running.browser.lost.wait())
        try:
            within = self._limits.closing.total_seconds()
            done, _ = await asyncio.wait([closing, lost], timeout=within, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
        if not done:
            self.pool.replace(running, "hung")

    def _options(self, order: Order, gate_url: str, browser: Browser) -> Mapping[str, Any]:
        if self._context_options:
            return self._context_options(order, gate_url, browser.devices)
        from shoal.render.page import context_options

        return context_options(order, gate_url, browser.devices, agent_name(browser.version, self._user_agent))

    async def _page(self, context: BrowserContext, order: Order, gate: Gate) -> Rendered:
        if self._render_page:
            return await self._render_page(context, order, gate)
        from shoal.render.page import render_page

        return await render_page(context, order, _Exit(gate))


def agent_name(version: str, user_agent: str) -> str:
    """A browser as servers know it, and who is behind it; empty leaves it to the browser."""
    if not user_agent:
        return ""
    major = version.partition(".")[0]
    engine = f"AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.0.0 Safari/537.36"
    return f"Mozilla/5.0 (X11; Linux x86_64) {engine} {user_agent}"


def _is_good(work: asyncio.Task[Rendered]) -> bool:
    return work.done() and not work.cancelled() and work.exception() is None


def _is_suspicious(work: asyncio.Task[Rendered]) -> bool:
    """Has it failed in a way that the end of the whole browser may explain?"""
    error = work.exception() if work.done() and not work.cancelled() else None
    return isinstance(error, FetchError) and error.reason in ("page_crashed", "browser_crashed")


async def _stop(work: asyncio.Future[Rendered]) -> None:
    """Whatever becomes of it, nobody asks any more."""
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        work.exception()


class _Exit:
    """The gate, as far as a page asks it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def refusal_of(self, host: str, port: int) -> FetchError | None:
        return self._gate.refusal_of(host, port)

    def tally(self) -> Tally:
        return self._gate.tally


def terms_of(order: Order) -> Terms:
    """What the page may do on its way out."""
    rate = order.browsing.resource_rate
    return Terms(
        local=order.local,
        proxy=order.proxy,
        resource_bytes=order.browsing.resource_bytes,
        resource_rate=math.inf if rate == "unlimited" else rate,
        total=order.total,
    )


def _listen(page: Page, crashed: asyncio.Event) -> None:
    page.on("crash", lambda _: crashed.set())
