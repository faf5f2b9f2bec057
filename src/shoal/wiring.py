"""The one place that knows concrete adapters: settings in, a working platform out."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache

from sqlalchemy.engine import Engine

from shoal import spans
from shoal.again.again import Again
from shoal.changes.changes import Changes
from shoal.changes.telling import ToldChanges
from shoal.chores import Repairs
from shoal.control import Control, Ending
from shoal.core.frozen import frozen
from shoal.core.spec import JobSpec
from shoal.embedded import hold_embedded
from shoal.errors import BadSpec, RedisUnavailable, StoreUnavailable
from shoal.explain.explainer import Explainer
from shoal.field_stats import FieldStats
from shoal.frontier.frontier import Frontier
from shoal.frontier.rebuild import Rebuild
from shoal.frontier.watch import Watch
from shoal.frontier.where import FrontierPlace
from shoal.frontier.whereabouts import Whereabouts
from shoal.history import History, Sampler
from shoal.home import keep_reserve, make_home, prepare_home, spend_reserve
from shoal.host_file import HostFile
from shoal.hosts import Hosts
from shoal.housekeeping import Housekeeper, Keeping
from shoal.intake.intake import Caps, Intake
from shoal.intake.replay import Replays
from shoal.intake.ring import Ring
from shoal.leftovers import Leftovers
from shoal.output.delivery import Deliverer, contract_kept
from shoal.proxy_pools import pools_of
from shoal.reconcile import Reconciler
from shoal.recovery.recovery import Recovery
from shoal.recovery.way_back import WayBack
from shoal.redis_check import check_broker, check_redis, check_shards
from shoal.redis_url import RedisUrls
from shoal.retention import Retention, Stores
from shoal.schedules.book import Book
from shoal.schedules.planner import Planner
from shoal.schedules.schedules import Schedules
from shoal.schedules.starter import Check, Starter
from shoal.schedules.starter import Stores as ScheduleStores
from shoal.settings import Settings
from shoal.spiders.finder import use as use_spiders
from shoal.store.archive import ArchiveReader, ArchiveWriter
from shoal.store.dead import DeadLetters
from shoal.store.deliveries import Deliveries
from shoal.store.ended import EndedJobs
from shoal.store.epochs import Epochs
from shoal.store.extractions import ExtractionStore
from shoal.store.folders import ArchiveFolders
from shoal.store.history import HistoryStore
from shoal.store.host_limits import HostLimits
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.ledger import Ledger
from shoal.store.loans import Loans
from shoal.store.objects import Objects
from shoal.store.orphans import Orphans
from shoal.store.owner import Owner, owner_of
from shoal.store.pages import PageStore
from shoal.store.remote import RemoteFolders, RemoteReader, RemoteWriter
from shoal.store.robots import RobotsStore
from shoal.store.run_pages import RunPages
from shoal.store.schedule_runs import RunStore
from shoal.store.schedules import ScheduleStore
from shoal.store.tallies import Tallies
from shoal.store.traces import Traces
from shoal.upgrades import open_store
from shoal.webhooks.assembly import Parts, make_webhooks
from shoal.webhooks.webhooks import Webhooks


@frozen
class Platform:
    """Stores, frontier and control of one process."""

    settings: Settings
    engine: Engine
    owner: Owner
    frontier: Frontier
    jobs: JobStore
    pages: PageStore
    extractions: ExtractionStore
    again: Again
    archive: ArchiveReader
    watch: Watch
    intake: Intake
    ending: Ending
    control: Control
    hosts: Hosts
    ledger: Ledger
    retention: Retention
    housekeeper: Housekeeper
    rebuild: Rebuild
    recovery: Recovery
    deliveries: Deliveries
    deliverer: Deliverer
    field_stats: FieldStats
    history: History
    whereabouts: Whereabouts
    explainer: Explainer
    schedules: Schedules
    webhooks: Webhooks
    changes: Changes

    @classmethod
    def open(cls, settings: Settings, frontier: Frontier, ring: Ring, *, durable: bool = False) -> Platform:
        """Open the stores around a frontier; `durable` waits for the disk at each commit."""
        use_spiders(settings.spiders)
        spans.configure(settings.traces, settings.trace_share)
        engine = open_store(settings, durable=durable)
        jobs, pages, archive = JobStore(engine), PageStore(engine), open_archive(settings)
        extractions = ExtractionStore(engine)
        again = Again(frontier, jobs, extractions, ring)
        place = frontier_place(settings)
        watch = place.watch()
        caps = Caps(settings.frontier_urls, settings.frontier_bytes)
        samples = HistoryStore(engine)
        ending = Ending(frontier, jobs, samples)
        rebuild = place.rebuild()
        epochs = Epochs(engine, settings.prefix)
        way = WayBack(frontier, rebuild, jobs, pages, archive, ending.finalise, ring)
        recovery = Recovery(frontier, rebuild, epochs, jobs, pages, way)
        replays = Replays(frontier, jobs, pages, DeadLetters(engine), ending.finalise)
        bounds = (settings.egress, settings.max_body)
        intake = Intake(frontier, watch, jobs, replays, ring, caps, ending.finalise, way, *bounds)
        control = Control(frontier, jobs, pages, intake, ending, ring)
        hosts = Hosts(frontier, watch, HostLimits(engine), HostFile(settings.hosts_file))
        ledger, keeping = Ledger(engine), Keeping(timedelta(days=settings.ledger_days), settings.ledger_rows)
        ended, loans = EndedJobs(engine), Loans(engine)
        owner = owner_of(engine, settings.sql_url, None if settings.archive_place else settings.archive_path)
        folders = _open_folders(settings, owner)
        stores = Stores(jobs, ended, pages, extractions, archive, folders, loans)
        retention = Retention(frontier, ending, stores, _kept_for(settings))
        reconciler = Reconciler(frontier, watch, pages, ended, ending, ring, lambda job: way.begin(job, force=True))
        leftovers = Leftovers(Orphans(engine), loans, folders, archive, Repairs(frontier.audit))
        deliveries = Deliveries(engine)
        deliverer = _deliverer(settings, frontier, jobs, pages, extractions, deliveries)
        field_stats = FieldStats(frontier, jobs, pages, Tallies(engine))
        whereabouts = place.whereabouts()
        explainer = Explainer(Traces(engine), whereabouts, RobotsStore(engine), extractions, hosts, watch)
        schedules = _schedules(settings, engine, frontier, intake, control)
        changes = Changes(jobs, pages, RunPages(engine), extractions, archive)
        webhooks = make_webhooks(_webhook_parts(settings, frontier), engine, pages, ToldChanges(jobs, changes))
        housekeeper = Housekeeper(
            *(frontier, jobs, intake, ending, hosts, ledger, keeping, recovery, reconciler, leftovers, retention),
            *(again, deliverer),
            field_stats,
            Sampler(frontier, watch, rebuild, samples, settings.history_rows),
            schedules,
            webhooks,
        )
        return cls(
            *(settings, engine, owner, frontier, jobs, pages, extractions, again, archive),
            *(watch, intake, ending, control, hosts, ledger),
            *(retention, housekeeper, rebuild, recovery, deliveries, deliverer, field_stats),
            *(History(frontier, rebuild, samples), whereabouts, explainer, schedules, webhooks, changes),
        )

    def close(self) -> None:
        spans.flush()
        self.frontier.close_connections()
        self.watch.close_connections()
        self.whereabouts.close_connections()
        self.rebuild.close_connections()
        self.engine.dispose()


def open_archive(settings: Settings) -> ArchiveReader:
    """Who reads the archive; an object store is asked for nothing yet."""
    place = settings.archive_place
    return RemoteReader(settings.archive_path, Objects(place)) if place else ArchiveReader(settings.archive_path)


def open_archive_writer(settings: Settings, owner: Owner) -> ArchiveWriter:
    """Who writes to it, in a process that is not forked any more."""
    path, limits = settings.archive_path, (settings.segment_bytes, owner.name)
    if place := settings.archive_place:
        return RemoteWriter(path, Objects(place), *limits, segment_age=settings.segment_age)
    return ArchiveWriter(path, *limits, segment_age=settings.segment_age)


def _open_folders(settings: Settings, owner: Owner) -> ArchiveFolders:
    path, place = settings.archive_path, settings.archive_place
    return RemoteFolders(path, Objects(place), owner) if place else ArchiveFolders(path, owner)


def _kept_for(settings: Settings) -> timedelta | None:
    return timedelta(days=settings.keep_days) if settings.keep_days else None


def _deliverer(
    settings: Settings,
    frontier: Frontier,
    jobs: JobStore,
    pages: PageStore,
    extractions: ExtractionStore,
    deliveries: Deliveries,
) -> Deliverer:
    def spec_of(job: JobRow, version: str) -> JobSpec:
        return extractions.choose(job.id, job.spec, version).spec

    bounds = (settings.allowed_outputs, contract_kept(pages, spec_of), spec_of)
    return Deliverer(jobs, pages, deliveries, frontier.audit.now_ms, *bounds)


def _schedules(settings: Settings, engine: Engine, frontier: Frontier, intake: Intake, control: Control) -> Schedules:
    clock, check = schedule_clock(frontier), _check_of(settings)
    stores = ScheduleStores(ScheduleStore(engine), RunStore(engine), JobStore(engine), HistoryStore(engine))
    return Schedules(
        Book(stores.schedules, stores.runs, intake, clock, check),
        Planner(stores.schedules, stores.runs, clock, frontier.audit.count_runs),
        Starter(stores, intake, control, clock, check, frontier.audit),
        stores.schedules,
        stores.runs,
    )


def schedule_clock(frontier: Frontier) -> Callable[[], int]:
    """Redis' clock, so that all who keep house agree on what is due."""
    return frontier.audit.now_ms


def _check_of(settings: Settings) -> Check:
    """What else a job of a schedule needs to be there: its pool of proxies, the operator's word on its output."""

    def check(spec: JobSpec, allowed: str) -> None:
        pools_of(settings.proxies_file).check(spec.proxies)
        if allowed and spec.output and (why := settings.allowed_outputs.refuses(spec.output.place)):
            raise BadSpec(f"output: {why}", field="output.to")

    return check


def _webhook_parts(settings: Settings, frontier: Frontier) -> Parts:
    return Parts(
        user_agent=settings.user_agent,
        egress=settings.egress,
        mail_server=settings.mail_server,
        mail_from=settings.mail_from,
        mail_domains=settings.mail_domain_names,
        now_ms=frontier.audit.now_ms,
        count=frontier.audit.count_webhook,
    )


@contextmanager
def with_redis(settings: Settings, *, room: bool = True) -> Generator[Settings]:
    """Settings that name a Redis which answers: the configured one, or the embedded one for as long as this lasts.

    What else they name is looked at first: a file of hosts that cannot be read is found out at the start, and so is a
    full disk by who needs `room` there.
    """
    (prepare_home if room else make_home)(settings.home)
    HostFile(settings.hosts_file).check()
    if settings.redis_url:
        check_redis(settings.redis_url)
        check_broker(redis_urls(settings).broker)
        check_shards(settings.shard_urls)
        yield settings
        return
    hold = hold_embedded(settings.home)
    try:
        if settings.broker_url:
            check_broker(RedisUrls.of(hold.url, settings.broker_url).broker)
        yield settings.model_copy(update={"redis_url": hold.url})
    finally:
        hold.release()


def lazy_ring(settings: Settings, frontier: Frontier) -> Ring:
    """A doorbell for processes that may never ring: Celery takes a while to import."""

    @cache
    def doorbell() -> Ring:
        return _doorbell(settings, frontier)

    def ring(queue: str, request_id: str = "") -> None:
        doorbell()(queue, request_id)

    return ring


def _doorbell(settings: Settings, frontier: Frontier) -> Ring:
    from shoal.worker.app import make_app
    from shoal.worker.doorbell import Doorbell

    return Doorbell(make_app(redis_urls(settings)), frontier).ring


def no_ring(queue: str, request_id: str = "") -> None:
    """For who has just started workers: they look by themselves."""
    del queue, request_id


@contextmanager
def open_platform(settings: Settings, *, rings: bool = True) -> Generator[Platform]:
    """Everything that a command needs, for as long as it runs. On a full disk too: who looks needs no room there."""
    with with_redis(settings, room=False) as chosen:
        frontier = frontier_place(chosen).frontier()
        platform = _open_in_little_room(chosen, frontier, lazy_ring(chosen, frontier) if rings else no_ring)
        try:
            yield platform
        finally:
            platform.close()
            keep_reserve(chosen.home)


def _open_in_little_room(settings: Settings, frontier: Frontier, ring: Ring) -> Platform:
    """Who opens a database of SQLite that nobody has open needs a few kilobytes beside it, even to read."""
    try:
        return Platform.open(settings, frontier, ring)
    except StoreUnavailable:
        if not spend_reserve(settings.home):
            raise
        return Platform.open(settings, frontier, ring)


def sync_hosts(settings: Settings) -> None:
    """Let the frontier have the operators' words, and the jobs that it may have lost, before anybody asks it for work.

    The settings name a Redis already (`with_redis`).
    """
    platform = Platform.open(settings, frontier_place(settings).frontier(), no_ring)
    try:
        if platform.frontier.in_slots:
            platform.recovery.look()  # a shard that nobody has looked at takes no word
        platform.hosts.sync()  # before lost jobs come back
        platform.recovery.look()
    finally:
        platform.close()


def serving_platform(settings: Settings) -> Platform:
    """For a process that answers clients: what it has promised is on the disk, and nobody waits for imports.

    The settings name a Redis already (`with_redis`).
    """
    frontier = frontier_place(settings).frontier()
    platform = Platform.open(settings, frontier, _doorbell(settings, frontier), durable=True)
    platform.archive.prepare()
    return platform


def housekeeping_platform(settings: Settings) -> Platform:
    """For a process that keeps house, and answers nobody. The settings name a Redis already (`with_redis`)."""
    frontier = frontier_place(settings).frontier()
    return Platform.open(settings, frontier, _doorbell(settings, frontier), durable=True)


def frontier_place(settings: Settings) -> FrontierPlace:
    """Where the frontier of these settings is."""
    return FrontierPlace(redis_urls(settings).frontier, settings.prefix, settings.shard_urls, settings.manners)


def redis_urls(settings: Settings) -> RedisUrls:
    if not settings.redis_url:
        raise RedisUnavailable("no Redis was chosen")
    return RedisUrls.of(settings.redis_url, settings.broker_url)
