"""The least of HTTP/1.1 that clients need: keep-alive, pipelining in order, HEAD, Content-Length.

A `Connection` answers one request at a time. While a delayed reply is pending, later requests stay
in the buffer unparsed, so replies keep the order of requests without a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import cast

from tests.site.front import Front, Tenant
from tests.site.reply import Reply

_END = b"\r\n\r\n"
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    host: str
    keep_alive: bool
    body_size: int
    headers: Mapping[str, str]


def parse_request(head: bytes) -> Request:
    """Raises ValueError for anything that is not a plain HTTP/1 request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "transfer-encoding" in fields:
        raise ValueError("chunked requests are not served")
    wish = fields.get("connection", "").lower()
    keep_alive = wish == "keep-alive" if version == "HTTP/1.0" else wish != "close"
    return Request(method, target, fields.get("host", ""), keep_alive, int(fields.get("content-length", 0)), fields)


@lru_cache(maxsize=1024)
def _head(status: int, headers: tuple[tuple[str, str], ...], keep_alive: bool) -> bytes:
    """Everything but the length; few distinct ones exist, and formatting them is the slow part."""
    known = status in HTTPStatus.__members__.values()
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase if known else 'Unknown'}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if not keep_alive:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\nContent-Length: "


def render(request: Request, reply: Reply) -> bytes:
    head = _head(reply.status, reply.headers, request.keep_alive)
    body = b"" if request.method == "HEAD" else reply.body
    if reply.drop:
        body = body[: len(body) // 2]
    return b"%b%d%b%b" % (head, len(reply.body), _END, body)


class Connection(asyncio.Protocol):
    """One client connection; `peers` is the set of all open ones, kept for the shutdown."""

    def __init__(self, front: Front, peers: set[Connection]) -> None:
        self._front = front
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._pending: asyncio.TimerHandle | None = None
        self._tenant: Tenant | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._peers.discard(self)
        if self._pending:
            self._pending.cancel()
        self._leave()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._serve_buffered()

    def abort(self) -> None:
        self._transport.abort()

    def _serve_buffered(self) -> None:
        while self._tenant is None and not self._transport.is_closing():
            try:
                request = self._take_request()
            except ValueError:
                self._transport.write(_BAD_REQUEST)
                return self._transport.close()
            if request is None:
                return None
            self._answer(request)
        return None

    def _take_request(self) -> Request | None:
        end = self._buffer.find(_END)
        if end < 0:
            return None
        request = parse_request(bytes(self._buffer[:end]))
        size = end + len(_END) + request.body_size
        if len(self._buffer) < size:
            return None
        del self._buffer[:size]
        return request

    def _answer(self, request: Request) -> None:
        self._tenant, reply = self._front.admit(request.host, request.target, request.headers)
        if reply.delay:
            self._pending = self._loop.call_later(reply.delay, self._answer_late, request, reply)
        else:
            self._write(request, reply)

    def _answer_late(self, request: Request, reply: Reply) -> None:
        self._pending = None
        self._write(request, reply)
        self._serve_buffered()

    def _write(self, request: Request, reply: Reply) -> None:
        self._leave()
        if reply.body or not reply.drop:
            self._transport.write(render(request, reply))
        if reply.drop or not request.keep_alive:
            self._transport.close()

    def _leave(self) -> None:
        if self._tenant:
            self._tenant.in_flight -= 1
            self._tenant = None
