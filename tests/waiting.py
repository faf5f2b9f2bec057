"""Waiting for something to become true, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

_POLL_S = 0.002
_LONGEST_POLL_S = 0.02
_GROWTH = 1.25
"""What does not come soon is looked for less often: the machine has more to do than to look."""


def wait_until(
    condition: Callable[[], bool], *, within: timedelta = timedelta(seconds=5), poll_s: float = _POLL_S
) -> None:
    """Returns as soon as the condition holds; fails when it does not in time. Take your time where looking is work."""
    deadline = time.monotonic() + within.total_seconds()
    while not condition():
        assert time.monotonic() < deadline, f"not true within {within.total_seconds():g} s"
        time.sleep(poll_s)
        poll_s = max(poll_s, min(poll_s * _GROWTH, _LONGEST_POLL_S))
