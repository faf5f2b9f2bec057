"""The site that is crawled: many hosts on loopback, pages that link to each other, and a log of every request.

One thread serves all hosts. It speaks just as much HTTP as a crawler needs, since the log is what matters: when which
host was asked by whom for what.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import cast

from shoal.core.frozen import frozen

LOOPBACK = "127.0.0.0/8"
ROBOTS = "/robots.txt"
_PAGE = "/page/"
_FILLER = "<p>" + "The tide brings the same fish back to the same rocks. " * 24 + "</p>"
_LEAST_DELAY_S, _DELAY_STEPS, _DELAY_STEP_S = 0.05, 300, 0.001
"""Answers take 50 to 350 ms, so that there is always something under way when a fault comes."""
_BACKLOG = 256
_CONTACT = re.compile(rb"\(\+drill-worker-(\d+)\)")


def contact_of(worker: int) -> str:
    """What a worker has to give as its contact, so that the log knows its requests."""
    return f"drill-worker-{worker}"


@frozen
class Hit:
    """A request that arrived."""

    at: float
    """On this machine's monotonic clock."""
    origin: str
    path: str
    worker: int | None = None
    """Who asked, by the contact in its User-Agent."""

    @property
    def url(self) -> str:
        return self.origin + self.path


@frozen
class SiteMap:
    """Which pages there are, and where each leads. Page k is on host k mod n."""

    origins: tuple[str, ...]
    pages: int
    submitted: int

    def url(self, page: int) -> str:
        return f"{self.origins[page % len(self.origins)]}{_PAGE}{page}"

    @property
    def urls(self) -> frozenset[str]:
        """Everything that a crawl must find."""
        return frozenset(map(self.url, range(self.pages)))

    @property
    def starts(self) -> tuple[str, ...]:
        """What is handed in."""
        return tuple(map(self.url, range(self.submitted)))

    def links(self, page: int) -> list[int]:
        """One page that only this one leads to, and some that are known by then."""
        onward = [page + self.submitted] if page + self.submitted < self.pages else []
        return [*onward, page // 2, (page + 1) % self.submitted]

    def body(self, page: int) -> bytes:
        """The page in HTML."""
        links = "".join(f'<a href="{self.url(other)}">{other}</a> ' for other in self.links(page))
        return f"<html><head><title>{page}</title></head><body><h1>{page}</h1>{links}{_FILLER}</body></html>".encode()


class Site:
    """Serves a site map while it is open."""

    def __init__(self, pages: int, hosts: int, submitted: int) -> None:
        self._sockets = [_listen(number) for number in range(hosts)]
        origins = tuple("http://{}:{}".format(*listener.getsockname()) for listener in self._sockets)
        self.map = SiteMap(origins, pages, submitted)
        self._hits: list[Hit] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="site", daemon=True)

    def __enter__(self) -> Site:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def hits(self) -> Sequence[Hit]:
        """Every request so far, in order of arrival."""
        return tuple(self._hits)

    def note(self, origin: str, path: str, worker: int | None) -> None:
        """A request has arrived."""
        self._hits.append(Hit(time.monotonic(), origin, path, worker))

    def answer(self, path: str) -> bytes:
        """The whole response to a request."""
        page = path.removeprefix(_PAGE)
        if path.startswith(_PAGE) and page.isascii() and page.isdigit() and int(page) < self.map.pages:
            return _response("200 OK", self.map.body(int(page)))
        return _response("404 Not Found", b"not here")

    def _serve(self) -> None:
        servers = [
            self._loop.run_until_complete(
                self._loop.create_server(lambda origin=origin: _Conversation(self, origin), sock=listener)
            )
            for origin, listener in zip(self.map.origins, self._sockets, strict=True)
        ]
        self._loop.run_forever()
        for server in servers:
            server.close()
        self._loop.close()


class _Conversation(asyncio.Protocol):
    """One connection: requests in, answers out after a while."""

    def __init__(self, site: Site, origin: str) -> None:
        self._site = site
        self._origin = origin
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
            path = head.split(b" ", 2)[1].decode("latin-1")
            contact = _CONTACT.search(head)
            self._site.note(self._origin, path, int(contact[1]) if contact else None)
            asyncio.get_running_loop().call_later(_delay_s(path), self._reply, path)

    def _reply(self, path: str) -> None:
        if self._transport is not None:
            self._transport.write(self._site.answer(path))


def _delay_s(path: str) -> float:
    return _LEAST_DELAY_S + sum(path.encode()) * 37 % _DELAY_STEPS * _DELAY_STEP_S


def _response(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _listen(number: int) -> socket.socket:
    """An address of its own for each host where loopback has many (Linux), else a port of its own."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((f"127.0.0.{2 + number}", 0))
    except OSError:
        listener.bind(("127.0.0.1", 0))
    listener.listen(_BACKLOG)
    return listener
