"""One run of the Celery task: lease, fetch, store, settle, for a bounded time.

The loop keeps up to `sockets` visits under way. Leases and deliveries are calls of the sync core in a small thread
pool, one per batch; renewals have a thread of their own, which no store can block. While a store refuses, nothing more
is leased, and everybody is told. The slice ends when its time is up, when it is told to stop, or when nothing is under
way and nothing will be due soon; whatever is unfinished then is given back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

import structlog

from shoal.core.domain import registrable_domain
from shoal.core.model import Lane, Lease, LeaseBatch, Mark, Outcome, SettleReport
from shoal.core.retry import signal_of
from shoal.errors import FetchError, RowRefused, Unavailable
from shoal.frontier.frontier import Frontier
from shoal.worker.context import JobContext
from shoal.worker.delivery import Delivery
from shoal.worker.flights import Flights
from shoal.worker.outage import Outages, Place
from shoal.worker.result import Result, given_up, put_off
from shoal.worker.visit import Visitor

log = structlog.get_logger()

POLL_S = 0.1
"""A slice with free sockets looks for new and urgent work this often."""
LINGER_S = 1.0
"""Stay for work that is due within this time."""
BATCH_WAIT_S = 0.02
"""Results wait this long for company before they are delivered."""
FEW_VISITS = 32
SHORT_WAIT_S = 0.005
"""With few visits under way there is little company to come, and hosts at their cap wait for the settlement."""
BATCH_SIZE = 64
MAX_BACKOFF_S = 5.0
RING_EVERY_S = 0.5
"""While there is more to do than one slice can, call others this often."""
UNKNOWN_JOB_DELAY = timedelta(seconds=15)
INTRODUCE_DELAY = timedelta(seconds=1)
"""Before a host whose name leads nowhere is looked up again."""
UNPROVEN = 4
"""Sockets for a host without a cap until it has answered: fifty that swallow connections must not take them all."""
UNHURRIED = timedelta(seconds=30)
"""At least this long visits may go on after a slice whose time is up, unless the worker stops."""
LONGEST_RESERVE = timedelta(seconds=4)
"""Of the grace period, for what comes after the last fetch: to store, settle, give back; Celery's end takes three."""
SHORTEST_DELIVERY = timedelta(seconds=5)
"""What was fetched is worth so much time, also when there is less grace."""
MAX_PILE = 4
"""Undelivered results for each socket, beyond which nothing more is leased."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """How much a slice does at once, and for how long."""

    queues: tuple[str, ...]
    sockets: int
    lease_for: timedelta
    length: timedelta
    grace: timedelta
    slow_sockets: int | None = None
    """Of these, for slow hosts at most; None is all."""


@dataclass(frozen=True, slots=True)
class SliceTools:
    """What a slice works with."""

    frontier: Frontier
    visitor: Visitor
    delivery: Delivery
    context_of: Callable[[str], JobContext | None]
    """Looks the job up in the database; None when it is not there."""
    ring: Callable[[], None]
    """Call another slice: there is more to do than this one can."""
    finalise: Callable[[str], None]
    threads: ThreadPoolExecutor
    look: Callable[[], None] = lambda: None
    """Find out what a server that was started anew has lost."""
    flights: Flights | None = None
    """Knows which visits have begun to fetch; without it, all have."""


@dataclass(slots=True)
class SliceReport:
    """What a slice did."""

    pages: int = 0
    late: int = 0
    given_back: int = 0
    work_remains: bool = False


@dataclass(slots=True)
class _Desk:
    """What lies on the desk: visits under way and results not yet delivered."""

    visits: dict[asyncio.Task[None], Lease] = field(default_factory=dict[asyncio.Task[None], Lease])
    results: list[Result] = field(default_factory=list[Result])
    delivering: list[Result] = field(default_factory=list[Result])
    settling: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Visits that settle their lease themselves."""

    def groups(self) -> set[int]:
        """Of all leases: none may run out before it is settled."""
        under_way = {lease.group for lease in self.visits.values()}
        return under_way | {r.settlement.lease.group for r in (*self.results, *self.delivering)}

    def held_groups(self) -> set[int]:
        """Of leases that nobody has begun to settle: the frontier must know them."""
        under_way = {lease.group for visit, lease in self.visits.items() if visit not in self.settling}
        return under_way | {result.settlement.lease.group for result in self.results}

    def serving(self, queue: str) -> int:
        """Visits under way for a lane."""
        return sum(lease.queue == queue for lease in self.visits.values())

    @property
    def undelivered(self) -> int:
        return len(self.results) + len(self.delivering)

    @property
    def empty(self) -> bool:
        return not (self.visits or self.results or self.delivering)


class Slice:
    """A bounded run of work in one event loop."""

    def __init__(self, tools: SliceTools, limits: SliceLimits, contexts: dict[str, JobContext]) -> None:
        self._tools = tools
        self._limits = limits
        self._contexts = contexts
        self._desk = _Desk()
        self._report = SliceReport()
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._results_wait = asyncio.Event()
        self._draining = False
        self._stopped_at = 0.0
        self._ring_again = 0.0
        self._steady = ThreadPoolExecutor(1, thread_name_prefix="renew")
        """For calls of Redis that must not wait behind those of the database."""
        self._outages = Outages(tools.frontier.board, self._steady)
        self._worked_on = Counter[tuple[str, str]]()
        """(job, its request id) → results delivered."""

    def stop(self) -> None:
        """Lease nothing more, finish what is under way within the grace period."""
        if not self._stop.is_set():
            self._stopped_at = time.monotonic()
        self._stop.set()
        self._wake.set()

    async def run(self) -> SliceReport:
        """Work until the slice is over."""
        work = (self._deliver_all(), self._renew_all(), self._outages.tell_all())
        helpers = [asyncio.create_task(each) for each in work]
        try:
            await self._lease_all()
            await self._drain(helpers[0])
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await self._tools.visitor.end()
            await self._note_loose_ends()
            await self._outages.end()
            self._steady.shutdown(wait=False)
            self._log_jobs()
        return self._report

    # --- leasing ------------------------------------------------------------------------------------------------

    async def _lease_all(self) -> None:
        deadline = time.monotonic() + self._limits.length.total_seconds()
        backoff = POLL_S
        while not self._stop.is_set() and time.monotonic() < deadline:
            if self._free() < self._least_batch():
                await self._wait(POLL_S)  # for a batch worth a call; then a small one is better than idle sockets
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
                await self._wait_to_stop(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_S)
                continue
            if idle and _brings_nothing(batch):
                return
            if len(batch.leases) < free:
                await self._wait(_pause(batch))
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
        batch = await self._in_thread(
            lambda: self._tools.frontier.lease(
                queues=limits.queues, limit=free, lease_for=limits.lease_for, most=most, unproven=UNPROVEN
            )
        )
        if not batch.trusted:
            await self._in_thread(self._tools.look)
        for context in self._contexts.values():
            context.links.leased_from(batch.server)
        await self._start_all(batch.leases)
        await self._finalise(batch.ended)
        if batch.expired:
            await self._reap()
        if len(batch.leases) == free and batch.next_due == timedelta() and time.monotonic() >= self._ring_again:
            self._ring_again = time.monotonic() + RING_EVERY_S
            await self._in_thread(self._tools.ring)
        return batch

    def _most(self) -> dict[str, int]:
        """Slow hosts get a part of the sockets, so that fast ones need not wait for them."""
        if self._limits.slow_sockets is None:
            return {}
        slow = [queue for queue in self._limits.queues if queue.endswith(f".{Lane.SLOW}")]
        return {queue: max(0, self._limits.slow_sockets - self._desk.serving(queue)) for queue in slow}

    async def _start_all(self, leases: Sequence[Lease]) -> None:
        try:
            await self._load_contexts(leases)
        except Unavailable:
            await self._give_back(list(leases))
            raise
        for lease in leases:
            self._start(lease)

    async def _reap(self) -> None:
        returned, ended = await self._in_thread(self._tools.frontier.reap)
        log.info("leases_reaped", requests=returned)
        await self._finalise(ended)

    async def _finalise(self, jobs: Sequence[str]) -> None:
        """Write the ends of jobs down; where that fails, whoever looks at the job next does it."""
        for job in jobs:
            try:
                await self._in_thread(lambda job=job: self._tools.finalise(job))
            except Unavailable as exc:
                log.warning("finalise_failed", job=job, error=str(exc))

    async def _load_contexts(self, leases: Sequence[Lease]) -> None:
        for job in {lease.job for lease in leases} - self._contexts.keys():
            context = await self._in_thread(lambda job=job: self._tools.context_of(job))
            if context is not None:
                self._contexts[job] = context

    # --- visiting -----------------------------------------------------------------------------------------------

    def _start(self, lease: Lease) -> None:
        task = asyncio.create_task(self._visit(lease))
        self._desk.visits[task] = lease
        task.add_done_callback(self._visited)

    async def _visit(self, lease: Lease) -> None:
        if self._tools.flights:
            self._tools.flights.board()
        context = self._contexts.get(lease.job)
        if lease.mark is Mark.STRANGER:
            result = await self._introduce(lease)
            if result is None:
                return
        elif context is None:
            result = _unknown_job(lease)
        else:
            result = await self._tools.visitor.visit(context, lease)
            _log_trouble(context, result)
        self._desk.results.append(result)
        self._results_wait.set()

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
            report = await self._in_thread(lambda: self._tools.frontier.meet(lease, address, domain))
        except Unavailable as exc:
            log.warning("meet_failed", host=host, error=str(exc))
            return put_off(lease, "store_down", INTRODUCE_DELAY)
        await self._finalise(report.ended)
        return None

    def _visited(self, task: asyncio.Task[None]) -> None:
        lease = self._desk.visits.pop(task)
        self._desk.settling.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):  # not SystemExit: that is about this process, not about the page
            request_id = self._request_id(lease.job)
            log.error("visit_failed", url=str(lease.request.url), job=lease.job, request_id=request_id, exc_info=error)
            failure = FetchError("internal_error", f"{type(error).__name__}: {error}")
            self._desk.results.append(given_up(lease, Outcome.DEAD, failure))
            self._results_wait.set()
        if len(self._desk.visits) <= self._limits.sockets - self._least_batch():
            self._wake.set()

    # --- delivering ---------------------------------------------------------------------------------------------

    async def _deliver_all(self) -> None:
        while True:
            await self._results_wait.wait()
            if len(self._desk.results) < BATCH_SIZE and self._desk.visits and not self._draining:
                await asyncio.sleep(BATCH_WAIT_S if len(self._desk.visits) > FEW_VISITS else SHORT_WAIT_S)
            self._results_wait.clear()
            self._desk.delivering, self._desk.results = self._desk.results, []
            await self._deliver(self._desk.delivering)
            self._desk.delivering = []
            self._wake.set()

    async def _deliver(self, results: list[Result]) -> None:
        """Deliver for certain: while a store is down, no more is leased than sockets are free."""
        backoff = POLL_S
        while results:
            try:
                report: SettleReport = await self._in_thread(lambda: self._tools.delivery.deliver(results))
            except Unavailable as exc:
                self._outages.met(Place.DELIVERY, exc)
                log.warning("delivery_failed", error=str(exc), results=len(results), retry_s=backoff)
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_S)
            except Exception as exc:
                trace = None if isinstance(exc, RowRefused) else exc  # else the fault is ours
                log.error("delivery_refused", results=len(results), error=str(exc), exc_info=trace)
                await self._deliver_apart(results, exc)
                return
            else:
                self._outages.over(Place.DELIVERY)
                self._report.pages += len(results)
                self._report.late += report.late
                self._worked_on.update(self._names(result.settlement.lease.job) for result in results)
                for job in report.ended:
                    log.info("job_ended", job=job, request_id=self._request_id(job))
                    self._contexts.pop(job, None)
                return

    async def _deliver_apart(self, results: list[Result], error: Exception) -> None:
        """One result that no store can take must not drag its neighbours along."""
        if len(results) == 1:
            await self._deliver([self._refused(results[0], error)])
            return
        for result in results:
            await self._deliver([result])

    def _refused(self, result: Result, error: Exception) -> Result:
        """What to deliver instead: the request is given up, and what was asked for it is in the ledger if possible."""
        lease = result.settlement.lease
        if result.settlement.reason == "internal_error":
            if not result.asks:
                raise error
            return replace(result, asks=())
        if context := self._contexts.get(lease.job):
            context.links.forget()  # its links do not arrive either
        failure = FetchError("internal_error", f"{type(error).__name__}: {error}")
        return replace(given_up(lease, Outcome.DEAD, failure), asks=result.asks)

    async def _renew_all(self) -> None:
        while True:
            await asyncio.sleep(self._limits.lease_for.total_seconds() / 3)
            groups = self._desk.groups()
            if not groups:
                continue
            try:
                lost = await self._renew(groups)
            except Unavailable as exc:
                self._outages.met(Place.RENEWAL, exc)
                log.warning("renew_failed", error=str(exc))
                continue
            self._outages.over(Place.RENEWAL)
            lost &= self._desk.held_groups()  # the last lease of a group may have been settled meanwhile
            if lost:
                log.warning("leases_lost", groups=len(lost))

    async def _renew(self, groups: set[int]) -> frozenset[int]:
        frontier, lease_for = self._tools.frontier, self._limits.lease_for
        return await asyncio.get_running_loop().run_in_executor(self._steady, lambda: frontier.renew(groups, lease_for))

    # --- the end ------------------------------------------------------------------------------------------------

    async def _drain(self, deliverer: asyncio.Task[None]) -> None:
        """Let running visits end; interrupt those that outlive the grace period and give them back."""
        self._draining = True
        await self._visits_end_or_stop()
        await self._interrupt(list(self._desk.visits))
        await self._deliver_rest(deliverer)

    async def _visits_end_or_stop(self) -> None:
        started, looked = time.monotonic(), False
        while self._desk.visits and time.monotonic() < self._visits_until(started):
            if self._stop.is_set() and not looked:
                looked = True
                await self._interrupt(self._unstarted())
            await self._wait(POLL_S)

    def _visits_until(self, started: float) -> float:
        grace = self._limits.grace
        if not self._stop.is_set():
            return started + max(grace, UNHURRIED).total_seconds()
        return self._stopped_at + (grace - min(LONGEST_RESERVE, grace / 4)).total_seconds()

    def _unstarted(self) -> list[asyncio.Task[None]]:
        flights = self._tools.flights
        return [visit for visit in self._desk.visits if flights and not flights.has(visit)]

    async def _interrupt(self, visits: Iterable[asyncio.Task[None]]) -> None:
        """End these visits and let others have their requests at once."""
        leases = {visit: self._desk.visits[visit] for visit in visits}
        for visit in leases:
            visit.cancel()
        if not leases:
            return
        await asyncio.gather(*leases, return_exceptions=True)
        await self._give_back([lease for visit, lease in leases.items() if visit.cancelled()])
        try:
            await self._in_thread(self._tools.ring)
        except Unavailable as exc:
            log.warning("release_failed", error=str(exc), leases=0)

    async def _deliver_rest(self, deliverer: asyncio.Task[None]) -> None:
        """A store that stays down must not keep a worker from stopping: its leases run out, and others repeat them."""
        patience_s = max(self._limits.grace, SHORTEST_DELIVERY).total_seconds()
        deliverer.add_done_callback(lambda _task: self._wake.set())
        while not self._desk.empty and not deliverer.done():
            left_s = self._stopped_at + patience_s - time.monotonic() if self._stop.is_set() else patience_s
            if left_s <= 0:
                log.error("results_abandoned", results=self._desk.undelivered)
                return
            self._results_wait.set()
            await self._wait(left_s)
        if deliverer.done():
            await deliverer

    async def _note_loose_ends(self) -> None:
        """Hosts were asked, though nothing came of it."""
        asks = self._tools.visitor.loose_ends()
        try:
            await self._in_thread(lambda: self._tools.delivery.note(asks))
        except (Unavailable, RowRefused) as exc:
            log.warning("ledger_failed", error=str(exc), asks=len(asks))

    async def _give_back(self, leases: list[Lease]) -> None:
        self._report.given_back += len(leases)
        try:
            report = await self._in_thread(lambda: self._tools.frontier.release(leases))
        except Unavailable as exc:
            log.warning("release_failed", error=str(exc), leases=len(leases))
            return
        for job in report.ended:
            await self._in_thread(lambda job=job: self._tools.finalise(job))

    # --- logs ---------------------------------------------------------------------------------------------------

    def _log_jobs(self) -> None:
        """What was done for whom: a submission can be followed through the logs by its id."""
        for (job, request_id), results in self._worked_on.items():
            log.info("job_worked_on", job=job, request_id=request_id, results=results)

    def _names(self, job: str) -> tuple[str, str]:
        return job, self._request_id(job)

    def _request_id(self, job: str) -> str:
        context = self._contexts.get(job)
        return context.request_id if context else ""

    # --- small things -------------------------------------------------------------------------------------------

    async def _wait(self, seconds: float) -> None:
        """Until something happens on the desk, or this time has passed."""
        self._wake.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _wait_to_stop(self, seconds: float) -> None:
        """For this time, whatever happens on the desk: what is away must not be asked all the time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        context = copy_context()  # for the log lines: they name the task and its submission
        return await asyncio.get_running_loop().run_in_executor(self._tools.threads, lambda: context.run(call))


def _log_trouble(context: JobContext, result: Result) -> None:
    settlement, url = result.settlement, str(result.settlement.lease.request.url)
    names = {"job": context.job, "request_id": context.request_id, "url": url, "reason": settlement.reason}
    if result.letter:
        log.info("request_given_up", outcome=settlement.outcome.value, attempts=result.letter.attempts, **names)
    elif settlement.outcome is Outcome.RETRY:
        log.debug("request_put_off", delay_s=settlement.delay.total_seconds(), **names)


def _unknown_job(lease: Lease) -> Result:
    """Our database does not have the job: perhaps another worker's has. Nothing is held against the request."""
    log.warning("job_unknown", job=lease.job, hint="is this worker on the same database as the submitter?")
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
