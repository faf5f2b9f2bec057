"""One run of the Celery task: lease, fetch, store, settle, for a bounded time.

The loop keeps up to `sockets` visits under way. Leases and deliveries are calls of the sync core in a small thread
pool, one per batch; renewals have a thread of their own, which no store can block. While a store refuses, nothing more
is leased, and everybody is told. The slice ends when its time is up, when it is told to stop, or when nothing is under
way and nothing will be due soon; whatever is unfinished then is given back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import structlog

from shoal.core.domain import registrable_domain
from shoal.core.model import Engine, Lane, Lease, LeaseBatch, Mark, Outcome, is_for_browser
from shoal.core.retry import signal_of
from shoal.errors import FetchError, Unavailable
from shoal.log_names import name_visit
from shoal.worker.context import JobContext, request_id_of
from shoal.worker.deliverer import Deliverer
from shoal.worker.desk import Desk
from shoal.worker.drain import Drain
from shoal.worker.earlier import EarlierPage
from shoal.worker.grace import Grace, StopSign
from shoal.worker.kit import SliceLimits, SliceReport, SliceTools
from shoal.worker.outage import Outages, Place
from shoal.worker.renewal import renew_all
from shoal.worker.result import Result, given_up, put_off
from shoal.worker.stored import StoredPage

log = structlog.get_logger()

POLL_S = 0.1
"""A slice with free sockets looks for new and urgent work this often."""
SOON_S = 0.005
"""The same where nothing waits that it could have, but results are to be delivered: each part of their links is work at
once. Twice as long after each look that finds nothing."""
LINGER_S = 1.0
"""Stay for work that is due within this time."""
MAX_BACKOFF_S = 5.0
RING_EVERY_S = 0.5
"""While there is more to do than one slice can, call others this often."""
UNKNOWN_JOB_DELAY = timedelta(seconds=15)
INTRODUCE_DELAY = timedelta(seconds=1)
"""Before a host whose name leads nowhere is looked up again."""
UNPROVEN = 4
"""Sockets for a host without a cap until it has answered: fifty that swallow connections must not take them all."""
MAX_PILE = 4
"""Undelivered results for each socket, beyond which nothing more is leased."""
LAST_LEASE_S = 0.5
"""Who is told to stop waits so long for a lease that is under way, to give it back."""


class Slice:
    """A bounded run of work in one event loop."""

    def __init__(self, tools: SliceTools, limits: SliceLimits, contexts: dict[str, JobContext]) -> None:
        self._tools = tools
        self._limits = limits
        self._contexts = contexts
        self._desk = Desk()
        self._report = SliceReport()
        self._sign = StopSign(Grace(limits.grace))
        self._ring_again = 0.0
        self._steady = ThreadPoolExecutor(1, thread_name_prefix="renew")
        """For calls of Redis that must not wait behind those of the database."""
        self._outages = Outages(tools.frontier.board, self._steady)
        self._deliverer = Deliverer(tools, self._desk, contexts, self._outages, self._report)
        self._drain = Drain(tools, limits, self._desk, self._sign, self._report, self._steady)

    @property
    def report(self) -> SliceReport:
        """What was done so far; it goes on."""
        return self._report

    @property
    def is_full(self) -> bool:
        """Has it hardly room for more? Not while it waits for a store."""
        in_hand = len(self._desk.visits) + self._desk.undelivered
        return in_hand >= max(1, self._limits.sockets - self._least_batch()) and not self._outages.keep_from_storing

    def stop(self) -> None:
        """Lease nothing more, finish what is under way within the grace period."""
        self._sign.put_up()
        self._desk.wake()

    async def run(self) -> SliceReport:
        """Work until the slice is over."""
        renewal = renew_all(self._tools.frontier, self._desk, self._limits.lease_for, self._outages, self._steady)
        work = (self._deliverer.run(), renewal, self._outages.tell_all())
        helpers = [asyncio.create_task(each) for each in work]
        helpers[0].add_done_callback(self._delivered)
        try:
            await self._lease_all_or_stop()
            await self._drain.run(helpers[0])
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await self._drain.leave(but=self._deliverer.undeliverable)
            with suppress(TimeoutError):
                await self._sign.within(self._outages.end())
            self._steady.shutdown(wait=False)
            self._tools.traces.end()
            self._deliverer.log_jobs()
        return self._report

    def _delivered(self, deliverer: asyncio.Task[None]) -> None:
        """Nobody delivers any more: whatever is fetched from now on would be fetched for nothing."""
        if not deliverer.cancelled():
            self.stop()

    # --- leasing ------------------------------------------------------------------------------------------------

    async def _lease_all_or_stop(self) -> None:
        """A lease that is under way when the slice is told to stop, and does not come soon, is not waited for."""
        try:
            await self._sign.within(self._lease_all(), LAST_LEASE_S)
        except TimeoutError:
            self._report.work_remains = True

    async def _lease_all(self) -> None:
        deadline = time.monotonic() + self._limits.length.total_seconds()
        backoff, soon = POLL_S, SOON_S
        while not self._sign.up and time.monotonic() < deadline:
            if self._free() < self._least_batch():
                await self._desk.wait(POLL_S)  # for a batch worth a call; then a small one is better than idle sockets
            free = self._free()
            if free <= 0:
                continue
            idle = self._desk.empty  # before the call: what is delivered meanwhile may bring new work
            try:
                batch = await self._lease(free)
                self._outages.over(Place.LEASE)
                backoff = POLL_S
            except Unavailable as exc:
                self._outages.met(Place.LEASE, exc)
                log.warning("lease_failed", error=str(exc), retry_s=backoff)
                await self._sign.wait(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_S)
                continue
            self._desk.is_dry = batch.next_due is None and len(batch.leases) < free
            if idle and _brings_nothing(batch):
                return
            if batch.leases:
                soon = SOON_S
            if len(batch.leases) < free:
                hurried = self._desk.brings_work
                await self._desk.wait(soon if hurried else _pause(batch))
                soon = min(2 * soon, POLL_S) if hurried else SOON_S
        self._report.work_remains = True

    def _free(self) -> int:
        """Sockets to lease for; none while results cannot be delivered."""
        if self._outages.keep_from_storing or self._desk.undelivered > self._limits.sockets * MAX_PILE:
            return 0
        return self._limits.sockets - len(self._desk.visits)

    def _least_batch(self) -> int:
        return max(1, self._limits.sockets // 4)

    async def _lease(self, free: int) -> LeaseBatch:
        limits = self._limits
        most = self._most()

        def lease() -> LeaseBatch:
            batch = self._tools.frontier.lease(
                queues=limits.queues, limit=free, lease_for=limits.lease_for, most=most, unproven=UNPROVEN
            )
            self._desk.arriving = batch.leases  # here, for whoever waits for it may have been told to stop
            return batch

        batch = await self._tools.in_thread(lease)
        if not batch.trusted:
            await self._tools.in_thread(self._tools.look)
        for context in self._contexts.values():
            context.links.leased_from(batch.server)
        await self._start_all(batch)
        await self._tools.finalise_all(batch.ended)
        if batch.expired:
            await self._reap()
        if len(batch.leases) == free and batch.next_due == timedelta() and time.monotonic() >= self._ring_again:
            self._ring_again = time.monotonic() + RING_EVERY_S
            await self._tools.in_thread(self._tools.ring)
        return batch

    def _most(self) -> dict[str, int]:
        """Slow hosts get a part of the sockets, so that fast ones need not wait for them; so does the browser."""
        limits, most, serving = self._limits, dict[str, int](), self._desk.serving()
        if limits.slow_sockets is not None:
            slow = [queue for queue in limits.queues if queue.endswith(f".{Lane.SLOW}")]
            most = {queue: max(0, limits.slow_sockets - serving[queue]) for queue in slow}
        rendered = [queue for queue in limits.queues if is_for_browser(queue)]
        room = limits.rendered - sum(serving[queue] for queue in rendered)
        for queue in rendered:
            most[queue] = max(0, min(room, most.get(queue, room)))
        return most

    async def _start_all(self, batch: LeaseBatch) -> None:
        try:
            await self._load_contexts(batch.leases)
            await self._share_routes()
            stored = await self._find_stored(batch)
            earlier = await self._find_earlier(batch)
        except Unavailable:
            await self._drain.give_back(list(batch.leases))
            self._desk.arriving = ()
            raise
        self._desk.arriving = ()
        for lease in batch.leases:
            key = (lease.job, lease.request.url.fingerprint) if stored or earlier else ("", 0)
            self._start(lease, stored.get(key), earlier.get(key))

    async def _reap(self) -> None:
        returned, ended = await self._tools.in_thread(self._tools.frontier.reap)
        log.info("leases_reaped", requests=returned)
        await self._tools.finalise_all(ended)

    async def _load_contexts(self, leases: Sequence[Lease]) -> None:
        for job in {lease.job for lease in leases} - self._contexts.keys():
            context = await self._tools.in_thread(lambda job=job: self._tools.context_of(job))
            if context is not None:
                self._contexts[job] = context

    async def _share_routes(self) -> None:
        """Once in a while: what was learnt about pages of `auto` jobs."""
        routes = self._tools.routes
        jobs = [job for job, context in self._contexts.items() if context.spec.engine is Engine.AUTO]
        if routes and routes.is_due(jobs):
            await self._tools.in_thread(lambda: routes.sync(jobs))

    async def _find_stored(self, batch: LeaseBatch) -> dict[tuple[str, int], StoredPage]:
        """Who had these before may have stored their pages, and was lost behind that."""
        shelf = self._tools.stored
        if shelf is None or not shelf.has_to_look(batch):
            return {}
        contexts = self._contexts.copy()  # jobs end meanwhile
        return await self._tools.in_thread(lambda: shelf.among(batch, contexts))

    async def _find_earlier(self, batch: LeaseBatch) -> dict[tuple[str, int], EarlierPage]:
        """Earlier jobs may have pages of these, for jobs that ask."""
        shelf = self._tools.earlier
        if shelf is None or not batch.leases or not shelf.has_to_look(batch.leases, self._contexts):
            return {}
        contexts = self._contexts.copy()  # jobs end meanwhile
        return await self._tools.in_thread(lambda: shelf.among(batch.leases, contexts))

    # --- visiting -----------------------------------------------------------------------------------------------

    def _start(self, lease: Lease, stored: StoredPage | None, earlier: EarlierPage | None) -> None:
        task = asyncio.create_task(self._visit(lease, stored, earlier))
        self._desk.visits[task] = lease
        task.add_done_callback(self._visited)

    async def _visit(self, lease: Lease, stored: StoredPage | None, earlier: EarlierPage | None) -> None:
        if self._tools.flights:
            self._tools.flights.board(lease)
        context = self._contexts.get(lease.job)
        name_visit(lease.job, lease.request.url.host, context.request_id if context else "")
        if stored and context:
            result = stored.result_of(context, lease)
        elif lease.mark is Mark.STRANGER:
            result = await self._introduce(lease)
            if result is None:
                return
        elif context is None:
            result = _unknown_job(lease)
        else:
            with self._tools.traces.visit(context, lease):
                result = await self._tools.visitor.visit(context, lease, earlier)
            _log_trouble(result)
        self._desk.put(result)

    async def _introduce(self, lease: Lease) -> Result | None:
        """Where does the host live, and whose is it? Then the request goes back, and is leased under those limits."""
        host = lease.request.url.host
        context = self._contexts.get(lease.job)
        looks = self._tools.frontier.looks_at_addresses and not (context and context.spec.proxies)
        try:
            address = await self._tools.visitor.find_address(host) if looks else ""
        except FetchError as exc:
            failed = put_off(lease, exc.reason, INTRODUCE_DELAY)
            return replace(failed, settlement=replace(failed.settlement, signal=signal_of(exc.reason)))
        domain = registrable_domain(host)
        if visit := asyncio.current_task():
            self._desk.settling.add(visit)
        try:
            report = await self._tools.in_thread(lambda: self._tools.frontier.meet(lease, address, domain))
        except Unavailable as exc:
            log.warning("meet_failed", error=str(exc))
            return put_off(lease, "store_down", INTRODUCE_DELAY)
        await self._tools.finalise_all(report.ended)
        return None

    def _visited(self, task: asyncio.Task[None]) -> None:
        lease = self._desk.visits.pop(task)
        self._desk.settling.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):  # not SystemExit: that is about this process, not about the page
            request_id = request_id_of(self._contexts, lease.job)
            names = {"job": lease.job, "host": lease.request.url.host, "request_id": request_id}
            log.error("visit_failed", url=str(lease.request.url), exc_info=error, **names)
            failure = FetchError("internal_error", f"{type(error).__name__}: {error}")
            self._desk.put(given_up(lease, Outcome.DEAD, failure))
        if len(self._desk.visits) <= self._limits.sockets - self._least_batch():
            self._desk.wake()


def _log_trouble(result: Result) -> None:
    settlement = result.settlement
    if settlement.outcome is Outcome.DONE:
        return
    names = {"url": str(settlement.lease.request.url), "reason": settlement.reason}
    if result.letter:
        log.info("request_given_up", outcome=settlement.outcome.value, attempts=result.letter.attempts, **names)
    elif settlement.outcome is Outcome.RETRY:
        log.debug("request_put_off", delay_s=settlement.delay.total_seconds(), **names)


def _unknown_job(lease: Lease) -> Result:
    """Our database does not have the job: perhaps another worker's has. Nothing is held against the request."""
    log.warning("job_unknown", hint="is this worker on the same database as the submitter?")
    return put_off(lease, "job_unknown", UNKNOWN_JOB_DELAY)


def _brings_nothing(batch: LeaseBatch) -> bool:
    """No work now, none from other workers' expired leases, and none soon."""
    if batch.leases or batch.expired:
        return False
    return batch.next_due is None or batch.next_due > timedelta(seconds=LINGER_S)


def _pause(batch: LeaseBatch) -> float:
    """How long to wait after a lease that left sockets free."""
    if batch.next_due is None:
        return POLL_S
    return min(POLL_S, max(0.001, batch.next_due.total_seconds()))
