"""A stop that takes hardly longer than what is under way: Celery alone rests for a second here and there."""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

from celery.concurrency import prefork

LOOK_S = 0.02
"""So often Celery looks whether its pool has ended."""


def notice_at_once(hub: Any, lifeline: int) -> None:
    """A loop that waits for messages sees that it is to stop when the lifeline is cut, not when it next looks."""
    hub.add_reader(lifeline, hub.remove_reader, lifeline)


def end_with_the_pool() -> None:
    """Celery's stop looks every half a second whether its pool has ended, while it answers the broker."""

    def look_soon(seconds: float) -> None:
        time.sleep(min(seconds, LOOK_S))

    cast(Any, prefork).time = SimpleNamespace(sleep=look_soon)
