"""A real browser, and one page after another in it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from shoal.core.browsing import Browsing
from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.render import browser
from shoal.render.page import context_options, render_page
from shoal.render.port import Order, Rendered
from tests.conftest import lack

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

T = TypeVar("T")
TOTAL = timedelta(seconds=20)
FLAGS = tuple(flag for flag in browser.FLAGS if not flag.startswith("--host-resolver-rules"))
"""What the product's browsers have; but for the names, which gates look up, and pages here have none."""


@dataclass(frozen=True, slots=True)
class Nothing:
    received: int = 0


@dataclass(slots=True)
class OpenGate:
    """Stands where the pinning proxy does, and lets everything pass."""

    refused: dict[tuple[str, int], FetchError] = field(default_factory=dict[tuple[str, int], FetchError])

    def refusal_of(self, host: str, port: int) -> FetchError | None:
        return self.refused.get((host, port))

    def tally(self) -> Nothing:
        return Nothing()


class Tab:
    """A browser with a loop of its own, from which tests ask for pages."""

    def __init__(self, loop: asyncio.AbstractEventLoop, library: Playwright, browser: Browser) -> None:
        self._loop = loop
        self.library = library
        self.browser = browser

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def render(self, url: str, browsing: dict[str, Any] | None = None, **order: Any) -> Rendered:
        """One page, in a context of its own."""
        given: dict[str, Any] = {"total": TOTAL, **order}
        return self.run(self.rendered(Order(parse(url), Browsing.model_validate(browsing or {}), **given)))

    def refuse(self, url: str, browsing: dict[str, Any] | None = None, **order: Any) -> FetchError:
        """One page that cannot be rendered."""
        with pytest.raises(FetchError) as caught:
            self.render(url, browsing, **order)
        return caught.value

    async def rendered(self, order: Order, gate: OpenGate | None = None) -> Rendered:
        context = await self.context(order)
        try:
            return await render_page(context, order, gate or OpenGate())
        finally:
            async with asyncio.timeout(10):
                await context.close()

    async def context(self, order: Order) -> BrowserContext:
        devices = cast("Any", self.library).devices
        return await self.browser.new_context(**context_options(order, "", devices))


@contextmanager
def browsing() -> Generator[Tab]:
    """The browser that is on this machine."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        lack('Playwright is not there (pip install "shoal[browser]")')
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        lack("no browser is on the PATH (apt install chromium-headless-shell)")
    loop = asyncio.new_event_loop()
    library = loop.run_until_complete(async_playwright().start())
    try:
        sandbox = os.geteuid() != 0
        launched = library.chromium.launch(executable_path=path, chromium_sandbox=sandbox, args=list(FLAGS))
        running = loop.run_until_complete(launched)
        yield Tab(loop, library, running)
        loop.run_until_complete(running.close())
    finally:
        loop.run_until_complete(library.stop())
        loop.close()
