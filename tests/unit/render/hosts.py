"""A host on loopback that remembers what it was sent, and a client that speaks to a gate in so many bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from shoal.core.egress import Egress
from shoal.fetch.guard import Guard, Lookup
from shoal.render.gate import Gate, Terms
from shoal.render.pace import Pace

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
WITHIN_S = 10.0


@dataclass
class Host:
    """Answers every request with its own first line, and keeps the connection."""

    port: int = 0
    heads: list[str] = field(default_factory=list[str])
    bodies: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0
    open_now: int = 0
    answer: bytes = b""
    """Instead."""

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_now += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = _LENGTH.search(head)
                self.bodies.append(await reader.readexactly(int(found[1]) if found else 0))
                self.heads.append(head.decode("latin-1"))
                said = head.split(b"\r\n")[0]
                writer.write(self.answer or b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_now -= 1
            writer.close()


@asynccontextmanager
async def host(answer: bytes = b"") -> AsyncGenerator[Host]:
    """For as long as the block lasts."""
    found = Host(answer=answer)
    server = await asyncio.start_server(found.converse, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        await until(lambda: found.open_now == 0)
        await asyncio.sleep(0)  # the loop closes what they have closed


@asynccontextmanager
async def gate(
    terms: Terms, allow: str = "", lookup: Lookup = lambda _: ["127.0.0.1"], pace: Pace | None = None
) -> AsyncGenerator[Gate]:
    """One that has begun."""
    guard = Guard(Egress.read(allow), lookup)
    made = await Gate.open(guard, pace)
    made.begin(terms)
    try:
        yield made
    finally:
        await made.close()
        guard.close()


class Browser:
    """One connection to a gate."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, made: Gate) -> Browser:
        return cls(*await asyncio.open_connection("127.0.0.1", int(made.url.rpartition(":")[2])))

    def say(self, *lines: str, body: bytes = b"") -> None:
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    async def hear(self) -> bytes:
        """One answer: its head and its body."""
        async with asyncio.timeout(WITHIN_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            found = _LENGTH.search(head)
            return head + await self.reader.readexactly(int(found[1]) if found else 0)

    async def hear_all(self) -> bytes:
        """All until the gate hangs up."""
        async with asyncio.timeout(WITHIN_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def close(self) -> None:
        self.writer.close()


async def ask(made: Gate, *lines: str, body: bytes = b"") -> bytes:
    """What the gate says to one request on a connection of its own."""
    browser = await Browser.connect(made)
    browser.say(*lines, body=body)
    try:
        return await browser.hear()
    finally:
        browser.close()


def reason_in(answer: bytes) -> str:
    """Of a refusal; empty when it is none."""
    found = re.search(rb"X-Shoal-Reason: (\w+)", answer)
    return found[1].decode() if found else ""


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it, with a deadline."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            await asyncio.sleep(0.002)
