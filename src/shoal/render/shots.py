"""Pictures and prints of a page, of bounded size whatever the page's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.core.browsing import Browsing
from shoal.errors import FetchError
from shoal.render.deadline import Deadline
from shoal.render.document import Snapshot
from shoal.render.port import Shot
from shoal.render.troubles import is_late, library_errors

if TYPE_CHECKING:
    from playwright.async_api import FloatRect, Page

MAX_HEIGHT = 16_000
"""Pixels: a page that is longer is cut there."""
MAX_SHEETS = 100
"""Of a print."""
ELEMENT_S = 5.0
"""For the element of a picture to be there."""


async def take_shots(page: Page, browsing: Browsing, snapshot: Snapshot, deadline: Deadline) -> tuple[Shot, ...]:
    """What the job asks for; raises FetchError."""
    shots: list[Shot] = []
    if browsing.screenshot:
        shots.append(Shot("screenshot", "image/png", await _picture(page, browsing.screenshot, snapshot, deadline)))
    if browsing.pdf:
        body = await page.pdf(print_background=True, format="A4", page_ranges=f"1-{MAX_SHEETS}")
        shots.append(Shot("pdf", "application/pdf", body))
    return tuple(shots)


async def _picture(page: Page, what: str, snapshot: Snapshot, deadline: Deadline) -> bytes:
    if what == "view":
        return await page.screenshot(timeout=deadline.ms())
    if what == "full":
        height = min(max(snapshot.height, 1), MAX_HEIGHT)
        return await _clipped(page, {"x": 0, "y": 0, "width": snapshot.width, "height": height}, deadline)
    return await _element(page, what, deadline)


async def _element(page: Page, selector: str, deadline: Deadline) -> bytes:
    """The first that matches, where it stands on the page."""
    try:
        found = await page.wait_for_selector(selector, timeout=deadline.ms(ELEMENT_S))
        box = await found.bounding_box() if found else None
    except library_errors() as exc:
        if not is_late(exc):
            raise
        box = None
    if not box or box["width"] < 1 or box["height"] < 1:
        raise FetchError("selector_missing", f"{selector!r} cannot be seen, so there is no picture of it")
    if box["height"] <= MAX_HEIGHT and box["width"] <= MAX_HEIGHT:
        return await page.locator(selector).first.screenshot(timeout=deadline.ms())
    width, height = min(box["width"], MAX_HEIGHT), min(box["height"], MAX_HEIGHT)
    return await _clipped(page, {"x": box["x"], "y": box["y"], "width": width, "height": height}, deadline)


async def _clipped(page: Page, clip: FloatRect, deadline: Deadline) -> bytes:
    return await page.screenshot(full_page=True, clip=clip, timeout=deadline.ms())
