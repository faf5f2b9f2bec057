"""Waiting for something to happen, for some time at the most."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Until the event, but no longer.

    `asyncio.wait_for` of Python 3.11 swallows a cancellation that comes together with the event: whoever waits in a
    loop would then never end.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
