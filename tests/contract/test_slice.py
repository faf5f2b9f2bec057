"""A slice with all its parts real: server, site, database, archive. Only trouble is made by hand."""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import structlog
from sqlalchemy.engine import Engine

from shoal.control import Control, Ending
from shoal.core.egress import Egress
from shoal.core.host_status import Breaker
from shoal.core.job_status import Counters
from shoal.core.ledger import Ask
from shoal.core.manners import Signal
from shoal.core.model import (
    ALL_QUEUES,
    AdmitReport,
    Candidate,
    JobState,
    Lease,
    Outcome,
    Request,
    Sent,
    Settlement,
    SettleReport,
)
from shoal.core.spec import JobSpec
from shoal.core.trouble import Need
from shoal.core.url import parse
from shoal.errors import RowRefused, StoreUnavailable
from shoal.extract import apart
from shoal.fetch.http import HttpClient
from shoal.fetch.robots_cache import RobotsCache
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.proxies import ProxyDesk
from shoal.frontier.rebuild import Rebuild
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.intake.intake import Caps, Intake
from shoal.intake.replay import Replays
from shoal.proxy_pools import ProxyPools
from shoal.recovery.recovery import Recovery
from shoal.recovery.way_back import WayBack
from shoal.render.port import Renderer
from shoal.store.archive import ArchiveReader, ArchiveWriter
from shoal.store.database import open_database
from shoal.store.dead import DeadLetters
from shoal.store.epochs import Epochs
from shoal.store.history import HistoryStore
from shoal.store.items import ItemRow, Quarantined
from shoal.store.job_rows import NewJob
from shoal.store.jobs import JobStore
from shoal.store.ledger import Ledger
from shoal.store.page_rows import DeadLetter, FoundLinks, PageRow, Recrawled
from shoal.store.pages import PageStore
from shoal.store.robots import RobotsStore
from shoal.wiring import no_ring
from shoal.worker import grace
from shoal.worker.context import JobContext
from shoal.worker.delivery import Delivery
from shoal.worker.flights import Flights
from shoal.worker.kit import SliceLimits, SliceReport, SliceTools
from shoal.worker.outbound import Outbound
from shoal.worker.proxies import ProxyLender
from shoal.worker.routes import RouteBook
from shoal.worker.shelf import RobotsShelf
from shoal.worker.slice import Slice
from shoal.worker.stored import StoredPages
from shoal.worker.visit import Visitor
from tests import servers
from tests.contract.databases import DATABASES, a_database, a_sqlite
from tests.guards import HERE, guard_of_loopback
from tests.site.generated import LinkedSite, SlowSite, StatusSite
from tests.site.reply import Reply, page, redirect
from tests.site.server import serve
from tests.waiting import wait_until

QUEUES = ("http.high", "http.batch", "http.slow")


@dataclass
class Troubled(PageStore):
    """A store that refuses: the first writes altogether, and one URL for ever."""

    engine: Engine
    failures: int = 0
    poison: str = ""
    calls: int = field(default=0, init=False)
    lookups: int = field(default=0, init=False)
    lookup_failures: int = 0

    def __post_init__(self) -> None:
        PageStore.__init__(self, self.engine)

    def write(
        self,
        page_rows: Sequence[PageRow],
        item_rows: Sequence[ItemRow],
        letters: Sequence[DeadLetter],
        asks: Sequence[Ask] = (),
        found: Sequence[FoundLinks] = (),
        quarantined: Sequence[Quarantined] = (),
        recrawled: Recrawled | None = None,
        itemless: Collection[str] = (),
    ) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise StoreUnavailable("down on purpose")
        if any(row.url.endswith(self.poison) for row in page_rows if self.poison):
            raise ValueError("no store can take this")
        super().write(page_rows, item_rows, letters, asks, found, quarantined, recrawled, itemless)

    def stored(self, wanted: Mapping[str, Sequence[int]]) -> list[tuple[PageRow, tuple[FoundLinks, ...]]]:
        self.lookups += 1
        if self.lookups <= self.lookup_failures:
            raise StoreUnavailable("down on purpose")
        return super().stored(wanted)


@dataclass(frozen=True)
class Plant:
    """A frontier and stores, and the means to run slices on them."""

    frontier: Frontier
    watch: Watch
    jobs: JobStore
    pages: Troubled
    root: Path
    desk: ProxyDesk
    prefix: str
    url: str
    """Of the frontier's server."""
    look: Callable[[], None] = lambda: None
    doubt: Callable[[], timedelta] = timedelta
    renderer: Renderer | None = None
    """With one, the browser's queues are served as well."""

    def submit(self, url: str, **settings: object) -> str:
        spec = JobSpec.model_validate({"urls": [url], "rate": "unlimited", "robots": False, **settings})
        return self.intake.submit(spec).job

    @property
    def intake(self) -> Intake:
        caps, dead, finalise = Caps(10**9, 10**12), DeadLetters(self.pages.engine), self.ending.finalise
        replays = Replays(self.frontier, self.jobs, self.pages, dead, finalise)
        return Intake(self.frontier, self.watch, self.jobs, replays, no_ring, caps, finalise, egress=Egress.read(HERE))

    @property
    def ending(self) -> Ending:
        return Ending(self.frontier, self.jobs, HistoryStore(self.pages.engine))

    @property
    def control(self) -> Control:
        return Control(self.frontier, self.jobs, self.pages, self.intake, self.ending, no_ring)

    def recovery(self, rebuild: Rebuild) -> Recovery:
        epochs, archive = Epochs(self.pages.engine, self.prefix), ArchiveReader(self.root)
        way = WayBack(self.frontier, rebuild, self.jobs, self.pages, archive, self.ending.finalise, no_ring)
        return Recovery(self.frontier, rebuild, epochs, self.jobs, self.pages, way)

    def run(
        self,
        after: Callable[[Slice], object] = lambda _slice: None,
        grace_s: float = 1.0,
        lease_s: float = 60,
        at_the_end: Callable[[], object] = lambda: None,
        parallel: int = 16,
    ) -> SliceReport:
        """One slice to its end; `after` may talk to it once it runs.

        What is called at the end comes before the threads are waited for.
        """
        limits = SliceLimits(
            ALL_QUEUES if self.renderer else QUEUES,
            parallel,
            timedelta(seconds=lease_s),
            timedelta(seconds=30),
            timedelta(seconds=grace_s),
            rendered=8 if self.renderer else 0,
        )
        return asyncio.run(self._run(limits, after, at_the_end))

    async def _run(
        self, limits: SliceLimits, after: Callable[[Slice], object], at_the_end: Callable[[], object]
    ) -> SliceReport:
        client = Flights(HttpClient("test", guard_of_loopback()), self.renderer)
        routes = RouteBook(self.frontier)
        archive = ArchiveWriter(self.root, 10_000_000)
        with closing(archive), ThreadPoolExecutor(2) as threads:
            delivery = Delivery(self.frontier, self.pages, archive, self.ending.finalise)
            tools = SliceTools(
                self.frontier,
                Visitor(
                    Outbound(client, ProxyLender(self.desk, ProxyPools(None), threads), client),
                    RobotsCache(RobotsShelf(RobotsStore(self.pages.engine), self.frontier, threads)),
                    routes=routes,
                ),
                delivery,
                self._context_of,
                lambda: None,
                self.ending.finalise,
                threads,
                self.look,
                client,
                routes,
                StoredPages(self.pages, ArchiveReader(self.root), self.doubt),
            )
            run = Slice(tools, limits, {})
            try:
                after(run)
                return await run.run()
            finally:
                at_the_end()
                await client.close()

    def _context_of(self, job: str) -> JobContext | None:
        row = self.jobs.get(job)
        return None if row is None else JobContext.of(job, row.spec)

    def counters(self, job: str) -> Counters:
        return self.control.status(job).counters


@pytest.fixture
def plant(valkey_url: str, tmp_path: Path) -> Generator[Plant]:
    """A plant on SQLite."""
    with a_plant(valkey_url, tmp_path, a_sqlite(tmp_path)) as plant:
        yield plant


@pytest.fixture(params=DATABASES)
def each_plant(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Plant]:
    """A plant on each database."""
    with a_plant(valkey_url, tmp_path, a_database(request, tmp_path)) as plant:
        yield plant


@contextmanager
def a_plant(valkey_url: str, tmp_path: Path, database: str) -> Generator[Plant]:
    engine = open_database(database)
    prefix = f"slice-{uuid4().hex[:8]}"
    frontier, watch = Frontier.at(f"{valkey_url}?db=2", prefix), Watch.at(f"{valkey_url}?db=2", prefix)
    desk = ProxyDesk.at(f"{valkey_url}?db=2", prefix)
    yield Plant(
        frontier, watch, JobStore(engine), Troubled(engine), tmp_path / "archive", desk, prefix, f"{valkey_url}?db=2"
    )
    desk.close_connections()
    frontier.close_connections()
    watch.close_connections()
    engine.dispose()


def test_a_slice_crawls_a_site_to_its_end_and_says_so(plant: Plant) -> None:
    with serve(LinkedSite(pages=60, links=10, size=1_000)) as site:
        job = plant.submit(site.url)
        report = plant.run()
    assert (report.pages, report.late, report.given_back, report.work_remains) == (60, 0, 0, False)
    assert plant.control.status(job).state is JobState.FINISHED
    assert plant.counters(job).reconciles
    assert plant.pages.lookups == 0, "nothing was lost before"
    pages = list(plant.pages.pages(job))
    assert len(pages) == 60
    for row in pages:
        assert row.archive is not None
        assert ArchiveReader(plant.root).read(row.archive).url == row.url


def test_a_slice_has_a_server_that_was_started_anew_looked_at_before_it_fetches(tmp_path: Path) -> None:
    with (
        servers.running(servers.valkey()) as url,
        a_plant(url, tmp_path, a_sqlite(tmp_path)) as plant,
        serve(LinkedSite(pages=20, links=5, size=500)) as site,
    ):
        job = plant.submit(site.url)
        rebuild = Rebuild.at(f"{url}?db=2", plant.prefix)
        rebuild.trust("the run before")
        fetched: list[int] = []

        def look() -> None:
            fetched.append(len(site.hits))
            plant.recovery(rebuild).look()

        replace(plant, look=look).run()
        assert fetched == [0], "and not again, once it is trusted"
        assert rebuild.trusted() == rebuild.server()
        assert plant.counters(job).done == len(site.hits) == 20
        rebuild.close_connections()


def test_a_database_that_keeps_every_thread_waiting_costs_no_lease(plant: Plant, tmp_path: Path) -> None:
    """A delivery and a copy of robots.txt wait for the lock, and renewals do not wait behind them."""
    other = sqlite3.connect(tmp_path / "shoal.db", isolation_level=None, check_same_thread=False)
    seen: list[tuple[str, str]] = []
    taken: list[int] = []

    def unlock() -> None:
        status = plant.frontier.status(job)
        seen.extend((trouble.what, trouble.message) for trouble in (status.troubles if status else ()))
        taken.append(plant.frontier.reap()[0])  # as another worker would do by now
        other.execute("COMMIT")

    def lock(_run: Slice) -> None:
        other.execute("BEGIN EXCLUSIVE")
        asyncio.get_running_loop().call_later(3.5, unlock)

    with serve(LinkedSite(pages=30, links=10, size=1_000)) as site, serve(LinkedSite(pages=5)) as second:
        job = plant.submit(site.url)
        polite = plant.submit(second.url, robots=True)
        plant.run(lock, lease_s=1)
        assert len(site.hits) == 30
    other.close()
    assert taken == [0]
    assert seen == [("database", "the database does not answer")]
    assert plant.watch.troubles() == ()
    assert plant.watch.outages()[Need.DATABASE] == 1
    for each, pages in ((job, 30), (polite, 5)):
        assert (plant.counters(each).lost, plant.counters(each).done) == (0, pages)


def test_while_a_store_is_down_nothing_more_is_leased(plant: Plant) -> None:
    plant.pages.failures = 4
    with serve(LinkedSite(pages=400, links=80, size=1_000)) as site:
        job = plant.submit(site.url)
        asked: list[int] = []

        def look(_run: Slice) -> None:
            for moment in (0.6, 1.2):
                asyncio.get_running_loop().call_later(moment, lambda: asked.append(len(site.hits)))

        plant.run(look)
    assert asked[0] == asked[1] <= 16
    assert plant.counters(job).done == 400
    assert plant.watch.outages() == {Need.REDIS: 0, Need.DATABASE: 1, Need.ARCHIVE: 0}


def test_a_store_that_is_down_for_a_while_costs_time_and_nothing_else(plant: Plant) -> None:
    plant.pages.failures = 3
    with serve(LinkedSite(pages=40, links=10, size=1_000)) as site:
        job = plant.submit(site.url)
        plant.run()
        assert len(site.hits) == 40
    assert plant.pages.count(job) == 40
    assert plant.counters(job).done == 40


def test_a_result_that_no_store_can_take_does_not_drag_its_neighbours_along(plant: Plant) -> None:
    plant.pages.poison = "/p/7"
    with serve(LinkedSite(pages=30, links=10, size=1_000)) as site:
        job = plant.submit(site.url)
        plant.run()
    (letter,) = plant.pages.dead_letters(job)
    assert letter.url.endswith("/p/7")
    assert (letter.reason, letter.detail) == ("internal_error", "ValueError: no store can take this")
    assert plant.pages.count(job) == 29
    counters = plant.counters(job)
    assert counters.reconciles
    assert (counters.done, counters.dead) == (29, 1)


def _forbid(engine: Engine, page: str) -> None:
    """From now on the database itself refuses rows of this page."""
    if engine.dialect.name == "sqlite":
        rule = f"""CREATE TRIGGER rule BEFORE INSERT ON pages WHEN new.url LIKE '%{page}'
                   BEGIN SELECT RAISE(ABORT, 'against the rule'); END"""
    else:
        rule = f"ALTER TABLE pages ADD CONSTRAINT rule CHECK (url NOT LIKE '%{page}')"
    with engine.begin() as connection:
        connection.exec_driver_sql(rule.replace("%", "%%") if engine.dialect.name == "postgresql" else rule)


def test_a_row_that_the_database_refuses_is_a_dead_letter_and_no_outage(each_plant: Plant) -> None:
    plant = each_plant
    _forbid(plant.pages.engine, "/p/7")
    with serve(LinkedSite(pages=30, links=10, size=1_000)) as site:
        job = plant.submit(site.url)
        plant.run()
        assert len(site.hits) == 30
    (letter,) = plant.pages.dead_letters(job)
    assert letter.url.endswith("/p/7")
    assert letter.reason == "row_refused"
    assert letter.detail.startswith("the database does not take this row: ")
    assert "rule" in letter.detail
    assert plant.pages.count(job) == 29
    counters = plant.counters(job)
    assert counters.reconciles
    assert (counters.done, counters.dead) == (29, 1)
    assert plant.watch.outages()[Need.DATABASE] == 0
    asked = [entry.ask.url for batch in Ledger(plant.pages.engine).batches(letter.host) for entry in batch]
    assert len(asked) == len(set(asked)) == 30
    records = b"".join(gzip.decompress(path.read_bytes()) for path in plant.root.glob("*/*.warc.gz"))
    assert records.count(b"WARC-Type: response") == 30, "nothing is archived twice"


def _forbid_letters(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("""CREATE TRIGGER no_letters BEFORE INSERT ON dead_letters
                                      BEGIN SELECT RAISE(ABORT, 'no letters either'); END""")


def test_a_slice_whose_results_nobody_delivers_any_more_stops_at_once_and_gives_the_others_back(plant: Plant) -> None:
    """The database takes neither a row nor the dead letter about it, while other fetches would take a minute."""
    _forbid(plant.pages.engine, "/p/1")
    _forbid_letters(plant.pages.engine)
    slow = {f"/p/{number}": [page("slow", delay=60)] for number in range(2, 5)}
    with serve(StatusSite({**slow, "/p/1": [page("never stored", delay=0.5)]})) as site:
        urls = [site.link(f"/p/{number}") for number in range(1, 5)]
        job = plant.submit(urls[0], urls=urls, follow=False)
        with pytest.raises(RowRefused, match="no letters either"):
            plant.run(grace_s=50)
        assert len(site.hits) == 4
    counters = plant.counters(job)
    assert (counters.queued, counters.leased) == (3, 1), (
        "what nobody takes is lost with this slice: three times at most"
    )
    assert counters.lost == 0


def test_a_slice_told_to_stop_gives_slow_fetches_back_unharmed(plant: Plant) -> None:
    with serve(SlowSite(delay=60, pages=3)) as site:
        job = plant.submit(site.url)

        def stop_soon(run: Slice) -> None:
            asyncio.get_running_loop().call_later(0.5, run.stop)

        report = plant.run(stop_soon, grace_s=0.2)
        assert len(site.hits) == 1
    assert report.given_back == 1
    counters = plant.counters(job)
    assert (counters.queued, counters.leased, counters.lost, counters.retries) == (1, 0, 0, 0)
    (batch,) = Ledger(plant.pages.engine).batches(site.url.removeprefix("http://").rstrip("/"))
    assert [(entry.ask.job, entry.ask.status, entry.ask.reason) for entry in batch] == [(job, 0, "interrupted")]


def test_a_slice_told_to_stop_gives_back_at_once_what_it_has_not_asked_for_while_fetches_go_on(plant: Plant) -> None:
    """One visit has its fetch under way; the other waits for its turn on the host that its robots.txt redirects to."""
    busy = "busy.test"
    plant.frontier.configure_host(busy, HostChange(rate=0.1))
    assert plant.frontier.drop_in(busy) == timedelta(), "its next turn is ten seconds later"
    polite = StatusSite({"/robots.txt": [redirect(f"http://{busy}/", 302)], "/": [page("1")]})
    with serve(StatusSite({"/": [page("slow", delay=4)]})) as slow, serve(polite) as waiting:
        flying, unstarted = plant.submit(slow.url), plant.submit(waiting.url, robots=True)
        seen: list[tuple[int, int, int]] = []
        claimed: list[bool] = []

        def look() -> None:
            counters = plant.counters(unstarted)
            seen.append((counters.queued, counters.leased, plant.counters(flying).leased))
            claimed.append(plant.frontier.claim_robots(waiting.url.rstrip("/")))

        def stop_soon(run: Slice) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(1.5, look)
            loop.call_later(1.6, run.stop)
            loop.call_later(2.8, look)

        report = plant.run(stop_soon, grace_s=30)
        assert [hit.target for hit in waiting.hits] == ["/robots.txt"]
    assert seen == [(0, 1, 1), (1, 0, 1)]
    assert claimed == [False, True], "others may fetch the robots.txt"
    assert report.given_back == 1
    assert plant.counters(flying).done == 1
    counters = plant.counters(unstarted)
    assert (counters.queued, counters.lost, counters.retries) == (1, 0, 0)


def test_a_robots_txt_under_way_when_a_slice_ends_is_left_to_other_workers_at_once(plant: Plant) -> None:
    with serve(StatusSite({"/robots.txt": [Reply(delay=60)], "/": [page("1")]})) as site:
        plant.submit(site.url, robots=True)
        origin = site.url.rstrip("/")
        free: list[bool] = []

        def stop_soon(run: Slice) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(0.4, lambda: free.append(plant.frontier.claim_robots(origin)))
            loop.call_later(0.5, run.stop)

        report = plant.run(stop_soon, grace_s=0.2)
        assert [hit.target for hit in site.hits] == ["/robots.txt"]
    assert report.given_back == 1
    assert free == [False]
    assert plant.frontier.claim_robots(origin)


def test_a_slice_that_ends_in_an_outage_waits_for_the_store_without_spinning(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.pages.failures = 4
    waits: list[float] = []

    def stop_and_watch(run: Slice) -> None:
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def watched(when: float, *args: Any, **options: Any) -> asyncio.TimerHandle:
            waits.append(when)
            return call_at(when, *args, **options)

        loop.call_later(0.4, run.stop)
        loop.call_later(0.6, lambda: monkeypatch.setattr(loop, "call_at", watched))
        loop.call_later(1.2, monkeypatch.undo)

    with serve(LinkedSite(pages=3, links=1, size=500)) as site:
        job = plant.submit(site.url)
        plant.run(stop_and_watch)
    assert plant.pages.calls == 5
    assert plant.counters(job).done == 1
    assert len(waits) < 30


def test_a_store_that_stays_away_does_not_keep_a_slice_from_ending(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grace, "SHORTEST_STOP", timedelta(seconds=2.5))
    plant.pages.failures = 1_000
    with serve(LinkedSite(pages=3, links=1, size=500)) as site, structlog.testing.capture_logs() as logs:
        job = plant.submit(site.url)
        report = plant.run(lambda run: asyncio.get_running_loop().call_later(0.4, run.stop), grace_s=0.2)
    assert [entry["results"] for entry in logs if entry["event"] == "results_abandoned"] == [1]
    assert report.given_back == 1
    counters = plant.counters(job)
    assert (counters.done, counters.queued, counters.leased) == (0, 1, 0)
    assert (counters.lost, counters.retries) == (0, 0), "nothing is held against it"


def test_a_row_that_is_stored_after_its_lease_was_given_back_changes_nothing(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice ends while the lock keeps its delivery waiting; the thread in which that waits stores the row later."""
    monkeypatch.setattr(grace, "SHORTEST_STOP", timedelta(seconds=2.5))
    other = sqlite3.connect(tmp_path / "shoal.db", isolation_level=None, check_same_thread=False)
    at_the_end: list[Counters] = []

    def lock_and_stop(run: Slice) -> None:
        other.execute("BEGIN EXCLUSIVE")
        asyncio.get_running_loop().call_later(0.5, run.stop)

    def unlock() -> None:
        at_the_end.append(plant.counters(job))
        other.execute("COMMIT")
        other.close()

    with serve(LinkedSite(pages=3, links=1, size=500)) as site:
        job = plant.submit(site.url)
        report = plant.run(lock_and_stop, grace_s=0.2, at_the_end=unlock)
        assert report.given_back == 1
        assert (at_the_end[0].queued, at_the_end[0].leased) == (1, 0)
        assert plant.pages.count(job) == 1, "it was stored all the same"
        assert (plant.counters(job).done, plant.counters(job).queued) == (0, 2), "and its link is known"
        plant.run()
        assert [site.count(f"/p/{number}") for number in range(1, 3)] == [1, 1]
    assert plant.control.status(job).state is JobState.FINISHED
    counters = plant.counters(job)
    assert counters.reconciles
    assert (counters.done, counters.lost, plant.pages.count(job)) == (3, 0, 3)


def test_leases_whose_job_cannot_be_looked_up_are_given_back_when_the_slice_is_told_to_stop(plant: Plant) -> None:
    answers = threading.Event()

    @dataclass(frozen=True)
    class Silent(Plant):
        def _context_of(self, job: str) -> JobContext | None:
            answers.wait(20)
            return super()._context_of(job)

    given = {each.name: getattr(plant, each.name) for each in fields(plant)}
    with serve(LinkedSite(pages=3, links=1, size=500)) as site:
        job = plant.submit(site.url)
        at_the_end: list[Counters] = []

        def look() -> None:
            at_the_end.append(plant.counters(job))
            answers.set()

        report = Silent(**given).run(
            lambda run: asyncio.get_running_loop().call_later(0.4, run.stop), grace_s=30, at_the_end=look
        )
        assert not site.hits
    assert (report.given_back, report.work_remains) == (1, True)
    assert (at_the_end[0].queued, at_the_end[0].leased, at_the_end[0].lost) == (1, 0, 0)


class LateRenewal(Frontier):
    """A frontier whose first renewal arrives when something else has happened."""

    after: Callable[[], object] = staticmethod(lambda: None)
    lost: frozenset[int] = frozenset()

    def renew(self, groups: Iterable[int], lease_for: timedelta) -> frozenset[int]:
        self.after()
        self.after = lambda: None
        lost = super().renew(groups, lease_for)
        self.lost |= lost
        return lost


def _run_with_late_renewal(plant: Plant, frontier: LateRenewal) -> list[int]:
    """How many groups of leases the slice says to have lost, each time."""
    with structlog.testing.capture_logs() as logs:
        replace(plant, frontier=frontier).run(lease_s=1)
    return [entry["groups"] for entry in logs if entry["event"] == "leases_lost"]


@pytest.fixture
def late_renewal(valkey_url: str, plant: Plant) -> Generator[LateRenewal]:
    frontier = LateRenewal(connect(f"{valkey_url}?db=2"), plant.prefix)
    yield frontier
    frontier.close_connections()


def test_leases_that_were_settled_during_a_renewal_are_not_lost(plant: Plant, late_renewal: LateRenewal) -> None:
    with serve(SlowSite(delay=0.6, pages=2)) as site:
        job = plant.submit(site.url)
        late_renewal.after = lambda: wait_until(lambda: plant.counters(job).done == 1)
        assert _run_with_late_renewal(plant, late_renewal) == []
    assert len(late_renewal.lost) == 1
    assert plant.counters(job).done == 2


def test_leases_that_others_have_taken_over_are_said_to_be_lost(plant: Plant, late_renewal: LateRenewal) -> None:
    with serve(SlowSite(delay=3, pages=1)) as site:
        plant.submit(site.url)
        late_renewal.after = lambda: wait_until(lambda: plant.frontier.reap()[0] == 1)
        assert _run_with_late_renewal(plant, late_renewal)[0] == 1


def test_a_request_that_three_workers_died_with_becomes_a_dead_letter(plant: Plant) -> None:
    with serve(LinkedSite(pages=5, links=3, size=500)) as site:
        job = plant.submit(site.url)
        for _ in range(3):
            batch = plant.frontier.lease(queues=QUEUES, limit=1, lease_for=timedelta(0))
            assert len(batch.leases) == 1
            assert plant.frontier.reap()[0] == 1
        plant.run()
        assert not site.hits
    (letter,) = plant.pages.dead_letters(job)
    assert letter.reason == "worker_lost"
    assert plant.counters(job).lost == 3


def test_requests_of_a_job_that_the_database_does_not_have_are_left_to_others(plant: Plant, tmp_path: Path) -> None:
    with serve(LinkedSite(pages=5, links=3, size=500)) as site:
        job = plant.submit(site.url)
        empty = open_database(f"sqlite:///{tmp_path / 'empty.db'}")
        replace(plant, jobs=JobStore(empty)).run()
        empty.dispose()
        assert not site.hits
    status = plant.control.status(job)
    assert (status.state, status.reasons, status.counters.delayed) == (JobState.RUNNING, {}, 1)
    assert (status.counters.delayed, status.counters.dead) == (1, 0)


def test_leases_of_a_vanished_worker_are_taken_over_by_the_next_slice(plant: Plant) -> None:
    with serve(LinkedSite(pages=20, links=5, size=500)) as site:
        job = plant.submit(site.url)
        plant.frontier.lease(queues=QUEUES, limit=10, lease_for=timedelta(milliseconds=300))
        wait_until(lambda: plant.frontier.glance(QUEUES).expired == 1)
        plant.run()
    counters = plant.counters(job)
    assert (counters.done, counters.lost) == (20, 1)


def test_a_submission_that_was_cut_short_is_completed_by_resume(plant: Plant) -> None:
    with serve(LinkedSite(pages=20, links=5, size=500)) as site:
        urls = [site.link(f"/p/{number}") for number in range(12)]
        spec = JobSpec(urls=tuple(urls), follow=False, rate="unlimited", robots=False)
        plant.jobs.create(NewJob("cut", spec, 1), [urls])
        assert plant.control.resume("cut") is JobState.RUNNING  # killed before the frontier heard of it
        plant.jobs.create(NewJob("half", spec, 1), [urls])
        plant.frontier.create("half", spec)
        plant.frontier.admit("half", [Request(parse(urls[0]))])  # killed in the middle
        plant.control.resume("half")
        plant.run()
    for job in ("cut", "half"):
        assert plant.control.status(job).state is JobState.FINISHED
        assert plant.counters(job).done == 12


def test_a_redirect_does_not_use_up_the_page_budget(plant: Plant) -> None:
    replies = {"/": [redirect("/home", 301)], "/home": [page("<a href=/old>1</a>")], "/old": [redirect("/new", 301)]}
    with serve(StatusSite({**replies, "/new": [page("<a href=/more>2</a>")], "/more": [page("3")]})) as site:
        job = plant.submit(site.url, pages=2)
        plant.run()
        assert [hit.target for hit in site.hits] == ["/", "/home", "/old", "/new"]
    status = plant.control.status(job)
    assert (status.counters.done, status.redirects) == (4, 2)
    assert status.counters.reconciles


class Forgetful(Frontier):
    """A frontier that has forgotten what it was told last, as if it had come back older, or nobody had told it."""

    def admit(
        self, job: str, candidates: Sequence[Candidate], duplicates: int = 0, *, owing: bool = False
    ) -> AdmitReport:
        return AdmitReport(JobState.RUNNING)

    def settle(self, settlements: Sequence[Settlement], sent: Mapping[str, Sent] | None = None) -> SettleReport:
        return SettleReport(0, ())


def _store_and_lose(plant: Plant, losses: int = 1) -> None:
    """What is due now is fetched and stored; links and settlements are lost, and the leases run out."""
    frontier = Forgetful(connect(plant.url), plant.prefix)
    replace(plant, frontier=frontier).run(lease_s=0.2)
    frontier.close_connections()
    wait_until(lambda: plant.frontier.reap()[0] > 0)
    for _ in range(losses - 1):
        assert plant.frontier.lease(queues=QUEUES, limit=1, lease_for=timedelta(0)).leases
        assert plant.frontier.reap()[0] == 1


@pytest.mark.parametrize("archive", [True, False])
def test_a_lost_request_whose_page_is_stored_is_not_fetched_again_and_leads_on(
    each_plant: Plant, *, archive: bool
) -> None:
    with (
        serve(LinkedSite(pages=20, links=5, size=500)) as site,
        serve(LinkedSite(pages=9, links=5, size=500)) as second,
        structlog.testing.capture_logs() as logs,
    ):
        job, other = each_plant.submit(site.url, archive=archive), each_plant.submit(second.url, archive=archive)
        _store_and_lose(each_plant)
        assert each_plant.pages.count(job) == each_plant.pages.count(other) == 1
        assert each_plant.counters(job).done == 0
        each_plant.run()
        assert (len(site.hits), len(second.hits)) == (20, 9)
    assert each_plant.pages.lookups == 1, "of all in one call"
    for each, pages in ((job, 20), (other, 9)):
        assert each_plant.control.status(each).state is JobState.FINISHED
        counters = each_plant.counters(each)
        assert counters.reconciles
        assert (counters.done, counters.lost, each_plant.pages.count(each)) == (pages, 1, pages)
        assert counters.received == sum(row.received for row in each_plant.pages.pages(each))
    said = [entry for entry in logs if entry["event"] == "page_was_stored"]
    assert {(entry["job"], entry["url"], entry["losses"]) for entry in said} == {
        (job, site.url, 1),
        (other, second.url, 1),
    }
    asked = [
        entry.ask.url for batch in Ledger(each_plant.pages.engine).batches(parse(site.url).host) for entry in batch
    ]
    assert len(asked) == len(set(asked)) == 20


@pytest.mark.parametrize("archive", [True, False])
def test_links_of_a_stored_page_without_a_body_are_written_down_once(plant: Plant, *, archive: bool) -> None:
    with serve(
        StatusSite({"/": [page("<a href=/1>1</a><a href=/2>2</a>")], "/1": [page("1")], "/2": [page("2")]})
    ) as site:
        job = plant.submit(site.url, archive=archive)
        _store_and_lose(plant)
        plant.run()
    assert len(plant.pages.links_after(job, 0)) == (0 if archive else 1)


def test_a_lost_redirect_that_is_stored_leads_to_its_target(plant: Plant) -> None:
    with serve(StatusSite({"/": [redirect("/home", 301)], "/home": [page("1")]})) as site:
        job = plant.submit(site.url, pages=1)
        _store_and_lose(plant)
        plant.run()
        assert [hit.target for hit in site.hits] == ["/", "/home"]
    status = plant.control.status(job)
    assert (status.counters.done, status.redirects, status.reasons) == (2, 1, {"done:redirect": 1})
    assert status.counters.reconciles


def test_a_lost_request_whose_stored_body_cannot_be_read_is_fetched_again(plant: Plant) -> None:
    with serve(LinkedSite(pages=20, links=5, size=500)) as site:
        job = plant.submit(site.url)
        _store_and_lose(plant)
        for segment in plant.root.rglob("*.warc.gz"):
            segment.unlink()
        plant.run()
        assert (site.count("/"), len(site.hits)) == (2, 21)
    assert plant.counters(job).reconciles
    assert plant.counters(job).done == plant.pages.count(job) == 20
    for row in plant.pages.pages(job):
        assert row.archive is not None
        assert ArchiveReader(plant.root).read(row.archive).url == row.url


def test_a_stored_page_whose_links_are_not_wanted_needs_no_body(plant: Plant) -> None:
    with serve(LinkedSite(pages=20, links=5, size=500)) as site:
        job = plant.submit(site.url, follow=False)
        _store_and_lose(plant)
        for segment in plant.root.rglob("*.warc.gz"):
            segment.unlink()
        plant.run()
        assert len(site.hits) == 1
    assert plant.counters(job).done == 1


def test_while_lost_requests_cannot_be_looked_up_they_are_given_back(plant: Plant) -> None:
    with serve(LinkedSite(pages=20, links=5, size=500)) as site:
        job = plant.submit(site.url)
        _store_and_lose(plant)
        plant.pages.lookup_failures = 2
        plant.run()
        assert (site.count("/"), len(site.hits)) == (1, 20)
    assert plant.pages.lookups == 3
    assert (plant.counters(job).done, plant.counters(job).lost) == (20, 1)
    assert plant.watch.outages()[Need.DATABASE] == 1


def test_a_request_that_three_workers_died_with_is_done_if_one_of_them_has_stored_its_page(plant: Plant) -> None:
    with serve(LinkedSite(pages=20, links=5, size=500)) as site:
        job = plant.submit(site.url)
        _store_and_lose(plant, losses=3)
        plant.run()
        assert len(site.hits) == 20
    assert not list(plant.pages.dead_letters(job))
    assert (plant.counters(job).done, plant.counters(job).lost) == (20, 3)


def test_a_host_that_was_not_asked_has_not_answered(plant: Plant) -> None:
    """Its breaker is open: a stored page says nothing about that."""
    with serve(StatusSite({"/": [page("1")]})) as site:
        job, host = plant.submit(site.url), parse(site.url).host
        _store_and_lose(plant)
        for number in range(5):
            plant.frontier.admit(job, [Request(parse(f"{site.url}gone/{number}"))])
        (known, *others) = plant.frontier.lease(queues=QUEUES, limit=6, lease_for=timedelta(seconds=60)).leases
        assert known.request.losses == 1
        down = [Settlement(lease, Outcome.DEAD, "connect_failed", signal=Signal.DOWN) for lease in others]
        plant.frontier.settle(down)
        assert (status := plant.watch.host(host)) and status.breaker is Breaker.TRIPPED
        plant.frontier.release([known])
        wait_until(lambda: plant.run().pages == 1)
        assert (status := plant.watch.host(host)) and status.breaker is Breaker.TRIPPED
        assert len(site.hits) == 1
    assert (plant.counters(job).done, plant.counters(job).dead) == (1, 5)


@pytest.mark.parametrize("doubted", [True, False])
def test_while_a_server_that_was_started_anew_is_in_doubt_every_request_is_looked_up(
    plant: Plant, *, doubted: bool
) -> None:
    rebuild = Rebuild.at(plant.url, plant.prefix)
    with serve(LinkedSite(pages=20, links=5, size=500)) as site:
        job = plant.submit(site.url)
        _store_and_forget(plant)
        if doubted:
            rebuild.cast_doubt(timedelta(minutes=1))
        replace(plant, doubt=rebuild.doubt).run()
        assert (site.count("/"), len(site.hits)) == ((1, 20) if doubted else (2, 21))
    assert (plant.pages.lookups > 0) is doubted
    counters = plant.counters(job)
    assert counters.reconciles
    assert (counters.done, counters.lost, plant.pages.count(job)) == (20, 0, 20)
    rebuild.close_connections()


def _store_and_forget(plant: Plant) -> None:
    """What is due now is fetched and stored; then the frontier is as if it had not been leased."""
    given: list[Lease] = []

    class Older(Forgetful):
        def settle(self, settlements: Sequence[Settlement], sent: Mapping[str, Sent] | None = None) -> SettleReport:
            given.extend(settlement.lease for settlement in settlements)
            return super().settle(settlements)

    frontier = Older(connect(plant.url), plant.prefix)
    replace(plant, frontier=frontier).run()
    frontier.release(given)
    frontier.close_connections()


class EvilSite:
    """Thirty ordinary pages, and two that would keep a parser busy for a long time."""

    def respond(self, path_and_query: str, _hits: int) -> Reply:
        if path_and_query == "/nested":
            return page("<div>" * 100_000)
        if path_and_query == "/many":
            return page("<h1>many</h1>" + "".join(f"<a href=//other.example/{number}>" for number in range(60_000)))
        links = "".join(f"<a href=/{number}>" for number in range(30))
        return page(f"<h1>ordinary</h1><a href=/nested><a href=/many>{links}")


def test_pages_that_no_parser_bears_are_kept_and_hold_nobody_up(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "CPU_S", 1.0)  # a second is enough to see it
    with serve(EvilSite()) as site, structlog.testing.capture_logs() as logs:
        job = plant.submit(site.url, fields={"title": "h1"})
        report = plant.run()
    assert report.late == 0
    rows = {row.url.rpartition("/")[2]: row for row in plant.pages.pages(job)}
    assert len(rows) == 33
    assert rows["nested"].archive is not None
    assert rows["nested"].size == 500_000
    told = [(line["event"], line["url"].rpartition("/")[2]) for line in logs if line["event"].startswith("page_")]
    assert sorted(told) == [("page_cut", "many"), ("page_unread", "nested")]
    items = {item.url.rpartition("/")[2]: item.data["title"] for item in plant.pages.items(job)}
    assert (items.pop("many"), set(items.values()), len(items)) == ("many", {"ordinary"}, 31)
    counters = plant.counters(job)
    assert (counters.done, counters.dead, counters.filtered) == (33, 0, 50_000)
    reasons = plant.control.status(job).reasons
    assert (reasons.get("done:too_complex"), reasons.get("done:page_cut")) == (1, 1)
