"""The HTTP client: aiohttp behind our port."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import aiohttp
from yarl import URL

from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch.answers import MAX_HEAD_BYTES
from shoal.fetch.budget import SMALL_BODY, Budget
from shoal.fetch.guard import Guard
from shoal.fetch.outcomes import FAILURES, classify, without_frames
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

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
MAX_HEADER_BYTES = 32_768
MAX_HEADERS = 256
"""Trailers count as well. Until a head is complete, this many of the longest are what a server can make us hold."""
_PLAIN = Options()
MakeRoom = Callable[[int], Awaitable[None]]
KEEPALIVE_S = 30.0
BEGINNING_S = 2.0
"""For the beginning of an answer to a POST, which nobody needs but to see what is wrong."""


class HttpClient:
    """One per event loop; keeps connections alive between fetches."""

    def __init__(
        self, user_agent: str, guard: Guard, tls: ssl.SSLContext | None = None, budget: Budget | None = None
    ) -> None:
        """`tls`: whom to trust, when it is not those whom the system trusts; `budget`: for large bodies."""
        self._budget = budget or Budget()
        self._user_agent = user_agent
        self._guard = guard
        self._tls: ssl.SSLContext | bool = tls or True
        self._session = self._make_session(guard.connector(keepalive_timeout=KEEPALIVE_S, ssl=self._tls))
        self._local_session: aiohttp.ClientSession | None = None
        self._ways = Ways(self._make_session, guard, self._tls)
        self._timeouts: dict[FetchLimits, aiohttp.ClientTimeout] = {}

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
            return await self._fetch_through(proxy, url, headers, limits)
        passage = Passage()
        try:
            async with asyncio.timeout(limits.total.total_seconds()) as deadline:  # for the name, too
                await self._guard.check(url.hostname, local=local)
                session = self._session_for_local() if local else self._session
                return await self._get(session, url, headers, limits, passage, deadline)
        except FAILURES as exc:
            raise classify(exc, answered=passage.answered) from without_frames(exc)

    async def post(self, url: Url, headers: Mapping[str, str], body: bytes, limits: FetchLimits) -> Response:
        """POST to one URL, never through a proxy; follows nothing, and takes the beginning of the answer only.

        A server that has answered has answered, however long it goes on about it. Raises FetchError.
        """
        passage = Passage()
        started = time.perf_counter()
        try:
            async with asyncio.timeout(limits.total.total_seconds()) as deadline:  # for the name, too
                await self._guard.check(url.hostname)
                async with self._session.post(
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

    async def check(self, url: Url, *, local: bool = False) -> None:
        """Raise FetchError when the host may not be asked; a name that leads nowhere is none of this."""
        await _unless_unknown(self._guard.check(url.hostname, local=local))

    async def find_address(self, host: str) -> str:
        """The first address that a host's name leads to; raises FetchError."""
        return min(await self._guard.find(_name_of(host)))

    async def close(self) -> None:
        """Close all connections."""
        await self._ways.close()
        await self._session.close()
        if self._local_session:
            await self._local_session.close()
        self._guard.close()

    def _session_for_local(self) -> aiohttp.ClientSession:
        """Connections to this machine are not shared with who may not have them."""
        if self._local_session is None:
            connector = self._guard.connector(local=True, keepalive_timeout=KEEPALIVE_S, ssl=self._tls)
            self._local_session = self._make_session(connector)
        return self._local_session

    async def _fetch_through(self, proxy: Proxy, url: Url, headers: Mapping[str, str], limits: FetchLimits) -> Response:
        passage = Passage()
        try:
            # It may know names that we do not; and of one that we know, take any address.
            check = self._guard.check if proxy.scheme == "socks5" else self._guard.check_all
            async with asyncio.timeout(limits.total.total_seconds()) as deadline:
                await _unless_unknown(check(url.hostname))
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
            headers={"User-Agent": self._user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING},
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


async def _unless_unknown(judgement: Coroutine[Any, Any, None]) -> None:
    """A name that leads nowhere is not judged here."""
    try:
        await judgement
    except FetchError as exc:
        if exc.reason == "blocked_address":
            raise


def _name_of(host: str) -> str:
    return URL(f"http://{host}/").host or host


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
