"""What a client of the web must offer; the slice knows no more than this.

A client connects, sends one GET, follows nothing, keeps the body as it came on the wire, and turns every way in which
that can fail into a `FetchError` with a stable reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from functools import lru_cache
from typing import Protocol

from shoal.core.frozen import frozen
from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.fetch.decode import find_charset, unpack

_ENCODING = b"content-encoding"
_TYPE_CHARS = 300
"""Of a `Content-Type`, that are looked at."""


@frozen
class FetchLimits:
    """Deadlines and caps of one fetch."""

    connect: timedelta = timedelta(seconds=10)
    first_byte: timedelta = timedelta(seconds=20)
    """Also the longest silence within a body."""
    total: timedelta = timedelta(seconds=30)
    max_body: int = 10_000_000
    truncate: bool = False
    """Take the beginning of a body that is too large, instead of refusing it."""


@frozen
class Response:
    """One answer of a server, as it came on the wire."""

    url: Url
    status: int
    http_reason: str
    headers: tuple[tuple[bytes, bytes], ...]
    wire_body: bytes
    elapsed: timedelta
    _type: str | None = field(default=None, init=False, repr=False, compare=False)
    """What `content_type` has found: it is asked for several times a page."""

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        wanted, size = name.lower().encode(), len(name)
        for key, value in self.headers:
            if len(key) == size and key.lower() == wanted:
                return value.decode("latin-1")
        return None

    @property
    def content_type(self) -> str:
        if self._type is None:
            object.__setattr__(self, "_type", (self.header("content-type") or "").strip())
        return self._type or ""

    @property
    def media_type(self) -> str:
        return media_type_of(self.content_type[:_TYPE_CHARS])

    def unpacked(self, cap: int) -> bytes:
        """The body without its content encodings."""
        size = len(_ENCODING)
        lines = [value for key, value in self.headers if len(key) == size and key.lower() == _ENCODING]
        return unpack(self.wire_body, b",".join(lines).decode("latin-1"), cap) if lines else self.wire_body

    def charset(self, body: bytes) -> str:
        return find_charset(self.content_type, body)


@lru_cache(maxsize=1000)
def media_type_of(content_type: str) -> str:
    """Of a `Content-Type`, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


class Client(Protocol):
    """Fetches one URL."""

    async def fetch(
        self,
        url: Url,
        headers: Mapping[str, str],
        limits: FetchLimits,
        proxy: Proxy | None = None,
        *,
        local: bool = False,
    ) -> Response:
        """GET one URL, through a proxy if one is given; raises FetchError.

        `local`: it may be on this machine, as the person at its command line has said.
        """
        ...

    async def check(self, url: Url, *, local: bool = False) -> None:
        """Raise FetchError when the host may not be asked."""
        ...

    async def find_address(self, host: str) -> str:
        """The address that a host's name leads to; raises FetchError."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
