"""What goes through aiohttp: messages that are posted, and all that is fetched through proxies."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta

import aiohttp
from yarl import URL

from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch import connectors
from shoal.fetch.budget import SMALL_BODY, Budget
from shoal.fetch.guard import Guard, unless_unknown
from shoal.fetch.line import MAX_HEAD_BYTES, MAX_HEADER_BYTES, MAX_HEADERS
from shoal.fetch.lines import KEEPALIVE_S, Headers
from shoal.fetch.outcomes import without_frames
from shoal.fetch.port import FetchLimits, Response
from shoal.fetch.proxied import (
    WANTS_LOGIN,
    WAY_ERRORS,
    Options,
    Passage,
    Ways,
    blame,
    carries_openly,
    login_headers,
    refusal,
)
from shoal.fetch.session_outcomes import FAILURES, classify

_PLAIN = Options()
MakeRoom = Callable[[int], Awaitable[None]]
BEGINNING_S = 2.0
"""For the beginning of an answer to a POST, which nobody needs but to see what is wrong."""


class Sessions:
    """One per event loop; keeps connections alive between requests."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, budget: Budget, said: Headers) -> None:
        self._guard = guard
        self._tls: ssl.SSLContext | bool = tls or True
        self._budget = budget
        self._said = dict(said)
        self._direct: aiohttp.ClientSession | None = None
        self._ways = Ways(self._make_session, guard, self._tls)
        self._timeouts: dict[FetchLimits, aiohttp.ClientTimeout] = {}

    async def post(self, url: Url, headers: Mapping[str, str], body: bytes, limits: FetchLimits) -> Response:
        """POST to one URL, never through a proxy; follows nothing, and takes the beginning of the answer only.

        A server that has answered has answered, however long it goes on about it. Raises FetchError.
        """
        passage = Passage()
        started = time.perf_counter()
        try:
            async with asyncio.timeout(limits.total.total_seconds()) as deadline:  # for the name, too
                await self._guard.check(url.hostname)
                async with self._direct_session().post(
                    URL(str(url), encoded=True),
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    timeout=self._timeout(limits),
                ) as answer:
                    passage.answered = True
                    _check_head(answer)
                    deadline.reschedule(None)
                    said = await _read_beginning(answer, limits.max_body)
                    elapsed = timedelta(seconds=time.perf_counter() - started)
                    return Response(url, answer.status, answer.reason or "", answer.raw_headers, said, elapsed)
        except FAILURES as exc:
            raise classify(exc, answered=passage.answered) from without_frames(exc)

    async def close(self) -> None:
        """Close all connections."""
        await self._ways.close()
        if self._direct is not None:
            await self._direct.close()

    def _direct_session(self) -> aiohttp.ClientSession:
        if self._direct is None:
            connector = connectors.to_hosts(self._guard, keepalive_timeout=KEEPALIVE_S, ssl=self._tls)
            self._direct = self._make_session(connector)
        return self._direct

    async def fetch_through(self, proxy: Proxy, url: Url, headers: Mapping[str, str], limits: FetchLimits) -> Response:
        """GET one URL through a proxy; raises FetchError."""
        passage = Passage()
        try:
            # It may know names that we do not; and of one that we know, take any address.
            check = self._guard.check if proxy.scheme == "socks5" else self._guard.check_all
            async with asyncio.timeout(limits.total.total_seconds()) as deadline:
                await unless_unknown(check(url.hostname))
                async with self._ways.through(proxy, passage) as (session, options):
                    sent = {**headers, **login_headers(proxy, url)}
                    response = await self._get(session, url, sent, limits, passage, deadline, options)
        except (*FAILURES, *WAY_ERRORS) as exc:
            error = blame(exc, passage, proxy, url) or classify(exc, answered=passage.answered)
            raise error from without_frames(exc)
        if response.status == WANTS_LOGIN and carries_openly(proxy, url):
            raise refusal(proxy)
        return response

    async def _get(
        self,
        session: aiohttp.ClientSession,
        url: Url,
        headers: Mapping[str, str],
        limits: FetchLimits,
        passage: Passage,
        deadline: asyncio.Timeout,
        options: Options = _PLAIN,
    ) -> Response:
        started = time.perf_counter()
        async with session.get(
            URL(str(url), encoded=True),
            headers=headers or None,
            allow_redirects=False,
            timeout=self._timeout(limits),
            **options,
        ) as answer:
            passage.answered = True
            _check_head(answer)
            body = await _read(answer, limits, lambda size: self._make_room(size, deadline))
            elapsed = timedelta(seconds=time.perf_counter() - started)
            return Response(url, answer.status, answer.reason or "", answer.raw_headers, body, elapsed)

    async def _make_room(self, size: int, deadline: asyncio.Timeout) -> None:
        """For a large body; the host is not to blame for the time that takes."""
        clock, until = asyncio.get_running_loop().time, deadline.when()
        left = None if until is None else until - clock()
        deadline.reschedule(None)
        await self._budget.hold(size)
        deadline.reschedule(None if left is None else clock() + left)

    def _make_session(self, connector: aiohttp.TCPConnector, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers=self._said,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            trace_configs=list(traces),
        )

    def _timeout(self, limits: FetchLimits) -> aiohttp.ClientTimeout:
        timeout = self._timeouts.get(limits)
        if timeout is None:
            timeout = aiohttp.ClientTimeout(
                total=None,  # that is ours
                sock_connect=limits.connect.total_seconds(),
                sock_read=limits.first_byte.total_seconds(),
            )
            self._timeouts[limits] = timeout
        return timeout


def _check_head(answer: aiohttp.ClientResponse) -> None:
    """What the parser lets pass."""
    size = sum(len(name) + len(value) for name, value in answer.raw_headers)
    if size > MAX_HEAD_BYTES:
        answer.close()
        raise FetchError("bad_http", f"{size} bytes of headers; at most {MAX_HEAD_BYTES} are taken")
    if not 100 <= answer.status <= 999:
        answer.close()
        raise FetchError("bad_http", f"{answer.status} is not a status of HTTP")


async def _read(answer: aiohttp.ClientResponse, limits: FetchLimits, make_room: MakeRoom) -> bytes:
    length = answer.content_length
    if length is not None and length <= limits.max_body:
        if length > SMALL_BODY:
            await make_room(_room_for(answer, length, limits))
        return await answer.read()
    if length is not None and not limits.truncate:
        answer.close()
        raise FetchError("too_large", f"a body of {length} bytes; at most {limits.max_body} are taken")
    parts: list[bytes] = []
    size = 0
    has_room = False
    async for part in answer.content.iter_any():
        size += len(part)
        parts.append(part)
        if size > limits.max_body:
            answer.close()
            if not limits.truncate:
                raise FetchError("too_large", f"a body of more than {limits.max_body} bytes")
            break
        if size > SMALL_BODY and not has_room:
            has_room = True
            await make_room(_room_for(answer, limits.max_body, limits))
    return b"".join(parts)[: limits.max_body]


async def _read_beginning(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """As much of an answer as comes soon; whatever is wrong with it then, its head was there."""
    said = bytearray()
    with suppress(TimeoutError, *FAILURES):
        async with asyncio.timeout(BEGINNING_S):
            while len(said) < most and (part := await answer.content.read(most - len(said))):
                said += part
    if not answer.content.at_eof():
        answer.close()
    return bytes(said)


def _room_for(answer: aiohttp.ClientResponse, length: int, limits: FetchLimits) -> int:
    """That such a body takes at most, with what is unpacked from it."""
    return length + (limits.max_body if "Content-Encoding" in answer.headers else 0)
