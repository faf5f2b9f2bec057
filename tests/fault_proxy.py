"""A TCP proxy before a server on a Unix socket, which can reset connections, or let them live and say nothing more."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from random import Random

_RESET = struct.pack("ii", 1, 0)
"""Linger for no time: closing sends a reset."""


class FaultProxy:
    """What passes, and what is done to it. All methods may be called from any thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._pairs: list[_Pair] = []
        self.port = 0
        self.resets = 0

    @property
    def connections(self) -> int:
        return len(self._pairs)

    def reset_one(self, random: Random) -> bool:
        """Reset some connection; False when there is none."""
        return asyncio.run_coroutine_threadsafe(self._reset_one(random), self._loop).result(10)

    def mute_all(self) -> int:
        """What is connected now stays so, and never hears a word again; who comes later is served."""
        return asyncio.run_coroutine_threadsafe(self._mute_all(), self._loop).result(10)

    async def _reset_one(self, random: Random) -> bool:
        if not self._pairs:
            return False
        random.choice(self._pairs).reset()
        self.resets += 1
        return True

    async def _mute_all(self) -> int:
        for pair in self._pairs:
            pair.muted = True
        return len(self._pairs)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.close()
            return
        pair = _Pair(writer, server[1])
        self._pairs.append(pair)
        ways = {
            asyncio.create_task(pair.pass_on(reader, server[1])),
            asyncio.create_task(pair.pass_on(server[0], writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pairs.remove(pair)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            pair.close()

    async def _serve(self, begun: threading.Event, ended: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        begun.set()
        await ended.wait()
        server.close()
        for pair in tuple(self._pairs):
            pair.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # for sockets to close

    @contextmanager
    def running(self) -> Generator[FaultProxy]:
        """In a thread with an event loop of its own."""
        begun, ended = threading.Event(), asyncio.Event()
        thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve(begun, ended)))
        thread.start()
        try:
            assert begun.wait(10)
            yield self
        finally:
            self._loop.call_soon_threadsafe(ended.set)
            thread.join()
            self._loop.close()


class _Pair:
    """A client's connection and ours to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client = client
        self._server = server
        self.muted = False

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if not self.muted:
                    writer.write(data)
                    await writer.drain()

    def reset(self) -> None:
        self._client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._client.transport.abort()
        self._server.transport.abort()

    def close(self) -> None:
        for writer in (self._client, self._server):
            writer.transport.abort()


@contextmanager
def fault_proxy(url: str) -> Generator[FaultProxy]:
    """A proxy before the server at a `unix://` URL."""
    with FaultProxy(url.removeprefix("unix://").partition("?")[0]).running() as proxy:
        yield proxy
