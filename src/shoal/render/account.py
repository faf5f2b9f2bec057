"""What one page may do on the network, and what it has done: the terms, the count, the connections that are its own.

Everything has a cap: bytes, connections at once, to one host, in all, and time. Who goes beyond the bytes loses all
connections; who goes beyond another one is refused what is too much.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Protocol

from shoal.core.frozen import frozen
from shoal.core.proxies import Proxy
from shoal.errors import FetchError
from shoal.fetch.guard import Guard
from shoal.render.pace import Pace
from shoal.render.request_head import RequestHead
from shoal.render.way import Way, open_way

MAX_REMEMBERED = 1_000
"""Hosts whose last refusal is kept for a page."""


@frozen
class Terms:
    """What a page may do."""

    local: frozenset[str] = frozenset()
    """Hosts on this machine that may be asked, as URLs have them: `localhost:8000`."""
    proxy: Proxy | None = None
    resource_bytes: int = 50_000_000
    """That may come, and as many may go."""
    resource_rate: float = 50.0
    """Requests, and tunnels, a second to one host."""
    total: timedelta = timedelta(seconds=30)
    """From the beginning of the page."""
    connect: timedelta = timedelta(seconds=10)
    idle: timedelta = timedelta(seconds=30)
    """A connection on which nothing passes for so long is closed."""
    connections: int = 100
    """At once."""
    host_connections: int = 30
    """At once to one host."""
    connections_in_all: int = 2_000


@frozen
class Tally:
    """What a page has done."""

    connections: int = 0
    """Of the browser's."""
    requests: int = 0
    """That went on to a host, and tunnels."""
    received: int = 0
    """Bytes from hosts."""
    sent: int = 0
    refused: int = 0


class Connection(Protocol):
    """One of the browser's, with what it leads to."""

    def abort(self) -> None:
        """Both ends, at once."""
        ...

    def look(self, now: float, idle: float) -> None:
        """Has it waited too long?"""
        ...


class Account:
    """Of one page, from its beginning to its end."""

    def __init__(self, guard: Guard, terms: Terms, pace: Pace) -> None:
        self.terms = terms
        self.cut: FetchError | None = None
        """Why the page gets nothing any more."""
        self._guard = guard
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + terms.total.total_seconds()
        self._open = set[Connection]()
        self._to_host = Counter[tuple[str, int]]()
        self._refusals: dict[tuple[str, int], FetchError] = {}
        self._connections = self._requests = self._refused = 0
        self._received = self._sent = 0

    @property
    def tally(self) -> Tally:
        return Tally(self._connections, self._requests, self._received, self._sent, self._refused)

    def refusal_of(self, hostname: str, port: int) -> FetchError | None:
        """The last one."""
        return self._refusals.get((hostname, port))

    def enter(self, connection: Connection) -> FetchError | None:
        """The browser has made a connection; an error when it is one too many."""
        self._open.add(connection)
        self._connections += 1
        if self.cut is not None:
            return self.cut
        if len(self._open) > self.terms.connections:
            return FetchError("connect_failed", f"more than {self.terms.connections} connections at once")
        if self._connections > self.terms.connections_in_all:
            return FetchError("connect_failed", f"more than {self.terms.connections_in_all} connections")
        return None

    def leave(self, connection: Connection) -> None:
        self._open.discard(connection)

    def take_turn(self, head: RequestHead) -> float:
        """Take a turn of the host's; seconds until it has come. Raises FetchError when the page would be over."""
        now = self._loop.time()
        wait = self._pace.turn(head.hostname, self.terms.resource_rate, now, self._until - now)
        if wait is None:
            raise FetchError("timeout_total", f"too many requests to {head.hostname} for the time that is left")
        return wait

    async def open(self, head: RequestHead) -> Way:
        """The way to a host, judged; to be given back with `close`. Raises FetchError."""
        if self._to_host[head.goal] >= self.terms.host_connections:
            raise FetchError("connect_failed", f"more than {self.terms.host_connections} connections to one host")
        self._to_host[head.goal] += 1
        try:
            local = not self.terms.local.isdisjoint(head.hosts)
            async with asyncio.timeout(self.terms.connect.total_seconds()):
                return await open_way(self._guard, head, self.terms.proxy, local=local)
        except BaseException as exc:
            self.close(head)
            if isinstance(exc, TimeoutError):
                raise FetchError("timeout_connect", f"no connection to {head.hostname} in time") from exc
            raise

    def close(self, head: RequestHead) -> None:
        """The way to a host is no more."""
        self._to_host[head.goal] -= 1

    def count_request(self) -> None:
        self._requests += 1

    def count_sent(self, size: int) -> bool:
        """May it go?"""
        self._sent += size
        return self._sent <= self.terms.resource_bytes or self._overdraw()

    def count_received(self, size: int) -> bool:
        """May it pass?"""
        self._received += size
        return self._received <= self.terms.resource_bytes or self._overdraw()

    def refuse(self, error: FetchError, goal: tuple[str, int] | None) -> None:
        """Count a refusal, and remember whom it was about."""
        self._refused += 1
        if goal is not None and (goal in self._refusals or len(self._refusals) < MAX_REMEMBERED):
            self._refusals[goal] = error

    def look(self) -> None:
        """Now and then: close what waits too long, and all when time is up."""
        now = self._loop.time()
        if now >= self._until and self.cut is None:
            self.end(FetchError("timeout_total", "the page's time is up"))
        for connection in tuple(self._open):
            connection.look(now, self.terms.idle.total_seconds())

    def end(self, why: FetchError) -> None:
        """Close everything; nothing is taken any more."""
        self.cut = why
        for connection in tuple(self._open):
            connection.abort()

    def _overdraw(self) -> bool:
        if self.cut is None:
            self.end(FetchError("too_large", f"the page loads more than {self.terms.resource_bytes} bytes"))
        return False
