"""The way out: a fetch goes to the host straight, or through a proxy of the job's pool."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from shoal.core.proxies import Verdict, verdict_of
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch.port import Client, FetchLimits, Response
from shoal.worker.context import JobContext
from shoal.worker.proxies import ProxyLender

SLACK = timedelta(seconds=10)
"""A loan lasts this much longer than the fetch may."""


class Outbound:
    """Fetches for jobs."""

    def __init__(self, client: Client, lender: ProxyLender) -> None:
        self._client = client
        self._lender = lender

    async def fetch(self, context: JobContext, url: Url, headers: Mapping[str, str], limits: FetchLimits) -> Response:
        """GET one URL the way the job wants it; raises FetchError."""
        pool = context.spec.proxies
        if pool is None:
            return await self._client.fetch(url, headers, limits, local=url.host in context.local)
        loan = await self._lender.borrow(context.job, pool, url, limits.total + SLACK)
        verdict = Verdict.NONE
        try:
            response = await self._client.fetch(url, headers, limits, loan.proxy)
            verdict = verdict_of(None if response.status < 400 else FetchError(f"http_{response.status}"))
            return response
        except FetchError as exc:
            verdict = verdict_of(exc)
            raise
        finally:
            self._lender.give_back(loan, verdict)

    async def check(self, context: JobContext, url: Url) -> None:
        """Raise FetchError when the job may not ask this host."""
        await self._client.check(url, local=url.host in context.local)

    async def find_address(self, host: str) -> str:
        """Where a host lives; raises FetchError."""
        return await self._client.find_address(host)

    async def settle(self) -> None:
        """What was borrowed is returned; at the end of a slice."""
        await self._lender.close()
