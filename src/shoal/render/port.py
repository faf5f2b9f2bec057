"""What a renderer must offer; the visit knows no more than this.

A renderer opens one URL in a browser, in a fresh context, does what the job asks for, and brings the document home as
it stands then. It follows no redirect: that is a request of its own, as it is without a browser. Every way in which
this can fail becomes a `FetchError` with a stable reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from datetime import timedelta
from typing import Any, Protocol

from shoal.core.browsing import Browsing
from shoal.core.frozen import frozen
from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.fetch.port import Response

MAX_NOTES = 50
"""Console errors, and failed requests, that are kept of a page."""
MAX_NOTE = 500
"""Characters of one."""


async def _anywhere(_url: Url) -> bool:
    return True


@frozen
class Order:
    """One page to render, and within which bounds."""

    url: Url
    browsing: Browsing
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """For this origin; other origins get none of the secret ones."""
    secret_headers: frozenset[str] = frozenset()
    cookies: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    total: timedelta = timedelta(seconds=30)
    """For everything."""
    max_body: int = 10_000_000
    """Bytes of the main response, and of the document."""
    local: frozenset[str] = frozenset()
    """Hosts on this machine that may be asked."""
    proxy: Proxy | None = None
    pause: timedelta = timedelta()
    """Between the page and another one that it goes to on the same host."""
    may_go: Callable[[Url], Awaitable[bool]] = _anywhere
    """May the page go on to this URL of the same host? For robots.txt."""


@frozen
class Shot:
    """A picture or a print of a page."""

    kind: str
    """`screenshot` or `pdf`."""
    media_type: str
    body: bytes


@frozen
class Notes:
    """What was seen while a page was rendered."""

    console: tuple[str, ...] = ()
    """Errors that the page wrote to its console."""
    failed: tuple[str, ...] = ()
    """`https://… net::ERR_…` of requests that came to nothing, and `https://… why` of ways that were not gone."""
    blocked: int = 0
    """Requests that were not made: of a kind, to a host or beyond a number that the job leaves out."""
    requests: int = 0
    """Made, without the page's own."""
    received: int = 0
    """Bytes that came over the network: of the page and of all that it has loaded."""
    evaluated: tuple[Any, ...] = ()
    """What the scripts of the job returned, as JSON."""
    final_url: str = ""
    """Where the page stands in the end, when that is elsewhere (history, fragment, an action)."""
    unready: str = ""
    """`load` or `idle`, when that was waited for and did not come in time; the page was taken as it stood."""


@frozen
class Rendered:
    """A page as the browser has it."""

    response: Response
    """The main one: its body without content encodings, and without the headers that speak of them."""
    document: str = ""
    """The DOM, written out; empty for a redirect or anything that is no document."""
    shots: tuple[Shot, ...] = ()
    notes: Notes = Notes()
    further: int = 0
    """Pages of the host that it went on to: they count for the host's rate."""
    goes_to: str = ""
    """Where the page went by itself while it was loaded. It was not followed: to whoever reads this it is a redirect,
    and the response has a `location` that says the same."""

    @property
    def received(self) -> int:
        """Bytes, of the page and of what it has loaded; where nobody has counted, those of the page."""
        return self.notes.received or len(self.response.wire_body)

    @property
    def location(self) -> str:
        """Where it leads to instead of being a page; empty when it is one."""
        redirects = 300 <= self.response.status < 400
        return self.goes_to or (self.response.header("location") or "" if redirects else "")

    @property
    def is_refused(self) -> bool:
        """Is there neither a page nor the way to one?"""
        status = self.response.status
        return not 200 <= status < 300 and not (status < 400 and self.location)


@frozen
class RenderLoad:
    """What a renderer has under way."""

    browsers: int = 0
    pages: int = 0


class Renderer(Protocol):
    """Renders one page at a time for each call; several calls may be under way."""

    @property
    def load(self) -> RenderLoad:
        """Browsers that run, and pages in them."""
        ...

    async def render(self, order: Order) -> Rendered:
        """Open, wait, act, bring home; raises FetchError."""
        ...

    async def close(self) -> None:
        """End the browser and everything that belongs to it."""
        ...
