"""Calls of the sync core from the loop, in threads. Their log lines have the names of who made the call."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
TURN_S = 0.0002


async def in_thread(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Make a call of the sync core in one of these."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads, lambda: context.run(call))


def take_turns_often() -> None:
    """From now on threads of this process hand over to each other more often than Python would have it.

    A call of the database gives way at each of its statements. With Python's five milliseconds until it has its turn
    again, a batch waits for the event loop for longer than the loop has work, and then the loop waits for the batch.
    """
    sys.setswitchinterval(TURN_S)
