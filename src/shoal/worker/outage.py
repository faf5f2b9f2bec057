"""What a slice cannot use at the moment: noted when it is met, told to everybody through the frontier, ended at once.

A place is where it was met: the same database can refuse a delivery and a look at a job, and each ends by itself.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

import structlog

from shoal.core.trouble import Need, Trouble, gist
from shoal.errors import ArchiveUnavailable, RedisUnavailable, Unavailable
from shoal.frontier.troubles import TroubleBoard
from shoal.store.trouble import longest_wait_s
from shoal.worker.threads import in_thread
from shoal.worker.waiting import wait_at_most

log = structlog.get_logger()

LOOK_S = 0.5
"""This often somebody looks whether the database keeps a call waiting."""
TELL_S = 5.0
"""Trouble that lasts is told again this often."""
SILENCE_S = 2.0
"""A call that the database has not answered for so long is trouble."""
_OWN = secrets.token_hex(4)
"""Of this process and those that it forks: others, in containers, may have its name and its process id."""


class Place(StrEnum):
    """Where trouble is met."""

    LEASE = "lease"
    DELIVERY = "delivery"
    RENEWAL = "renewal"
    SILENCE = "silence"
    """A call of the database does not come back."""


@dataclass(slots=True)
class _Met:
    what: Need
    message: str
    since: float


class Outages:
    """The troubles of one slice."""

    def __init__(self, board: TroubleBoard, threads: ThreadPoolExecutor) -> None:
        self._board = board
        self._threads = threads
        self._worker = f"{socket.gethostname()}:{os.getpid()}-{_OWN}"
        self._met: dict[Place, _Met] = {}
        self._begun = Counter[Need]()
        """Met and not yet told."""
        self._changed = asyncio.Event()
        self._told_at = 0.0
        self._stands = False
        """Is something of ours on the board?"""

    @property
    def keep_from_storing(self) -> bool:
        """Would more results only pile up?"""
        return Place.DELIVERY in self._met or Place.SILENCE in self._met

    def met(self, place: Place, error: Unavailable) -> None:
        """Something could not be used."""
        self._note(place, _need(error), gist(error), time.monotonic())

    def over(self, place: Place) -> None:
        """It works again."""
        if met := self._met.pop(place, None):
            self._changed.set()
            if met.what not in self._needs():
                log.info("outage_over", what=met.what.value, seconds=round(time.monotonic() - met.since, 1))

    async def tell_all(self) -> None:
        """Keep the board true, for as long as the slice runs."""
        while True:
            await wait_at_most(self._changed, LOOK_S)
            self._look()
            lasting = bool(self._met) and time.monotonic() - self._told_at >= TELL_S
            if self._changed.is_set() or self._begun or lasting:
                await self._tell()

    async def end(self) -> None:
        """The slice is over; what it waited for is the next one's business."""
        self._met.clear()
        if self._stands:
            await self._tell()

    def _look(self) -> None:
        waited = longest_wait_s()
        if waited >= SILENCE_S:
            self._note(Place.SILENCE, Need.DATABASE, "the database does not answer", time.monotonic() - waited)
        else:
            self.over(Place.SILENCE)

    def _note(self, place: Place, what: Need, message: str, since: float) -> None:
        if what not in self._needs():
            self._begun[what] += 1
            self._changed.set()
            log.warning("outage", what=what.value, error=message)
        known = self._met.get(place)
        same = known is not None and known.what is what
        self._met[place] = _Met(what, message, min(known.since, since) if known and same else since)

    def _needs(self) -> set[Need]:
        return {met.what for met in self._met.values()}

    async def _tell(self) -> None:
        self._changed.clear()
        self._told_at = time.monotonic()
        troubles, begun = self._troubles(), dict(self._begun)
        try:
            await in_thread(self._threads, lambda: self._board.tell(self._worker, troubles, begun))
        except RedisUnavailable:  # nobody can be told before Redis is back; then they are
            await asyncio.sleep(LOOK_S)
            self._changed.set()
        else:
            self._begun -= Counter(begun)
            self._stands = bool(troubles)

    def _troubles(self) -> list[Trouble]:
        """One for each need: the oldest."""
        now = time.monotonic()
        found: dict[Need, Trouble] = {}
        for met in sorted(self._met.values(), key=lambda met: met.since, reverse=True):
            found[met.what] = Trouble(met.what, met.message, round(1000 * (now - met.since)), self._worker)
        return list(found.values())


def _need(error: Unavailable) -> Need:
    if isinstance(error, RedisUnavailable):
        return Need.REDIS
    return Need.ARCHIVE if isinstance(error, ArchiveUnavailable) else Need.DATABASE
