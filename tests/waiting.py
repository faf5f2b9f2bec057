"""Waiting for something to become true, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

_POLL_S = 0.002


def wait_until(
    condition: Callable[[], bool], *, within: timedelta = timedelta(seconds=5), poll_s: float = _POLL_S
) -> None:
    """Returns as soon as the condition holds; fails when it does not in time. Take your time where looking is work."""
    deadline = time.monotonic() + within.total_seconds()
    while not condition():
        assert time.monotonic() < deadline, f"not true within {within.total_seconds():g} s"
        time.sleep(poll_s)
