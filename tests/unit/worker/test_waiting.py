"""Waiting that can be cancelled at any moment."""

from __future__ import annotations

import asyncio

from shoal.worker.waiting import wait_at_most


def test_a_cancellation_that_comes_together_with_the_event_is_not_lost() -> None:
    async def forever(event: asyncio.Event) -> None:
        while True:
            await wait_at_most(event, 0.05)
            event.clear()

    async def cancel_with_the_event() -> bool:
        event = asyncio.Event()
        task = asyncio.create_task(forever(event))
        await asyncio.sleep(0.01)
        event.set()
        await asyncio.sleep(0)
        task.cancel()
        _, pending = await asyncio.wait({task}, timeout=1)
        for each in pending:
            each.cancel()
        return task.cancelled()

    assert asyncio.run(cancel_with_the_event())


def test_it_ends_with_the_event_and_with_the_time() -> None:
    async def wait() -> bool:
        event = asyncio.Event()
        await wait_at_most(event, 0.01)
        before = event.is_set()
        asyncio.get_running_loop().call_later(0.01, event.set)
        await wait_at_most(event, 60)
        return before

    assert asyncio.run(wait()) is False
