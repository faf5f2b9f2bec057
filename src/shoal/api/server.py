"""gunicorn, as the API uses it: threads, no banner, our log lines, and problem details for what never reaches the app.

The master owns the socket and watches its processes; each of these opens a platform of its own after the fork. The
first Ctrl-C or SIGTERM lets running requests end, a second Ctrl-C does not wait for them.
"""

from __future__ import annotations

import errno
import logging
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any, cast

import orjson
import structlog
from flask import Flask
from gunicorn import util
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.workers.gthread import TConn, ThreadWorker
from werkzeug.exceptions import BadRequest, ClientDisconnected

from shoal.api.app import STOP_STREAMS, STREAMED_BODY, make_api
from shoal.api.serve import base_url
from shoal.collector import calm_collector
from shoal.core.redact import visible, without_secrets
from shoal.guardian import die_with_parent
from shoal.intake.ids import new_request_id
from shoal.settings import Settings
from shoal.wiring import Platform, serving_platform

log = structlog.get_logger()

GRACE_S = 10
"""For requests under way when the API is told to stop."""
HUNG_S = 60
"""A process whose main loop is silent for this long is replaced; requests run in threads and may take longer."""
KEEPALIVE_S = 15
STALLED_S = 60
"""A client that sends or takes nothing for this long, in the middle of a request, loses its connection."""
BODY_S, BODY_BYTES_A_SECOND = 60, 16_384
"""A body that is not streamed may take so long, and longer by what has come of it at this pace."""
HEAD_S = 20
"""A client takes a thread with its first byte; within this time its headers must be there."""
IDLE_CONNECTIONS = 1_000
MAX_FILES = 65_536
MAX_LINE_BYTES = 8190
MAX_HEADERS = 100
MAX_DETAIL = 300

_errors: Any = errors  # its stubs lag behind
_STATUSES: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (_errors.InvalidResponseHeader, HTTPStatus.INTERNAL_SERVER_ERROR),
    (_errors.InvalidResponseHeaderName, HTTPStatus.INTERNAL_SERVER_ERROR),
    (errors.ConfigurationProblem, HTTPStatus.INTERNAL_SERVER_ERROR),
    (errors.LimitRequestLine, HTTPStatus.REQUEST_URI_TOO_LONG),
    (errors.LimitRequestHeaders, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    (errors.ExpectationFailed, HTTPStatus.EXPECTATION_FAILED),
    (errors.UnsupportedTransferCoding, HTTPStatus.NOT_IMPLEMENTED),
    (errors.ForbiddenProxyRequest, HTTPStatus.FORBIDDEN),
    (errors.ParseException, HTTPStatus.BAD_REQUEST),
)
"""The first that fits; whatever else goes wrong is our own fault."""


class Server(BaseApplication):
    """The API's master process."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings = settings
        self._url = base_url(settings.api_host, listener.getsockname()[1])
        self._listener = listener
        self._platform: Platform | None = None
        self._app: Flask | None = None
        self.readings = Readings()
        super().__init__()

    def serve(self) -> int:
        """Run to the end; returns the exit code. A forked process comes out of here as well, when it ends."""
        try:
            Master(self).run()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        return 0

    def load_config(self) -> None:
        settings = self._settings
        options: dict[str, Any] = {
            "bind": f"fd://{self._listener.detach()}",
            "worker_class": ApiWorker,
            "workers": settings.api_workers,
            "threads": settings.api_threads,
            "worker_connections": min(settings.api_threads + IDLE_CONNECTIONS, _open_files() // 2),
            "graceful_timeout": GRACE_S,
            "timeout": HUNG_S,
            "keepalive": KEEPALIVE_S,
            "limit_request_line": MAX_LINE_BYTES,
            "limit_request_fields": MAX_HEADERS,
            "limit_request_field_size": MAX_LINE_BYTES,
            "logger_class": LibraryLogger,
            "forwarder_headers": "",
            "control_socket_disable": True,
            "post_fork": _on_fork,
            "post_worker_init": self._on_boot,
            "worker_exit": self._on_exit,
        }
        if settings.api_workers > 1:
            options["child_exit"] = _on_child_exit
        for name, value in options.items():
            cast(Any, self.cfg).set(name, value)

    def load(self) -> Any:
        """The application of one process."""
        self._platform = serving_platform(self._settings)
        self._app = make_api(self._platform)
        calm_collector()
        return _guarded(self._app, self.readings)

    def end_streams(self) -> None:
        """Requests that would go on for as long as their clients listen come to their end."""
        if self._app and (stop := self._app.extensions.get(STOP_STREAMS)):
            stop()

    def _on_boot(self, worker: Any) -> None:
        if worker.age > 1:
            return  # somebody has said it already
        api, docs = f"{self._url}/api/v1", f"{self._url}/openapi/"
        if self._settings.parent is None:
            print(f"api: {api}  docs: {docs}", file=sys.stderr, flush=True)
        else:
            log.info("api_ready", url=self._url, api=api, docs=docs)

    def _on_exit(self, _master: Any, _worker: Any) -> None:
        if self._platform:
            self._platform.close()


class Master(Arbiter):
    """gunicorn's master, with the manners of a command in the foreground."""

    def handle_int(self) -> None:
        self.handle_term()

    def handle_hup(self) -> None:
        self.handle_term()

    def handle_usr2(self) -> None:
        log.warning("signal_ignored", signal="USR2")


class ApiWorker(ThreadWorker):
    """A process of the API: one thread for each request under way, and a loop that never waits for any of them."""

    def init_process(self) -> None:
        self.readings: Readings = cast(Any, self.app).readings
        self.heading: dict[Any, float] = {}
        """Connections whose request line and headers are still coming → until when they must be there."""
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C reaches all processes; the master tells this one

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.alive:
            self.method_queue.defer(cast(Any, self.app).end_streams)  # in the loop, not in a signal handler
        super().handle_exit(sig, frame)

    def accept(self, listener: Any) -> None:
        """A new connection takes no thread until it has something to say."""
        try:
            client, address = listener.accept()
        except OSError as exc:
            if exc.errno in (errno.EAGAIN, errno.ECONNABORTED):
                return
            raise
        self.nr_conns += 1
        conn = TConn(self.cfg, client, address, listener.getsockname())
        conn.timeout = time.monotonic() + KEEPALIVE_S
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def handle(self, conn: Any) -> Any:
        patience = struct.pack("ll", STALLED_S, 0)
        with suppress(OSError):
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        self.heading[conn] = time.monotonic() + HEAD_S
        try:
            stays = super().handle(conn)
        finally:
            self.heading.pop(conn, None)
        if not stays:
            util.close_graceful(conn.sock)  # here and not in the loop: a client may be slow to hang up
        return stays

    def finish_request(self, conn: Any, fs: Any) -> None:
        if conn.sock.fileno() < 0:
            self.nr_conns -= 1
        else:
            super().finish_request(conn, fs)

    def handle_request(self, req: Any, conn: Any) -> Any:
        self.heading.pop(conn, None)
        return super().handle_request(req, conn)

    def murder_pending(self) -> None:
        now = time.monotonic()
        for conn, deadline in list(self.heading.items()):
            if now > deadline:
                with suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RDWR)
        self.readings.cut(now)
        if not self.alive:
            for conn in self.pending_conns:
                conn.timeout = 0.0  # who has sent nothing so far is not waited for
        super().murder_pending()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        status = next((code for kind, code in _STATUSES if isinstance(exc, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
        request_id = new_request_id()
        if status is HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("request_failed", path=getattr(req, "path", None), request_id=request_id, exc_info=exc)
            detail = "The server failed to answer; its log says why."
        else:
            detail = visible(without_secrets(str(exc)))[:MAX_DETAIL]
            names = {"client": addr[0] if addr else "", "request_id": request_id}
            log.info("request_refused", status=int(status), error=type(exc).__name__, **names)
        with suppress(OSError):
            client.sendall(_problem(status, detail, request_id))


class LibraryLogger(Logger):
    """Warnings and errors go the way of all libraries' logs. Requests are logged by the application."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        self._access_log_enabled = False
        self.error_log.setLevel(logging.WARNING)
        self.error_log.propagate = True


class Readings:
    """Connections whose bodies are being read, and until when they may: no thread waits for a trickle without end."""

    def __init__(self) -> None:
        self._until: dict[socket.socket, float] = {}

    def begin(self, connection: socket.socket, until: float) -> None:
        self._until[connection] = until

    def end(self, connection: socket.socket) -> None:
        self._until.pop(connection, None)

    def cut(self, now: float) -> None:
        """Hang up on those that are too slow; who reads them is told that they have ended too early."""
        for connection, until in list(self._until.items()):
            if now > until:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class Body:
    """A request's body as the application reads it. What is wrong with it is told to the client, and no error of ours;
    a body that ends before its announced length is wrong, and not short, and so is one that does not come to an end."""

    def __init__(self, environ: dict[str, Any], readings: Readings) -> None:
        length = environ.get("CONTENT_LENGTH", "")
        self._environ = environ
        self._body = environ["wsgi.input"]
        self._missing = int(length) if length.isdecimal() else 0
        self._readings = readings
        self._taken = 0
        self._started = time.monotonic()

    def read(self, size: int = -1) -> bytes:
        return self._take(self._body.read, size)

    def readline(self, size: int = -1) -> bytes:
        return self._take(self._body.readline, size)

    def _take(self, take: Callable[[int | None], bytes], size: int) -> bytes:
        connection = self._environ["gunicorn.socket"]
        if not self._environ.get(STREAMED_BODY):
            self._readings.begin(connection, self._started + BODY_S + self._taken / BODY_BYTES_A_SECOND)
        try:
            data = take(None if size < 0 else size)
        except errors.ParseException as exc:
            raise BadRequest(visible(str(exc))[:MAX_DETAIL]) from exc
        except OSError as exc:  # it hung up, or went silent
            raise ClientDisconnected("the body ended too early") from exc
        finally:
            self._readings.end(connection)
        self._taken += len(data)
        self._missing -= len(data)
        if self._missing > 0 and (size < 0 or (size and not data)):
            raise ClientDisconnected("the body is shorter than its Content-Length")
        return data


def _guarded(app: Flask, readings: Readings) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ["wsgi.input"] = Body(environ, readings)
        return app(environ, start_response)

    return application


def _problem(status: HTTPStatus, detail: str, request_id: str) -> bytes:
    """A whole response: RFC 9457 problem details."""
    problem = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    body = orjson.dumps({**problem, "request_id": request_id})
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\nConnection: close\r\nX-Request-ID: {request_id}\r\n"
        "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _open_files() -> int:
    """As many as the system lets us have, within reason: beyond its limit a server can accept nobody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def _on_fork(master: Any, _worker: Any) -> None:
    die_with_parent(master.pid)


def _on_child_exit(_master: Any, worker: Any) -> None:
    from prometheus_client import multiprocess

    cast(Any, multiprocess).mark_process_dead(worker.pid)
