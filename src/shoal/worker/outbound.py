"""The way out: a fetch goes to the host straight, or through a proxy of the job's pool."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from shoal.core.proxies import Proxy, Verdict, verdict_of
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch.port import Client, FetchLimits, Response
from shoal.render.port import Order, Rendered, Renderer
from shoal.worker.context import JobContext
from shoal.worker.proxies import ProxyLender

SLACK = timedelta(seconds=10)
"""A loan lasts this much longer than the fetch may."""


@dataclass(slots=True)
class _Way:
    """How to reach a host this time, and how that went."""

    proxy: Proxy | None
    verdict: Verdict = Verdict.NONE

    def answered(self, response: Response) -> None:
        self.verdict = verdict_of(None if response.status < 400 else FetchError(f"http_{response.status}"))


class Outbound:
    """Fetches and renders for jobs."""

    def __init__(self, client: Client, lender: ProxyLender, renderer: Renderer | None = None) -> None:
        self._client = client
        self._renderer = renderer
        self._lender = lender

    async def fetch(self, context: JobContext, url: Url, headers: Mapping[str, str], limits: FetchLimits) -> Response:
        """GET one URL the way the job wants it; raises FetchError."""
        if context.spec.proxies is None:
            return await self._client.fetch(url, headers, limits, local=url.host in context.local)
        async with self._way(context, url, limits.total) as way:
            response = await self._client.fetch(url, headers, limits, way.proxy)
            way.answered(response)
            return response

    async def render(self, context: JobContext, order: Order) -> Rendered:
        """Render one page the way the job wants it; raises FetchError."""
        if self._renderer is None:
            raise FetchError("browser_missing", "this worker has no browser")
        async with self._way(context, order.url, order.total) as way:
            rendered = await self._renderer.render(replace(order, proxy=way.proxy))
            way.answered(rendered.response)
            return rendered

    @asynccontextmanager
    async def _way(self, context: JobContext, url: Url, total: timedelta) -> AsyncGenerator[_Way]:
        """Straight, or through a proxy that is lent for this time, and about which is told how it did."""
        pool = context.spec.proxies
        if pool is None:
            yield _Way(None)
            return
        loan = await self._lender.borrow(context.job, pool, url, total + SLACK)
        way = _Way(loan.proxy)
        try:
            yield way
        except FetchError as exc:
            way.verdict = verdict_of(exc)
            raise
        finally:
            self._lender.give_back(loan, way.verdict)

    async def check(self, context: JobContext, url: Url) -> None:
        """Raise FetchError when the job may not ask this host."""
        await self._client.check(url, local=url.host in context.local)

    async def find_address(self, host: str) -> str:
        """Where a host lives; raises FetchError."""
        return await self._client.find_address(host)

    async def settle(self) -> None:
        """What was borrowed is returned; at the end of a slice."""
        await self._lender.close()
