"""Results of a slice on their way: in batches, again and again while a store is away, and apart when one is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import structlog

from shoal.core.model import Lease, Outcome, SettleReport
from shoal.errors import FetchError, RowRefused, Unavailable
from shoal.worker.context import JobContext, request_id_of
from shoal.worker.desk import Desk
from shoal.worker.kit import SliceReport, SliceTools
from shoal.worker.outage import Outages, Place
from shoal.worker.result import Result, given_up

log = structlog.get_logger()

BATCH_WAIT_S = 0.02
"""Results wait this long for company before they are delivered."""
FEW_VISITS = 32
SHORT_WAIT_S = 0.005
"""With few visits under way there is little company to come, and hosts at their cap wait for the settlement; and where
nothing waits to be leased, what these results lead to is all there is to do next."""
BATCH_SIZE = 128
BATCH_MOST = 128
"""Results of one batch: so many rows SQLite takes in one statement."""
SHORTEST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 5.0
_GIVEN_UP = frozenset({"internal_error", "row_refused"})


class Deliverer:
    """Delivers what comes onto a desk."""

    def __init__(
        self, tools: SliceTools, desk: Desk, contexts: dict[str, JobContext], outages: Outages, report: SliceReport
    ) -> None:
        self._tools = tools
        self._desk = desk
        self._contexts = contexts
        self._outages = outages
        self._report = report
        self._worked_on = Counter[tuple[str, str]]()
        """(job, its request id) → results delivered."""
        self.undeliverable: tuple[Lease, ...] = ()
        """No store takes even a dead letter of these: given back, they would come again for ever."""

    async def run(self) -> None:
        """Deliver for as long as the slice runs."""
        while True:
            await self._desk.results_come()
            await asyncio.sleep(0)  # the visit that brings the first one is over
            if len(self._desk.results) < BATCH_SIZE and self._desk.visits and not self._desk.draining:
                await asyncio.sleep(self._patience())
            await self._deliver(self._desk.take_results(BATCH_MOST))
            self._desk.delivered()

    def _patience(self) -> float:
        return SHORT_WAIT_S if self._desk.is_dry or len(self._desk.visits) <= FEW_VISITS else BATCH_WAIT_S

    def log_jobs(self) -> None:
        """What was done for whom: a submission can be followed through the logs by its id."""
        for (job, request_id), results in self._worked_on.items():
            log.info("job_worked_on", job=job, request_id=request_id, results=results)

    async def _deliver(self, results: list[Result]) -> None:
        """Deliver for certain: while a store is down, no more is leased than sockets are free."""
        backoff = SHORTEST_BACKOFF_S
        while results:
            try:
                report = await self._tools.in_thread(lambda: self._tools.delivery.deliver(results))
            except Unavailable as exc:
                self._outages.met(Place.DELIVERY, exc)
                log.warning("delivery_failed", error=str(exc), results=len(results), retry_s=backoff)
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, LONGEST_BACKOFF_S)
            except Exception as exc:
                trace = None if isinstance(exc, RowRefused) else exc  # else the fault is ours
                log.error("delivery_refused", results=len(results), error=str(exc), exc_info=trace)
                await self._deliver_apart(results, exc)
                return
            else:
                self._outages.over(Place.DELIVERY)
                self._note(results, report)
                return

    def _note(self, results: list[Result], report: SettleReport) -> None:
        self._report.pages += len(results)
        self._report.late += report.late
        for job, many in Counter([result.settlement.lease.job for result in results]).items():
            self._worked_on[job, request_id_of(self._contexts, job)] += many
        for job in report.ended:
            log.info("job_ended", job=job, request_id=request_id_of(self._contexts, job))
            self._contexts.pop(job, None)

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
        if result.settlement.reason in _GIVEN_UP:
            if not result.asks:
                self.undeliverable = (lease,)
                raise error
            return replace(result, asks=())
        if context := self._contexts.get(lease.job):
            context.links.forget()  # its links do not arrive either
        return replace(given_up(lease, Outcome.DEAD, _failure(error)), asks=result.asks)


def _failure(error: Exception) -> FetchError:
    """Either the database has a rule against the row, or the fault is ours."""
    if isinstance(error, RowRefused):
        return FetchError("row_refused", str(error))
    return FetchError("internal_error", f"{type(error).__name__}: {error}")
