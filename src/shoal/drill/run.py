"""One run of the drill, from an empty folder to its evidence; whatever happens, nothing of it is left running."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shoal.core.frozen import frozen
from shoal.core.spec import JobSpec
from shoal.drill.evidence import Evidence, Held
from shoal.drill.faults import Injector
from shoal.drill.fleet import Fleet
from shoal.drill.owners import held_by
from shoal.drill.plan import PARALLEL, Plan
from shoal.drill.redis_server import RedisServer
from shoal.drill.schedule import make_schedule
from shoal.drill.site import LOOPBACK, Site
from shoal.drill.witness import Witness
from shoal.settings import Settings
from shoal.wiring import open_platform

LOOK_S = 0.05
AFTERMATH_S = 2.0
"""Workers that were thawed after the end may still try to write."""


@frozen
class Moment:
    """How a run stands, for who watches it."""

    seconds: float
    stored: int
    urls: int
    injected: int
    faults: int
    under_way: tuple[str, ...]


Show = Callable[[Moment], None]


def run_drill(plan: Plan, folder: Path, show: Show) -> Evidence:
    """Crawl a site of our own under faults, in this empty folder."""
    with _ground(plan, folder) as ground:
        began = time.monotonic()
        ground.fleet.start()
        finished = _watch(ground, began, show)
        _see_out(ground)
        return _testimony(ground, began, finished)


@frozen
class _Ground:
    """Everything that a run has running."""

    plan: Plan
    site: Site
    fleet: Fleet
    injector: Injector
    witness: Witness


@contextmanager
def _ground(plan: Plan, folder: Path) -> Generator[_Ground]:
    home = folder / "home"
    with ExitStack() as stack:
        site = stack.enter_context(Site(plan.urls, plan.hosts, plan.submitted))
        server = RedisServer(folder / "redis")
        stack.callback(server.kill)
        server.start()
        settings = Settings(home=home, redis_url=server.url, lease_seconds=plan.lease_s, egress_allow=LOOPBACK)
        platform = stack.enter_context(open_platform(settings, rings=False))
        job = platform.intake.submit(_spec(plan, site)).job
        witness = Witness(platform, plan, job)
        stack.callback(witness.close)
        fleet = Fleet(plan, home, server.url)
        stack.callback(fleet.end)
        injector = Injector(make_schedule(plan), fleet, server, home / "shoal.db", _leases(witness, site))
        stack.callback(server.thaw)
        yield _Ground(plan, site, fleet, injector, witness)


def _leases(witness: Witness, site: Site) -> Callable[[int | None], set[Held]]:
    def leased(worker: int | None) -> set[Held]:
        held = witness.leased()
        return held if worker is None else held_by(worker, held, site.hits)

    return leased


def _spec(plan: Plan, site: Site) -> JobSpec:
    return JobSpec(urls=site.map.starts, name=f"drill {plan.seed}", rate=plan.rate, parallel=PARALLEL)


def _watch(ground: _Ground, began: float, show: Show) -> bool:
    """Look on and do harm until the job has ended; False when it does not."""
    while not ground.witness.has_ended():
        seconds = time.monotonic() - began
        if seconds > ground.plan.deadline_s:
            return False
        _look(ground)
        show(_moment(ground, seconds))
        time.sleep(LOOK_S)
    return True


def _look(ground: _Ground) -> None:
    ground.witness.look()
    ground.injector.step(ground.witness.progress)
    ground.fleet.count_missing()


def _see_out(ground: _Ground) -> None:
    """Let faults that are under way come to their end, and thawed workers do what they still want to do."""
    ground.injector.drop_waiting()
    while ground.injector.under_way:
        _look(ground)
        time.sleep(LOOK_S)
    calm = time.monotonic() + AFTERMATH_S
    while time.monotonic() < calm:
        _look(ground)
        time.sleep(LOOK_S)


def _testimony(ground: _Ground, began: float, finished: bool) -> Evidence:
    witness = ground.witness
    status, stats = witness.status(), witness.stats()
    return Evidence(
        plan=ground.plan,
        urls=ground.site.map.urls,
        finished=finished,
        hits=tuple(ground.site.hits),
        rows=witness.rows(),
        stored_at=witness.stored_at,
        unreadable=witness.unreadable(),
        dead=witness.dead(),
        counters=status.counters if status else None,
        faults=tuple(ground.injector.injected),
        reasons=status.reasons if status else {},
        late=stats.get("late", 0),
        reaped=stats.get("reaped", 0),
        unasked=tuple(ground.fleet.unasked),
        began=began,
        ended=time.monotonic(),
    )


def _moment(ground: _Ground, seconds: float) -> Moment:
    injector = ground.injector
    return Moment(
        seconds=seconds,
        stored=len(ground.witness.stored_at),
        urls=ground.plan.urls,
        injected=len(injector.injected) + len(injector.under_way),
        faults=ground.plan.faults,
        under_way=tuple(injector.under_way),
    )
