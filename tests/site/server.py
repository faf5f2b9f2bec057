"""The test web server: loopback sockets, one event loop, one `Front`.

Sockets listen before the loop runs, so the address is known, and clients may connect, as soon as
`serve` or `run` has begun; no one needs to wait for readiness.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

from tests.site.front import Front
from tests.site.hits import Hit, HitLog
from tests.site.http1 import Connection
from tests.site.reply import Responder

LOCAL = ("127.0.0.1",)
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Server:
    """A running server as tests see it."""

    hosts: tuple[str, ...]
    port: int
    _front: Front

    @property
    def url(self) -> str:
        return self.link("/")

    @property
    def hits(self) -> list[Hit]:
        return self._front.log.snapshot()

    def count(self, target: str) -> int:
        """Requests for exactly this target so far, over all hosts."""
        return self._front.count(target)

    def link(self, target: str, host: str | None = None) -> str:
        return f"http://{host or self.hosts[0]}:{self.port}{target}"


@contextmanager
def serve(
    site: Responder,
    hosts: Sequence[str] = LOCAL,
    *,
    port: int = 0,
    log: Path | str | None = None,
    isolated: bool = False,
) -> Generator[Server]:
    """Serves in a background thread for as long as the block runs; `isolated`: on a network of the test's own."""
    with HitLog(log) as hits, listening(hosts, port, isolated=isolated) as sockets, closing(new_loop()) as loop:
        front = Front(site, hits)
        stop = asyncio.Event()
        thread = Thread(target=loop.run_until_complete, args=(_accept(front, sockets, stop),), daemon=True)
        thread.start()
        try:
            yield Server(tuple(hosts), _port(sockets), front)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()


def run(
    site: Responder,
    hosts: Sequence[str] = LOCAL,
    *,
    port: int = 0,
    log: Path | str | None = None,
    announce: Callable[[Server], None],
) -> None:
    """Serves in this thread, the main one, until SIGTERM or SIGINT."""
    with HitLog(log) as hits, listening(hosts, port) as sockets, closing(new_loop()) as loop:
        front = Front(site, hits)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        # Only now: whoever reads the announcement may send a signal at once.
        announce(Server(tuple(hosts), _port(sockets), front))
        loop.run_until_complete(_accept(front, sockets, stop))


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()


async def _accept(front: Front, sockets: Sequence[socket.socket], stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    peers: set[Connection] = set()
    servers = [await loop.create_server(lambda: Connection(front, peers), sock=each) for each in sockets]
    await stop.wait()
    for server in servers:
        server.close()
    while peers:
        for peer in tuple(peers):
            peer.abort()
        await asyncio.sleep(0)
    for server in servers:
        await server.wait_closed()


@contextmanager
def listening(hosts: Sequence[str], port: int, *, isolated: bool = False) -> Generator[list[socket.socket]]:
    """A socket for each address, all on one port; loopback only, unless the network is the test's own."""
    addresses = [host if isolated else _loopback(host) for host in hosts]
    with ExitStack() as stack:
        sockets = _bind_all(list(dict.fromkeys(addresses)), port)
        for each in sockets:
            stack.enter_context(each)
        yield sockets


def _loopback(host: str) -> str:
    """Test pages must never be served to a network."""
    address = "127.0.0.1" if host == "localhost" else host
    if not ip_address(address).is_loopback:
        raise ValueError(f"not a loopback address: {host}")
    return address


def _bind_all(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """One port on all addresses; a free port of the first may be taken on another, so try again."""
    for attempt in range(_ATTEMPTS):
        try:
            return _bind_once(addresses, port)
        except OSError:
            if port or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _bind_once(addresses: Sequence[str], port: int) -> list[socket.socket]:
    with ExitStack() as stack:
        sockets: list[socket.socket] = []
        for address in addresses:
            bound = stack.enter_context(socket.create_server((address, port), backlog=1024))
            port = port or bound.getsockname()[1]
            sockets.append(bound)
        stack.pop_all()
        return sockets


def _port(sockets: Sequence[socket.socket]) -> int:
    return sockets[0].getsockname()[1]
