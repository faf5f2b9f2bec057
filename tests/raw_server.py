"""A server on loopback that sends bytes as they are, good HTTP or not."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from threading import Thread

from tests.raw_answers import Ending, RawAnswer
from tests.site.server import new_loop

LATE_S = 0.002
_TARGET = re.compile(rb"GET (\S+) HTTP/1\.1\r\n")

AnswerTo = Callable[[str], RawAnswer]


@dataclass(slots=True)
class RawServer:
    """Answers each target as it is told."""

    answer_to: AnswerTo
    port: int = 0
    asked: list[str] = field(default_factory=list[str])
    connections: int = 0
    sending: int = 0
    """Answers under way."""
    _open: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def link(self, target: str) -> str:
        return f"http://127.0.0.1:{self.port}{target}"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[RawServer]:
        """On a port of its own, for as long as the block lasts."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tuple(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await asyncio.sleep(0)  # the loop closes what they have closed

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._converse(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stays = True
            while stays:
                asked = _TARGET.match(await reader.readuntil(b"\r\n\r\n"))
                assert asked is not None
                self.asked.append(asked[1].decode())
                stays = await self._answer(writer, self.answer_to(self.asked[-1]))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, answer: RawAnswer) -> bool:
        self.sending += 1
        try:
            return await _send(writer, answer)
        finally:
            self.sending -= 1


async def _send(writer: asyncio.StreamWriter, answer: RawAnswer) -> bool:
    """Whether the connection stays."""
    for piece in answer.pieces:
        await _write(writer, piece)
    if answer.late:
        await asyncio.sleep(LATE_S)
        await _write(writer, answer.late)
    if answer.ending is Ending.RESETS:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    return answer.ending is Ending.STAYS


async def _write(writer: asyncio.StreamWriter, piece: bytes) -> None:
    if writer.is_closing():
        raise ConnectionResetError
    writer.write(piece)
    await asyncio.sleep(0)  # each piece has a chance to arrive by itself


@contextmanager
def serve_raw(answer_to: AnswerTo) -> Generator[RawServer]:
    """In a background thread, for as long as the block lasts."""
    server, loop, stop = RawServer(answer_to), new_loop(), asyncio.Event()
    started: list[int] = []

    async def run() -> None:
        async with server.listening():
            started.append(server.port)
            await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    try:
        while not started and thread.is_alive():
            thread.join(0.001)
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
