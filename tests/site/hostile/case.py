"""One case: what a hostile host does to whoever asks it for something, and what must become of the request then.

An act may write whatever bytes it likes, at whatever pace, for as long as the client stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from tests.site.reply import HTML

PAGE = "page"
"""In place of a reason: the answer is odd, and there is a page in it."""
REDIRECT = "redirect"
"""Likewise: there is nothing but redirects, and no page behind them."""
DRIP_S = 1.0
OK = b"HTTP/1.1 200 OK\r\n"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, and the connection on which it came."""

    target: str
    writer: asyncio.StreamWriter

    async def send(self, *parts: bytes) -> None:
        """Write, at the pace of the client."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def pour(self, part: bytes) -> NoReturn:
        """The same without end, as fast as it is taken; other hosts have their turns in between."""
        while True:
            await self.send(part)
            await asyncio.sleep(0)

    async def drip(self, part: bytes) -> NoReturn:
        """The same without end, slowly enough for the patient and often enough for those who wait for silence."""
        while True:
            await self.send(part)
            await asyncio.sleep(DRIP_S)

    async def hang(self) -> NoReturn:
        """Say no more, and stay."""
        while True:
            await asyncio.sleep(3600)

    def hang_up(self) -> NoReturn:
        """Close the connection."""
        raise ConnectionAbortedError


Act = Callable[[Visit], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """A host by what it does."""

    name: str
    act: Act
    fate: tuple[str, ...]
    """Reasons of which the request has one in the end, `PAGE` or `REDIRECT`; several where clients may differ."""
    robots: Act | None = None
    """What it does to those who ask for robots.txt; without that there is none."""
    certificate: str | None = None
    """The one that it shows: the host speaks TLS."""
    early: bool = False
    """It does not wait for a request."""
    tls: bool = False
    """It is asked for by https, also when it speaks no TLS."""

    @property
    def scheme(self) -> str:
        return "https" if self.tls or self.certificate else "http"


def says(*parts: bytes, close: bool = True) -> Act:
    """Just these bytes; then it hangs up, or waits for the next request."""

    async def act(visit: Visit) -> None:
        await visit.send(*parts)
        if close:
            visit.hang_up()

    return act


def answers(body: bytes, *headers: str, content_type: str = HTML, status: str = "200 OK") -> Act:
    """A correct answer with this body."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return says("\r\n".join(lines).encode("latin-1"), b"\r\n\r\n", body, close=False)
