"""A receiver of webhooks on this machine: it remembers what it was sent, and answers as the test says."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def type(self) -> str:
        return self.json["type"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What it answers."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b"thank you"
    resets: bool = False
    endless: bool = False
    hangs: bool = False
    """Until the receiver is closed."""


@dataclass(slots=True)
class Receiver:
    """Where it listens, and what came."""

    port: int = 0
    answer: Callable[[Received], Reply] = lambda _: Reply()
    received: list[Received] = field(default_factory=list[Received])
    closed: threading.Event = field(default_factory=threading.Event)

    def link(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def replies(self, *replies: Reply) -> None:
        """These in turn, and the last one for ever."""
        left = list(replies)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def of_type(self, kind: str) -> list[Received]:
        return [each for each in list(self.received) if each.type == kind]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        came = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.receiver.received.append(came)
        with suppress(OSError):
            self._send(self.receiver.answer(came))

    def do_GET(self) -> None:  # nobody is to come here: redirects are not followed
        self.receiver.received.append(Received(self.path, {}, b"{}"))
        self.send_error(404)

    def _send(self, reply: Reply) -> None:
        if reply.hangs:
            self.receiver.closed.wait()
        if reply.resets or reply.hangs:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding" if reply.endless else "Content-Length", _length(reply))
        self.end_headers()
        while reply.endless and not self.receiver.closed.is_set():
            self.wfile.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Quietly."""


def _length(reply: Reply) -> str:
    return "chunked" if reply.endless else str(len(reply.body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def a_receiver(port: int = 0) -> Generator[Receiver]:
    """For as long as the block lasts."""
    receiver = Receiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    with _Server(("127.0.0.1", port), handler) as server:
        receiver.port = int(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.closed.set()
            server.shutdown()
            thread.join()
