"""What a client of the web must offer; the slice knows no more than this.

A client connects, sends one GET, follows nothing, keeps the body as it came on the wire, and turns every way in which
that can fail into a `FetchError` with a stable reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.fetch.decode import find_charset, unpack


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Deadlines and caps of one fetch."""

    connect: timedelta = timedelta(seconds=10)
    first_byte: timedelta = timedelta(seconds=20)
    """Also the longest silence within a body."""
    total: timedelta = timedelta(seconds=30)
    max_body: int = 10_000_000
    truncate: bool = False
    """Take the beginning of a body that is too large, instead of refusing it."""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer of a server, as it came on the wire."""

    url: Url
    status: int
    http_reason: str
    headers: tuple[tuple[bytes, bytes], ...]
    wire_body: bytes
    elapsed: timedelta

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        wanted = name.lower().encode()
        for key, value in self.headers:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return None

    @property
    def content_type(self) -> str:
        return (self.header("content-type") or "").strip()

    @property
    def media_type(self) -> str:
        return self.content_type.partition(";")[0].strip().lower()

    def unpacked(self, cap: int) -> bytes:
        """The body without its content encodings."""
        lines = [value for key, value in self.headers if key.lower() == b"content-encoding"]
        encoding = b",".join(lines).decode("latin-1")
        return unpack(self.wire_body, encoding, cap) if encoding else self.wire_body

    def charset(self, body: bytes) -> str:
        return find_charset(self.content_type, body)


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
