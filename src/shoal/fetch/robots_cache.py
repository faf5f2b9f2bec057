"""robots.txt by RFC 9309: one fetch per origin and process, shared by all who wait for it.

2xx is parsed (500 KiB of it), redirects are followed five times, 4xx means all is allowed, 5xx and silence mean that
nothing may be fetched until the file can be read.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from protego import Protego

from shoal.core.url import Base, Url
from shoal.errors import FetchError
from shoal.fetch.decode import decode_text
from shoal.fetch.port import Client, FetchLimits, Response

AGENT_TOKEN = "Shoal"
MAX_BYTES = 500 * 1024
MAX_UNPACKED = 10_000_000
MAX_REDIRECTS = 5
LIFETIME = timedelta(hours=12)
FAILURE_LIFETIME = timedelta(milliseconds=500)
MAX_ORIGINS = 10_000

_LIMITS = FetchLimits(total=timedelta(seconds=15), first_byte=timedelta(seconds=10), max_body=MAX_BYTES, truncate=True)


@dataclass(frozen=True, slots=True)
class Rules:
    """What an origin's robots.txt says; None: everything is allowed."""

    parsed: Protego | None

    def allow(self, url: str) -> bool:
        return self.parsed is None or self.parsed.can_fetch(url, AGENT_TOKEN)


@dataclass(frozen=True, slots=True)
class _Known:
    answer: asyncio.Task[Rules]
    until: float


class RobotsCache:
    """Asks each origin once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, _Known] = {}

    async def rules(self, url: Url) -> Rules:
        """The rules for a URL's origin; raises FetchError when they cannot be had."""
        known = self._known.get(url.origin)
        if known is None or (known.answer.done() and time.monotonic() > known.until):
            known = self._ask(url)
        return await asyncio.shield(known.answer)

    def _ask(self, url: Url) -> _Known:
        if len(self._known) >= MAX_ORIGINS:
            self._known.clear()
        task = asyncio.create_task(_fetch_rules(self._client, Url(url.scheme, url.host, "/robots.txt")))
        known = _Known(task, time.monotonic() + LIFETIME.total_seconds())
        self._known[url.origin] = known
        task.add_done_callback(lambda done: self._note_failure(url.origin, done))
        return known

    def _note_failure(self, origin: str, task: asyncio.Task[Rules]) -> None:
        if task.cancelled():
            self._known.pop(origin, None)
        elif task.exception() is not None:
            self._known[origin] = _Known(task, time.monotonic() + FAILURE_LIFETIME.total_seconds())


async def _fetch_rules(client: Client, url: Url) -> Rules:
    for _ in range(MAX_REDIRECTS + 1):
        response = await client.fetch(url, {}, _LIMITS)
        if not 300 <= response.status < 400:
            return _judge(response)
        target = Base(str(url)).join(response.header("location") or "")
        if target is None:
            break
        url = target
    return Rules(None)


def _judge(response: Response) -> Rules:
    if response.status >= 500 or response.status == 429:
        raise FetchError("robots_unreachable", f"robots.txt answered {response.status}")
    if response.status >= 400:
        return Rules(None)
    return Rules(Protego.parse(decode_text(_body(response)[:MAX_BYTES], "utf-8")))


def _body(response: Response) -> bytes:
    try:
        return response.unpacked(MAX_UNPACKED)
    except FetchError:
        return response.wire_body  # often it is plain text that only claims to be packed
