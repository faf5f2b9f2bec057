"""Which visits have a fetch under way: what was leased and has not been asked for yet can be given back at once.

A visit is told by a variable of its context, which tasks that it starts inherit: who fetches a robots.txt for the sake
of a visit fetches for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

from shoal.core.model import Lease
from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch.port import Client, FetchLimits, Response
from shoal.render.port import Order, Rendered, Renderer, RenderLoad

Visit = tuple[int, int]
"""Group and index of its lease."""
_VISIT: ContextVar[Visit | None] = ContextVar("visit", default=None)


class Flights:
    """A client, and a renderer, that knows for which visits it is on the way."""

    def __init__(self, client: Client, renderer: Renderer | None = None) -> None:
        self._client = client
        self._renderer = renderer
        self._flying: dict[Visit | None, int] = {}

    @property
    def load(self) -> RenderLoad:
        """What is in browsers now."""
        return self._renderer.load if self._renderer else RenderLoad()

    def board(self, lease: Lease) -> None:
        """The task that runs now is the visit of this lease."""
        _VISIT.set((lease.group, lease.index))

    def has(self, lease: Lease) -> bool:
        """Is a fetch under way for its visit?"""
        return (lease.group, lease.index) in self._flying

    async def fetch(
        self,
        url: Url,
        headers: Mapping[str, str],
        limits: FetchLimits,
        proxy: Proxy | None = None,
        *,
        local: bool = False,
    ) -> Response:
        visit = self._depart()
        try:
            return await self._client.fetch(url, headers, limits, proxy, local=local)
        finally:
            self._arrive(visit)

    async def render(self, order: Order) -> Rendered:
        """As the renderer does; raises FetchError when this process has none."""
        if self._renderer is None:
            raise FetchError("browser_missing", "this worker has no browser")
        visit = self._depart()
        try:
            return await self._renderer.render(order)
        finally:
            self._arrive(visit)

    async def check(self, url: Url, *, local: bool = False) -> None:
        await self._client.check(url, local=local)

    async def find_address(self, host: str) -> str:
        return await self._client.find_address(host)

    async def close(self) -> None:
        try:
            if self._renderer:
                await self._renderer.close()
        finally:
            await self._client.close()

    def _depart(self) -> Visit | None:
        visit = _VISIT.get()
        self._flying[visit] = self._flying.get(visit, 0) + 1
        return visit

    def _arrive(self, visit: Visit | None) -> None:
        left = self._flying[visit] - 1
        if left:
            self._flying[visit] = left
        else:
            del self._flying[visit]
