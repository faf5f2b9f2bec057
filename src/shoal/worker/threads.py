"""Calls of the sync core from the loop, in threads. Their log lines have the names of who made the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def in_thread(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Make a call of the sync core in one of these."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads, lambda: context.run(call))
