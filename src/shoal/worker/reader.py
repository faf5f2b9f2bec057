"""Pages read without keeping the loop from its other fetches.

Light pages are read in place, which takes a millisecond or two. Others go to a process apart, which ends with the
slice. There each gets half a second, which is enough for nearly all. One that is not done by then goes to a second
process, where it may take five, and so do all pages of its site for a minute: whoever serves pages of five seconds
takes half a second a minute from others, however many pages he has. Sites take turns in both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

from shoal.core.domain import registrable_domain
from shoal.errors import FetchError
from shoal.extract import apart
from shoal.extract.findings import Findings, Wanted
from shoal.extract.weight import LIGHT_BYTES
from shoal.fetch.port import Response
from shoal.worker.aside import Aside, TookTooLong
from shoal.worker.in_place import InPlace
from shoal.worker.turns import LAST_S, Turns

UNPACKED_IN_PLACE = 1_000_000
"""Bytes: up to this, unpacking takes a few milliseconds."""
SOON_CPU_S = 0.5
"""That a page may take while pages of all others wait."""
SOON_WALL_S = 5.0
"""The same by the clock, on a machine that is busy."""

T = TypeVar("T")


class Reader:
    """Reads pages, one after the other where that takes long."""

    def __init__(self) -> None:
        self._in_place = InPlace()
        self._soon = Aside(min(SOON_CPU_S, apart.CPU_S), min(SOON_WALL_S, apart.WALL_S))
        self._turns = Turns()
        self._at_length = Aside(apart.CPU_S, apart.WALL_S)
        self._slow_turns = Turns()
        self._slow_until: dict[str, float] = {}
        """Sites of which a page took long."""
        self.apart = 0
        """Pages that were not read in place."""

    async def unpack(self, response: Response, cap: int) -> tuple[bytes, str]:
        """(body without its content encodings, charset)"""
        if len(response.wire_body) <= LIGHT_BYTES:
            try:
                body = response.unpacked(min(cap, UNPACKED_IN_PLACE))
                return body, response.charset(body)
            except FetchError as exc:
                if exc.reason != "too_large" or cap <= UNPACKED_IN_PLACE:
                    raise
        return await asyncio.to_thread(_unpack, response, cap)

    async def read(self, body: bytes, wanted: Wanted) -> Findings:
        """What is wanted of a page; raises FetchError when that cannot be read within bounds."""
        found = await self._in_place.read(body, wanted)
        return found if found is not None else await self.read_apart(body, wanted)

    async def read_apart(self, body: bytes, wanted: Wanted) -> Findings:
        """The same, in a process apart."""
        apart.check_size(body)
        site = registrable_domain(wanted.host)
        found = await self._read_soon(site, body, wanted)
        return found or await self._read_at_length(site, body, wanted)

    async def end(self) -> None:
        """No more pages for now."""
        self._in_place.end()
        await self._soon.end()
        await self._at_length.end()

    async def _read_soon(self, site: str, body: bytes, wanted: Wanted) -> Findings | None:
        """None when it takes longer, or when a page of that site did."""
        if self._is_slow(site):
            return None
        async with self._turns.of(site):
            if self._is_slow(site):
                return None
            self.apart += 1
            try:
                return await self._soon.read(body, wanted)
            except TookTooLong:
                now = time.monotonic()
                self._slow_until = {each: until for each, until in self._slow_until.items() if until > now}
                self._slow_until[site] = now + LAST_S
                return None

    async def _read_at_length(self, site: str, body: bytes, wanted: Wanted) -> Findings:
        async with self._slow_turns.of(site):
            self.apart += 1
            try:
                return await self._at_length.read(body, wanted)
            except FetchError:
                self._slow_turns.put_last(site)
                raise

    def _is_slow(self, site: str) -> bool:
        return self._slow_until.get(site, 0.0) > time.monotonic()


async def unhurried(steps: Generator[None, None, T]) -> T:
    """Let others have their turn at each pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)


def _unpack(response: Response, cap: int) -> tuple[bytes, str]:
    body = response.unpacked(cap)
    return body, response.charset(body)
