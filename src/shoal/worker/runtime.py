"""What one worker process keeps between slices: event loop, connections, stores. Made lazily, after the fork.

The lifeline is a pipe whose writing end only the worker's main process holds: when it is closed, on purpose or because
that process died, every child learns of it at once and brings its slice to an end.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

import uvloop

from shoal import spans
from shoal.core.spec import JobSpec
from shoal.fetch.budget import Budget
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpClient
from shoal.fetch.robots_cache import RobotsCache
from shoal.frontier.proxies import ProxyDesk
from shoal.proxy_pools import pools_of
from shoal.render.limits import RenderLimits
from shoal.render.lookup import find_browser
from shoal.render.renderer import BrowserRenderer
from shoal.settings import Settings
from shoal.store.earlier import EarlierPages
from shoal.store.robots import RobotsStore
from shoal.wiring import Platform, open_archive_writer, redis_urls
from shoal.worker.context import JobContext
from shoal.worker.delivery import Delivery
from shoal.worker.doorbell import Doorbell
from shoal.worker.earlier import EarlierShelf
from shoal.worker.flights import Flights
from shoal.worker.kit import SliceLimits, SliceReport, SliceTools
from shoal.worker.marks import Mark, Marks
from shoal.worker.outbound import Outbound
from shoal.worker.proxies import ProxyLender
from shoal.worker.routes import RouteBook
from shoal.worker.shelf import RobotsShelf
from shoal.worker.slice import Slice
from shoal.worker.stored import StoredPages
from shoal.worker.traces import Traces
from shoal.worker.visit import Visitor

MAX_CONTEXTS = 200
MARK_S = 1.0
SPARE_PAGES = 1
"""Leased beyond those that are rendered at a time."""


class Lifeline:
    """Tells children that the worker stops or is gone."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def adopt(self) -> None:
        """In a child: only the main process may hold the writing end."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def cut(self) -> None:
        """In the main process: everybody stops."""
        self.adopt()

    @property
    def is_cut(self) -> bool:
        """In a child: does the worker stop, or is it gone?"""
        return bool(select.select([self._read], [], [], 0)[0])

    def fileno(self) -> int:
        """Readable once the line is cut."""
        return self._read


class Runtime:
    """The tools of one process."""

    def __init__(
        self,
        settings: Settings,
        platform: Platform,
        bell: Doorbell,
        lifeline: Lifeline,
        mark: Mark | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self._settings = settings
        self._alone = alone
        """Is this the main process? Then it goes its own way about SIGTERM (`termination_waits`)."""
        self._mark = mark or Marks(1).of(0)
        self._bell = bell
        self._platform = platform
        self._loop = uvloop.new_event_loop()
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="sync")
        self._client = self._loop.run_until_complete(_make_client(settings))
        self._archive = open_archive_writer(settings, platform.owner)
        self._contexts: dict[str, JobContext] = {}
        self._lifeline = lifeline
        self._proxy_desk = ProxyDesk.at(redis_urls(settings).frontier, settings.prefix)
        self._tools = self._make_tools()

    def answer(self, queue: str) -> SliceReport:
        """Somebody rang: one slice, to its end. If work remains then, the next one is called."""
        frontier = self._platform.frontier
        self._mark.make()
        try:
            frontier.answer_ring(queue)
            frontier.crew.count_slice()
            with termination_waits(alone=self._alone) as asked:
                report = self._loop.run_until_complete(self._run(asked))
            if report.work_remains:
                self._bell.ring_due(self._settings.lease_queues)
            return report
        finally:
            self._mark.clear()

    def close(self) -> None:
        """Release everything but the platform; the process is about to end."""
        self._archive.end()
        self._proxy_desk.close_connections()
        self._loop.run_until_complete(self._client.close())
        spans.flush()
        self._threads.shutdown(wait=False, cancel_futures=True)  # one may be stuck in a call, and ends with us
        self._loop.close()

    async def _run(self, asked: Termination) -> SliceReport:
        if len(self._contexts) > MAX_CONTEXTS:
            self._contexts.clear()
        run = Slice(self._tools, self._limits(), self._contexts)
        loop = asyncio.get_running_loop()
        asked.then(lambda: loop.call_soon_threadsafe(run.stop))
        loop.add_reader(self._lifeline.fileno(), lambda: self._cut(run))
        marking = loop.create_task(self._keep_marking(run))
        try:
            return await run.run()
        except BaseException:
            for context in self._contexts.values():
                context.links.forget()
            raise
        finally:
            marking.cancel()
            loop.remove_reader(self._lifeline.fileno())

    async def _keep_marking(self, run: Slice) -> None:
        noted, looked_at, was_full = 0, time.monotonic(), False
        try:
            while True:
                self._mark.make()
                now, is_full = time.monotonic(), run.is_full
                full_ms = round((now - looked_at) * 1000) if was_full and is_full else 0
                noted = self._note(run.report, noted, full_ms)
                looked_at, was_full = now, is_full
                await asyncio.sleep(MARK_S)
        finally:
            self._note(run.report, noted)

    def _note(self, report: SliceReport, noted: int, full_ms: int = 0) -> int:
        """What was delivered since the last time, for who looks at this worker."""
        load = self._client.load
        self._mark.note(report.pages - noted, load.browsers, load.pages, full_ms)
        return report.pages

    def _cut(self, run: Slice) -> None:
        self._loop.remove_reader(self._lifeline.fileno())
        run.stop()

    def _limits(self) -> SliceLimits:
        settings = self._settings
        return SliceLimits(
            queues=settings.lease_queues,
            sockets=_sockets(settings),
            rendered=settings.browser_pages + SPARE_PAGES if settings.browser_queues else 0,
            lease_for=settings.lease_for,
            length=timedelta(seconds=settings.slice_seconds),
            grace=timedelta(seconds=settings.grace_seconds),
            slow_sockets=settings.slow_sockets,
        )

    def _make_tools(self) -> SliceTools:
        platform = self._platform
        pools = pools_of(self._settings.proxies_file)
        lender = ProxyLender(self._proxy_desk, pools, self._threads)
        routes = RouteBook(platform.frontier)
        traces = Traces()
        shelf = RobotsShelf(RobotsStore(platform.engine), platform.frontier, self._threads)
        return SliceTools(
            frontier=platform.frontier,
            visitor=Visitor(Outbound(self._client, lender, self._client), RobotsCache(shelf), routes=routes),
            routes=routes,
            delivery=Delivery(
                platform.frontier,
                platform.pages,
                self._archive,
                platform.ending.finalise,
                keeps_ledger=self._settings.ledger_days > 0,
                lives=lambda job: platform.jobs.get(job) is not None,
                traces=traces,
            ),
            traces=traces,
            context_of=self._context_of,
            ring=lambda: self._bell.ring_due(self._settings.lease_queues),
            finalise=platform.ending.finalise,
            threads=self._threads,
            look=platform.recovery.look,
            flights=self._client,
            stored=StoredPages(platform.pages, platform.archive, platform.rebuild.doubt),
            earlier=EarlierShelf(
                EarlierPages(platform.engine), platform.archive, self._spec_of, platform.frontier.audit.now_ms
            ),
        )

    def _spec_of(self, job: str) -> JobSpec | None:
        row = self._platform.jobs.get(job)
        return None if row is None else row.spec

    def _context_of(self, job: str) -> JobContext | None:
        row = self._platform.jobs.get(job)
        return None if row is None else JobContext.of(job, row.spec, row.request_id, row.trace, row.tenant)


class Termination:
    """SIGTERM during a slice: noted, passed on to the slice, and delivered again when it has ended.

    Celery's own handler would raise in the middle of whatever runs, and a page would look like a failure.
    """

    def __init__(self) -> None:
        self.came = False
        self._stop: Callable[[], object] = lambda: None

    def then(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        if self.came:
            stop()

    def note(self, _signal: int, _frame: FrameType | None) -> None:
        self.came = True
        self._stop()


@contextmanager
def termination_waits(*, alone: bool = False) -> Generator[Termination]:
    """While this lasts, SIGTERM is noted; it is delivered again behind it.

    `alone`: in the main process, where Celery's handler raises nothing, and cuts the lifeline; it goes on doing so.
    """
    asked = Termination()
    if alone:
        yield asked
        return
    before = signal.signal(signal.SIGTERM, asked.note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)
        if asked.came:
            os.kill(os.getpid(), signal.SIGTERM)


def _sockets(settings: Settings) -> int:
    """A worker for the browser alone leases what it can render, and one or two more, so that it need not wait."""
    if settings.lease_queues == settings.browser_queues:
        return settings.browser_pages + SPARE_PAGES
    return settings.sockets


async def _make_client(settings: Settings) -> Flights:
    guard = Guard(settings.egress)
    renderer = None
    if settings.browser_queues:
        limits = RenderLimits(
            at_once=settings.browser_pages,
            pages=settings.browser_recycle_pages,
            memory=settings.browser_megabytes * 1_000_000,
            page_memory=settings.browser_page_megabytes * 1_000_000,
            age=timedelta(minutes=settings.browser_recycle_minutes),
        )
        renderer = BrowserRenderer(limits, guard, lambda: find_browser(settings.browser), settings.user_agent)
    return Flights(HttpClient(settings.user_agent, guard, budget=Budget(settings.bodies_bytes)), renderer)
