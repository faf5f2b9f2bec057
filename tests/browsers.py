"""A real browser for the tests, and small page functions that stand for whole visits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from playwright.async_api import BrowserContext

from shoal.core.browsing import Browsing
from shoal.core.url import parse
from shoal.errors import InputError
from shoal.fetch.port import Response
from shoal.render.gate import Gate
from shoal.render.limits import RenderLimits
from shoal.render.lookup import find_browser
from shoal.render.port import Order, Rendered
from shoal.render.renderer import BrowserRenderer
from tests.conftest import lack
from tests.guards import guard_of_loopback


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The executable of a browser on this machine."""
    try:
        return find_browser()
    except InputError as exc:
        lack(str(exc))


def order(url: str, total: float = 20.0) -> Order:
    """A page to render, which may take so many seconds."""
    return Order(parse(url), Browsing(), total=timedelta(seconds=total))


def plain_options(_order: Order, gate_url: str, _devices: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Through the gate, and nothing else."""
    return {"proxy": {"server": gate_url, "bypass": "<-loopback>"}, "service_workers": "block"}


async def plain_page(context: BrowserContext, order: Order, _gate: Gate) -> Rendered:
    """Open the URL, and bring its document home; `wait` in the URL waits until the page's title is `done`."""
    page = await context.new_page()
    answer = await page.goto(str(order.url), wait_until="commit")
    if "wait" in str(order.url):
        await page.wait_for_function("document.title === 'done'", timeout=0)
    assert answer is not None
    document = await page.content()
    return Rendered(Response(order.url, answer.status, "", (), document.encode(), timedelta()), document)


@asynccontextmanager
async def rendering_with(executable: str, limits: RenderLimits | None = None) -> AsyncGenerator[BrowserRenderer]:
    """A renderer whose pages are plain, closed in the end."""
    renderer = BrowserRenderer(
        limits or RenderLimits(),
        guard_of_loopback(),
        lambda: executable,
        render_page=plain_page,
        context_options=plain_options,
    )
    try:
        yield renderer
    finally:
        await renderer.close()


async def until(condition: Callable[[], bool], within: float = 15.0) -> None:
    """Wait for something to become true while the loop goes on."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.02)
