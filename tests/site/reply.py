"""What a site answers: a `Reply` is a value, complete before the server writes its first byte.

Every sample site is a `Responder`: a pure function of the request target and of how many times that
target has been asked for so far, counting this request, so the first request has `hits == 1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """One response; `drop` closes the connection, halfway through the body when there is one."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    delay: float = 0.0
    drop: bool = False

    def header(self, name: str) -> str | None:
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)


class Responder(Protocol):
    """Anything the server can serve."""

    def respond(self, target: str, hits: int, /) -> Reply: ...


@runtime_checkable
class Located(Protocol):
    """A site whose pages contain its own absolute address, and so differ from host to host."""

    def at(self, origin: str, /) -> Responder: ...


@runtime_checkable
class Heeding(Protocol):
    """A site that answers by what the client sends along: names of headers are in lower case."""

    def heed(self, target: str, hits: int, headers: Mapping[str, str], /) -> Reply: ...


def page(text: str, *, status: int = 200, delay: float = 0.0) -> Reply:
    return Reply(status, (("Content-Type", HTML),), text.encode(), delay)


def plain(text: str, *, status: int = 200) -> Reply:
    return Reply(status, (("Content-Type", "text/plain; charset=utf-8"),), text.encode())


def redirect(location: str, status: int = 302) -> Reply:
    return Reply(status, (("Location", location),))


def nth(replies: tuple[Reply, ...], hits: int) -> Reply:
    """The reply to the request number `hits`; the last one repeats for ever."""
    return replies[min(hits, len(replies)) - 1]


DROPPED = Reply(status=0, drop=True)
NOT_FOUND = page("<!doctype html><title>Not found</title><h1>Not found</h1>", status=404)
