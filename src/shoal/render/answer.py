"""The head of an answer to a page's own request, as the browser was about to take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from shoal.core.frozen import frozen
from shoal.core.url import Url
from shoal.fetch.port import Response

DOCUMENTS = ("text/html", "application/xhtml+xml", "")
"""Media types that are rendered; where a server names none, the browser finds out."""
REASON_HEADER = "x-shoal-reason"
"""The gate's own answers have it."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_EMPTY = frozenset({204, 205, 304})
_ABOUT_THE_WIRE = frozenset({b"content-encoding", b"transfer-encoding", b"content-length"})


@frozen
class Answer:
    """Status and headers."""

    status: int
    http_reason: str
    headers: tuple[tuple[bytes, bytes], ...]
    elapsed: timedelta

    def header(self, name: str) -> str:
        """The first header of this name."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), "")

    @property
    def is_redirect(self) -> bool:
        return self.status in _REDIRECTS

    @property
    def is_empty(self) -> bool:
        return self.status in _EMPTY

    @property
    def is_document(self) -> bool:
        return not self.is_empty and self.header("content-type").partition(";")[0].strip().lower() in DOCUMENTS

    @property
    def is_attachment(self) -> bool:
        return self.header("content-disposition").partition(";")[0].strip().lower() == "attachment"

    @property
    def length(self) -> int:
        """The bytes of the body, as the server says; 0 when it does not, or of a packed one."""
        length = self.header("content-length").strip()
        return int(length) if length.isascii() and length.isdigit() and not self.header("content-encoding") else 0

    def response(self, url: Url, body: bytes, location: str = "") -> Response:
        """The whole answer, without the headers that speak of the wire; `location` is added to them."""
        kept = [pair for pair in self.headers if pair[0].lower() not in _ABOUT_THE_WIRE]
        if location:
            kept = [pair for pair in kept if pair[0].lower() != b"location"] + [(b"location", location.encode())]
        return Response(url, self.status, self.http_reason, tuple(kept), body, self.elapsed)


def read_headers(pairs: Iterable[Mapping[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    """As the browser tells them: several of one name may stand in one, a line each."""
    return tuple(
        (pair["name"].encode("latin-1", "replace"), line.encode("latin-1", "replace"))
        for pair in pairs
        for line in pair["value"].split("\n")
    )
