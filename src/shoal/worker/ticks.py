"""Housekeeping beside slices: a thread of the main process takes the ticks from the queue `control` and does them.

The pool of a worker that fetches is busy for minutes at a time, and a tick must not wait for that. A message is a
doorbell here too: it is taken, never read.
"""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import structlog
from celery import Celery

from shoal.core.model import CONTROL_QUEUE
from shoal.errors import Unavailable
from shoal.wiring import Platform

log = structlog.get_logger()

LOOK_S = 0.5
ENDS_WITHIN_S = 5.0
BROKER_S = 2.0


class House(Protocol):
    """Where rounds of the housekeeping are done."""

    def tick(self) -> None:
        """One round, to its end."""
        ...

    def close(self) -> None:
        """There are no more."""
        ...


class OwnHouse:
    """In this process."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def tick(self) -> None:
        self._platform.frontier.answer_ring(CONTROL_QUEUE)
        self._platform.housekeeper.tick()

    def close(self) -> None:
        self._platform.close()


class Ticks:
    """Answers the beat for as long as the worker lives."""

    def __init__(self, app: Celery, open_house: Callable[[], House]) -> None:
        self._app = app
        self._open_house = open_house
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Take no more; a tick under way may end, for a while."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(ENDS_WITHIN_S)

    def _run(self) -> None:
        house: House | None = None
        while not self._ended.wait(LOOK_S):
            try:
                if self._take():
                    house = house or self._open_house()
                    house.tick()
            except Unavailable as exc:
                log.warning("tick_failed", error=str(exc))
            except Exception:  # whatever the broker's client raises: the next look may be luckier
                log.exception("tick_failed")
        if house:
            house.close()

    def _take(self) -> bool:
        with self._app.pool.acquire(block=True, timeout=BROKER_S) as connection:
            queue = self._app.amqp.queues[CONTROL_QUEUE].bind(connection.default_channel)
            return queue.get(no_ack=True) is not None
