"""The HTTP client: GETs over lines of our own; aiohttp's sessions for proxies, and for what is posted."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.fetch.budget import Budget
from shoal.fetch.guard import Guard, unless_unknown
from shoal.fetch.lines import Lines, request_for
from shoal.fetch.outcomes import FAILURES, classify, without_frames
from shoal.fetch.port import FetchLimits, Response

if TYPE_CHECKING:
    from shoal.fetch.sessions import Sessions

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class HttpClient:
    """One per event loop; keeps connections alive between fetches."""

    def __init__(
        self, user_agent: str, guard: Guard, tls: ssl.SSLContext | None = None, budget: Budget | None = None
    ) -> None:
        """`tls`: whom to trust, when it is not those whom the system trusts; `budget`: for large bodies."""
        self._budget = budget or Budget()
        self._guard = guard
        self._tls = tls
        self._said = (("User-Agent", user_agent), ("Accept", ACCEPT), ("Accept-Encoding", ACCEPT_ENCODING))
        self._lines = Lines(guard, tls)
        self._local_lines: Lines | None = None
        self._kept_sessions: Sessions | None = None

    async def fetch(
        self,
        url: Url,
        headers: Mapping[str, str],
        limits: FetchLimits,
        proxy: Proxy | None = None,
        *,
        local: bool = False,
    ) -> Response:
        """GET one URL, through a proxy if one is given; raises FetchError."""
        if proxy is not None:
            return await self._sessions().fetch_through(proxy, url, headers, limits)
        started = time.perf_counter()
        deadline = asyncio.get_running_loop().time() + limits.total.total_seconds()
        try:
            if not self._guard.has_passed(url.hostname, local=local):
                async with asyncio.timeout_at(deadline):
                    await self._guard.check(url.hostname, local=local)
            lines = self._lines_for_local() if local else self._lines
            request = request_for(url, self._said, tuple(headers.items()))
            answer = await lines.ask(url, request, limits, deadline, self._budget.hold)
        except FAILURES as exc:
            raise classify(exc) from without_frames(exc)
        elapsed = timedelta(seconds=time.perf_counter() - started)
        body = answer.parts[0] if len(answer.parts) == 1 else b"".join(answer.parts)
        reason = answer.reason.decode("utf-8", "surrogateescape")
        return Response(url, answer.status, reason, tuple(answer.headers), body[: limits.max_body], elapsed)

    async def post(self, url: Url, headers: Mapping[str, str], body: bytes, limits: FetchLimits) -> Response:
        """POST to one URL, never through a proxy; follows nothing, and takes the beginning of the answer only.

        A server that has answered has answered, however long it goes on about it. Raises FetchError.
        """
        return await self._sessions().post(url, headers, body, limits)

    async def check(self, url: Url, *, local: bool = False) -> None:
        """Raise FetchError when the host may not be asked; a name that leads nowhere is none of this."""
        if not self._guard.has_passed(url.hostname, local=local):
            await unless_unknown(self._guard.check(url.hostname, local=local))

    async def find_address(self, host: str) -> str:
        """The first address that a host's name leads to; raises FetchError."""
        return min(await self._guard.find(Url("http", host, "/").hostname))

    async def close(self) -> None:
        """Close all connections."""
        await self._lines.close()
        if self._local_lines:
            await self._local_lines.close()
        if self._kept_sessions:
            await self._kept_sessions.close()
        self._guard.close()

    def _lines_for_local(self) -> Lines:
        """Connections to this machine are not shared with who may not have them."""
        if self._local_lines is None:
            self._local_lines = Lines(self._guard, self._tls, local=True)
        return self._local_lines

    def _sessions(self) -> Sessions:
        if self._kept_sessions is None:
            from shoal.fetch.sessions import Sessions  # with aiohttp, which most fetches do without

            self._kept_sessions = Sessions(self._guard, self._tls, self._budget, self._said)
        return self._kept_sessions
