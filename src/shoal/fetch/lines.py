"""Connections to hosts, kept for the next request; each goes to an address that the guard has judged.

One is used again only if nothing has come on it since: a server that sends more than it was asked for would otherwise
answer the next request before it is made, and one page would be stored as another. (What comes after the next request
was sent nobody can tell from an answer.)
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from functools import lru_cache

from shoal.core.headers import OF_BODIES
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch.guard import Guard
from shoal.fetch.line import Answer, Line, MakeRoom
from shoal.fetch.outcomes import without_frames
from shoal.fetch.port import FetchLimits

KEEPALIVE_S = 30.0
_CLOSING_TURNS = 100
"""Of the loop, which tells us in one of the next that a connection is closed."""
Headers = tuple[tuple[str, str], ...]
Origin = tuple[str, ...]
"""Scheme, host with port."""
_PORTS = {"http": 80, "https": 443}


class Lines:
    """For one event loop."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, *, local: bool = False) -> None:
        self._guard = guard
        self._tls = tls
        self._local = local
        self._idle: dict[Origin, list[Line]] = {}
        """By origin; the one that was used last is taken first."""
        self._open: set[Line] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def ask(self, url: Url, request: bytes, limits: FetchLimits, deadline: float, make_room: MakeRoom) -> Answer:
        """One request on a connection of its host's; raises what `Line.ask` raises."""
        origin = url[:2]
        line = self._take(origin)
        if line is not None:
            try:
                return self._kept(origin, line, await line.ask(request, limits, deadline, make_room))
            except (OSError, EOFError) as exc:
                if line.heard or self._is_closed or isinstance(exc, TimeoutError):
                    raise
                # It was given up while nobody used it; nothing was asked yet.
        line = await self._dial(url, limits, deadline)
        if self._is_closed:
            line.hang_up()
            raise EOFError("the client was closed")
        return self._kept(origin, line, await line.ask(request, limits, deadline, make_room))

    async def close(self) -> None:
        """Hang up on all, also on those that are still being made."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        self._idle.clear()
        for line in tuple(self._open):
            line.hang_up()
        for _ in range(_CLOSING_TURNS):
            if not self._open:
                break
            await asyncio.sleep(0)

    def _take(self, origin: Origin) -> Line | None:
        lines = self._idle.get(origin)
        while lines:
            line = lines.pop()
            if line.is_fit and asyncio.get_running_loop().time() - line.idle_since < KEEPALIVE_S:
                return line
            line.hang_up()
        return None

    def _kept(self, origin: Origin, line: Line, answer: Answer) -> Answer:
        """Put the line back, if it can be asked again."""
        if not line.is_fit:
            line.hang_up()
            return answer
        loop = asyncio.get_running_loop()
        line.idle_since = loop.time()
        lines = self._idle.get(origin)
        if lines is None:
            lines = self._idle[origin] = []
        lines.append(line)
        if self._sweep is None:
            self._sweep = loop.call_later(KEEPALIVE_S, self._close_old)
        return answer

    def _close_old(self) -> None:
        """Those that nobody has used for too long."""
        loop = asyncio.get_running_loop()
        oldest, self._sweep = loop.time() - KEEPALIVE_S, None
        for origin, lines in list(self._idle.items()):
            fresh = [line for line in lines if line.is_fit and line.idle_since > oldest]
            for line in set(lines).difference(fresh):
                line.hang_up()
            if fresh:
                self._idle[origin] = fresh
            else:
                del self._idle[origin]
        if self._idle:
            self._sweep = loop.call_later(KEEPALIVE_S / 4, self._close_old)

    async def _dial(self, url: Url, limits: FetchLimits, deadline: float) -> Line:
        """A new one; raises FetchError, TimeoutError when the whole fetch takes too long."""
        loop = asyncio.get_running_loop()
        port = int(url.host[len(url.hostname) + 1 :] or _PORTS[url.scheme])
        tls = self._context() if url.scheme == "https" else None
        until = loop.time() + limits.connect.total_seconds()
        try:
            async with asyncio.timeout_at(min(until, deadline)):
                _, line = await self._guard.dial(
                    lambda: Line(loop, self._open), url.hostname, port, local=self._local, tls=tls
                )
                return line
        except TimeoutError:
            if deadline <= until:
                raise
            raise FetchError("timeout_connect", f"no connection to {url.host} in {limits.connect}") from None
        except (ssl.SSLError, FetchError):
            raise
        except OSError as exc:
            reason = "connect_refused" if exc.errno == errno.ECONNREFUSED else "connect_failed"
            raise FetchError(reason, f"{url.host}: {exc.strerror or exc}") from without_frames(exc)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def request_for(url: Url, ours: Headers, theirs: Headers) -> bytes:
    """A GET, which has no body, as it goes out: our headers, and those that a job wants instead or besides.

    Raises ValueError.
    """
    lines, has_host = _lines_of(ours, theirs)
    host = "" if has_host else f"Host: {url.host}\r\n"
    return f"GET {url.target} HTTP/1.1\r\n{host}".encode() + lines


@lru_cache(maxsize=1_000)
def _lines_of(ours: Headers, theirs: Headers) -> tuple[bytes, bool]:
    """(all but the first line, is the host's name among them?)"""
    sent = {name.lower(): f"{name}: {value}" for name, value in (*ours, *theirs) if name.lower() not in OF_BODIES}
    if any(break_ in line for line in sent.values() for break_ in "\r\n\0"):
        raise ValueError("a header of the request has a line break in it")
    return "".join(f"{line}\r\n" for line in (*sent.values(), "")).encode(), "host" in sent
