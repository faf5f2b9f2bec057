"""Proxies for the requests of one process: borrowed and returned in batches, never one by one.

Wants that come within a few milliseconds go to Redis in one call, from the thread pool; so do returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Generic, TypeVar

import structlog

from shoal.core.frozen import frozen
from shoal.core.proxies import Choice, Proxy, ProxyPool, Verdict
from shoal.core.url import Url
from shoal.errors import FetchError, InputError, Unavailable
from shoal.frontier.proxies import LOAN, Lent, ProxyDesk, Return, Want
from shoal.log_names import of_no_visit
from shoal.proxy_pools import ProxyPools
from shoal.worker.threads import in_thread

log = structlog.get_logger()

COMPANY_S = 0.005
"""A want or a return waits this long for others."""
BATCH = 64
AWAY_RETRY = timedelta(seconds=5)
"""When Redis does not answer."""
UNKNOWN_RETRY = timedelta(seconds=15)
"""When this worker does not know the pool; others may."""

T = TypeVar("T")


@frozen
class Loan:
    """A proxy for one fetch; give it back with a verdict."""

    proxy: Proxy
    lent: Lent
    cool_down: timedelta


@frozen
class _Waiting:
    want: Want
    choice: Choice
    found: asyncio.Future[Lent | timedelta]


class ProxyLender:
    """Lends proxies within one process. Made for one event loop; usable again after `close`."""

    def __init__(self, desk: ProxyDesk, pools: ProxyPools, threads: ThreadPoolExecutor) -> None:
        self._desk = desk
        self._pools = pools
        self._threads = threads
        self._wants = _Batches[_Waiting](self._borrow_all)
        self._returns = _Batches[Return](self._return_all)

    async def borrow(self, job: str, pool: str | ProxyPool, url: Url, lasts: timedelta = LOAN) -> Loan:
        """A proxy for one fetch that takes at most `lasts`; raises FetchError `proxy_wait` when none has room."""
        chosen = await self._pool(pool)
        choice = chosen.choose(url, job)
        want = Want(
            choice.group, choice.names, choice.sticky, chosen.requests_at_once, chosen.requests_per_second, lasts
        )
        waiting = _Waiting(want, choice, asyncio.get_running_loop().create_future())
        self._wants.add(waiting)
        cool_down = timedelta(seconds=chosen.cool_down)
        try:
            found = await waiting.found
        except asyncio.CancelledError:
            waiting.found.add_done_callback(lambda done: self._return_unused(done, cool_down))
            raise
        if isinstance(found, timedelta):
            raise FetchError("proxy_wait", "no proxy of the pool has room at the moment", retry_after=found)
        return Loan(choice.proxies[found.proxy], found, cool_down)

    def give_back(self, loan: Loan, verdict: Verdict) -> None:
        """The fetch is over: `verdict_of(error)` says how the proxy did."""
        self._returns.add(Return(loan.lent, verdict, loan.cool_down))

    async def close(self) -> None:
        """Return all that was given back; at the end of a slice, for the loop does not run between two."""
        await self._wants.drain()
        await self._returns.drain()

    async def _pool(self, pool: str | ProxyPool) -> ProxyPool:
        try:
            chosen = self._pools.get(pool) if isinstance(pool, str) else pool
            if not chosen.is_read:
                await self._in_thread(lambda: chosen.names)
        except InputError as exc:
            log.warning("proxy_pool_unknown", error=str(exc), hint="is this worker on the same SHOAL_PROXIES_FILE?")
            raise FetchError("proxy_wait", str(exc), retry_after=UNKNOWN_RETRY) from exc
        return chosen

    async def _borrow_all(self, waiting: Sequence[_Waiting]) -> None:
        wants = [each.want for each in waiting]
        try:
            found = await self._in_thread(lambda: self._desk.borrow(wants))
        except Unavailable as exc:
            log.warning("proxies_not_lent", error=str(exc))
            found = [AWAY_RETRY] * len(wants)
        except Exception as exc:
            log.exception("proxies_not_lent", error=str(exc))
            for each in waiting:
                if not each.found.done():
                    each.found.set_exception(exc)
            return
        for each, answer in zip(waiting, found, strict=True):
            if not each.found.done():
                each.found.set_result(answer)
            elif isinstance(answer, Lent):  # nobody waits for it any more
                self._returns.add(Return(answer, Verdict.NONE, AWAY_RETRY))

    async def _return_all(self, returns: Sequence[Return]) -> None:
        try:
            await self._in_thread(lambda: self._desk.give_back(returns))
        except Unavailable as exc:
            log.warning("proxies_not_returned", error=str(exc))  # the loans run out
        except Exception as exc:
            log.exception("proxies_not_returned", error=str(exc))

    def _return_unused(self, done: asyncio.Future[Lent | timedelta], cool_down: timedelta) -> None:
        """Cancelled in the moment in which it came."""
        if not done.cancelled() and isinstance(lent := done.result(), Lent):
            self._returns.add(Return(lent, Verdict.NONE, cool_down))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await in_thread(self._threads, call)


class _Batches(Generic[T]):
    """Collects things for a moment and hands them on, one batch after the other."""

    def __init__(self, send: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        self._send = send
        self._items: list[T] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, item: T) -> None:
        self._items.append(item)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), context=of_no_visit())

    async def drain(self) -> None:
        """Until all is handed on."""
        while self._task is not None and not self._task.done():
            await self._task

    async def _run(self) -> None:
        while self._items:
            if len(self._items) < BATCH:
                await asyncio.sleep(COMPANY_S)
            batch, self._items = self._items[:BATCH], self._items[BATCH:]
            await self._send(batch)
