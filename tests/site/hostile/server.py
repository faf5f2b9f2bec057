"""The hostile server: a socket for each host, one event loop, and the same access log as other sites.

A hit has status 0, since what is sent need not have any.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from tests.site.hits import Hit, HitLog
from tests.site.hostile.case import Act, Case, Visit, says
from tests.site.hostile.cases import BY_NAME
from tests.site.hostile.certificates import Certificates
from tests.site.http1 import parse_request
from tests.site.server import listening, new_loop

LINGER_S = 1.0
"""A client may read so long what was said last; a socket that is closed with a request unread would take it back."""
_END = b"\r\n\r\n"
_NO_ROBOTS = says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", close=False)


def run(
    plan: Mapping[str, str], folder: Path, *, port: int = 0, log: Path | None = None, announce: Callable[[int], None]
) -> None:
    """Plays address → case until SIGTERM or SIGINT; certificates go to the folder."""
    with HitLog(log) as hits, listening(list(plan), port) as sockets, closing(new_loop()) as loop:
        hosts = [_Host(BY_NAME[name], _tls(BY_NAME[name], address, folder), hits) for address, name in plan.items()]
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.set_exception_handler(_disregard)
        announce(sockets[0].getsockname()[1])
        loop.run_until_complete(_serve(hosts, sockets, stop))


def _tls(case: Case, address: str, folder: Path) -> ssl.SSLContext | None:
    return Certificates(folder).server(case.certificate, address) if case.certificate else None


async def _serve(hosts: list[_Host], sockets: list[Any], stop: asyncio.Event) -> None:
    for host, sock in zip(hosts, sockets, strict=True):
        await asyncio.start_server(host.connected, sock=sock, ssl=host.tls)
    await stop.wait()
    tasks = [task for host in hosts for task in host.tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Host:
    """One case at one address."""

    def __init__(self, case: Case, tls: ssl.SSLContext | None, log: HitLog) -> None:
        self.tls = tls
        self.tasks: set[asyncio.Task[None]] = set()
        self._case = case
        self._log = log
        self._in_flight = Counter[str]()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._attend(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError, RuntimeError):  # the last: uvloop's word for it
                if self._case.early:
                    await self._case.act(Visit("", writer))
                while not self._case.early:
                    await self._answer(reader, writer)
            await _leave(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = parse_request((await reader.readuntil(_END)).removesuffix(_END))
        self._in_flight[request.host] += 1
        try:
            self._log.record(Hit(monotonic(), request.host, request.target, 0, self._in_flight[request.host]))
            await self._act_for(request.target)(Visit(request.target, writer))
        finally:
            self._in_flight[request.host] -= 1

    def _act_for(self, target: str) -> Act:
        return (self._case.robots or _NO_ROBOTS) if target == "/robots.txt" else self._case.act


async def _leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeError, TimeoutError):
        if writer.can_write_eof():
            writer.write_eof()
            async with asyncio.timeout(LINGER_S):
                while await reader.read(65_536):
                    pass


def _disregard(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Clients that leave in the middle are what this server is for; anything else is a fault of ours."""
    exc = context.get("exception")
    if exc is not None and not isinstance(exc, (OSError, asyncio.IncompleteReadError)):
        print(f"hostile site: {context.get('message')}: {exc!r}", flush=True)
