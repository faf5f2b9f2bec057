"""The way to one robots.txt: the file and the redirects before it, each of which takes a turn of its host.

2xx is read (500 KiB of it), redirects are followed five times, other 3xx and 4xx say that there is none; 429, 5xx and
silence say nothing, and the caller has to come again.
"""

from __future__ import annotations

import asyncio
import re
import time
from datetime import timedelta
from typing import Protocol

from shoal.core.frozen import frozen
from shoal.core.retry import parse_retry_after
from shoal.core.robots import MAX_BYTES, RobotsCopy, version_of
from shoal.core.url import Base, Url
from shoal.errors import FetchError
from shoal.fetch.port import FetchLimits, Response

MAX_UNPACKED = 10_000_000
MAX_REDIRECTS = 5
LONGEST_TURN = timedelta(seconds=5)
"""A redirect waits no longer for its turn: of a slow host the next page comes later instead."""
TOTAL = timedelta(seconds=15)
"""For the file and all redirects on the way to it."""
LIFETIME = timedelta(hours=12)
SHORTEST_LIFETIME = timedelta(minutes=5)
ABOUT_PROXY = "proxy_"
"""So begin the reasons that are about the job's way out, and tell nothing about the host."""

# A byte more than is read tells a file that was cut off from one that ends there.
_LIMITS = FetchLimits(total=TOTAL, first_byte=timedelta(seconds=10), max_body=MAX_BYTES + 1, truncate=True)
_MAX_AGE = re.compile(r"""(?:^|[\s,])max-age\s*=\s*"?([0-9]{1,12})""", re.IGNORECASE)


class Shelf(Protocol):
    """The copies that all workers share."""

    async def load(self, origin: str) -> RobotsCopy | None:
        """The last copy, however old."""
        ...

    async def claim(self, origin: str) -> bool:
        """May we fetch it? Only one worker at a time may."""
        ...

    async def remind(self, origin: str, crawl_delay: float) -> None:
        """A copy on the shelf asks for this; it may have been forgotten."""
        ...

    async def turn(self, host: str) -> timedelta | None:
        """Take a turn on a host that a redirect leads to: the time until then, None when it must not be asked now."""
        ...

    async def give_up(self, origin: str) -> None:
        """It could not be fetched: others may try."""
        ...

    async def save(self, copy: RobotsCopy, crawl_delay: float | None) -> None:
        """Keep a copy that was fetched, and the delay that it asks of us."""
        ...


class Fetch(Protocol):
    """One polite GET."""

    async def __call__(self, url: Url, limits: FetchLimits) -> Response:
        """Raises FetchError."""
        ...


@frozen
class Asked:
    """One request on the way to a robots.txt."""

    url: Url
    status: int
    """0 when there was no answer."""
    reason: str
    """Why there was none; else empty."""
    elapsed: timedelta
    at_ms: int


class RobotsInquiry:
    """The way to one robots.txt."""

    def __init__(self, url: Url, fetch: Fetch, shelf: Shelf) -> None:
        self._url = url
        self._fetch = fetch
        self._shelf = shelf
        self.hops: list[Asked] = []

    async def copy(self) -> RobotsCopy:
        """What is there now; raises FetchError when that cannot be found out."""
        try:
            response = await self._last_answer()
        except TimeoutError as exc:
            seconds = TOTAL.total_seconds()
            raise FetchError("timeout_total", f"robots.txt was not there after {seconds:g} s") from exc
        status = response.status
        if not settles(status):
            retry_after = parse_retry_after(response.header("retry-after"), response.header("date"))
            raise FetchError("robots_unreachable", f"robots.txt answered {status}", retry_after=retry_after)
        body = _body(response) if 200 <= status < 300 else b""
        at_ms = now_ms()
        until_ms = at_ms + ms(_lifetime(response))
        return RobotsCopy(self._url.origin, status, version_of(body), at_ms, until_ms, body)

    async def _last_answer(self) -> Response:
        """Of a chain of redirects; the last of them, when it is too long or leads nowhere."""
        url = self._url
        async with asyncio.timeout(TOTAL.total_seconds()):
            response = await self._hop(url)
            for _ in range(MAX_REDIRECTS):
                target = _redirect(url, response)
                if target is None:
                    break
                url = target
                await self._wait_for(url.host)
                response = await self._hop(url)
        return response

    async def _wait_for(self, host: str) -> None:
        """Redirects are requests as well, also to the host that sent them."""
        turn = await self._shelf.turn(host)
        if turn is None:
            raise FetchError("robots_unreachable", f"robots.txt is at {host}, which must not be asked now")
        await asyncio.sleep(min(turn, LONGEST_TURN).total_seconds())

    async def _hop(self, url: Url) -> Response:
        at_ms, started = now_ms(), time.monotonic()

        def note(status: int, reason: str) -> None:
            elapsed = timedelta(seconds=time.monotonic() - started)
            self.hops.append(Asked(url, status, reason, elapsed, at_ms))

        try:
            response = await self._fetch(url, _LIMITS)
        except FetchError as exc:
            if not exc.reason.startswith(ABOUT_PROXY):
                note(0, exc.reason)
            raise
        except asyncio.CancelledError:
            note(0, "timeout_total")
            raise
        note(response.status, "")
        return response


def settles(status: int) -> bool:
    """Is it an answer, and not a server in trouble?"""
    return 200 <= status < 500 and status != 429


def _redirect(url: Url, response: Response) -> Url | None:
    location = response.header("location") if 300 <= response.status < 400 else None
    return None if location is None else Base(str(url)).join(location)


def _body(response: Response) -> bytes:
    try:
        body = response.unpacked(MAX_UNPACKED)
    except FetchError as exc:
        if exc.reason == "too_large":
            raise
        body = response.wire_body  # often it is plain text that only claims to be packed
    return body[: MAX_BYTES + 1]


def _lifetime(response: Response) -> timedelta:
    lines = (value.decode("latin-1") for name, value in response.headers if name.lower() == b"cache-control")
    match = _MAX_AGE.search(",".join(lines))
    if match is None:
        return LIFETIME
    return min(LIFETIME, max(SHORTEST_LIFETIME, timedelta(seconds=int(match[1]))))


def ms(span: timedelta) -> int:
    """Whole milliseconds."""
    return span // timedelta(milliseconds=1)


def now_ms() -> int:
    """Of the clock on the wall."""
    return time.time_ns() // 1_000_000
