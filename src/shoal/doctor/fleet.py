"""The fleet: who is alive, in which version, which queues nobody serves, who keeps house, what workers wait for."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from shoal import __version__
from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.model import CONTROL_QUEUE
from shoal.core.trouble import Need, Trouble, worst
from shoal.doctor.database import opened
from shoal.doctor.finding import Area, Finding, Kind, Level, note, well
from shoal.doctor.ground import Ground, NotLooked
from shoal.upgrades import BUILD, build_of

HOUSEKEEPING = ("strays", "rings")
"""Chores that are done every ten and fifteen seconds; who has done one leaves a mark for as long."""
LOOK_AGAIN_S = 2.5
"""A little more than from one round of housekeeping to the next."""

NO_WORKER = Kind(
    "no_worker", Area.FLEET, Level.ERROR,
    "Work waits, and nobody does it.",
    "shoal worker --beat",
)  # fmt: skip
UNSERVED = Kind(
    "unserved_queue", Area.FLEET, Level.ERROR,
    "Tasks queue and never run: no living worker serves this queue.",
    "shoal worker --queues {queue}",
)  # fmt: skip
NO_CONTROL = Kind(
    "no_housekeeping", Area.FLEET, Level.WARNING,
    "Schedules, webhooks, deliveries, retention and repairs stand still.",
    "shoal worker --queues control --beat",
)  # fmt: skip
NO_BEAT = Kind(
    "no_beat", Area.FLEET, Level.WARNING,
    "A worker serves `control`, and nobody calls for the housekeeping: schedules, webhooks and repairs stand still.",
    "shoal beat",
)  # fmt: skip
OTHER_VERSION = Kind(
    "other_version", Area.FLEET, Level.WARNING,
    "Scripts, messages and the database's schema change with versions: workers of two of them trip each other up.",
    "pip install shoal=={version} && shoal worker",
)  # fmt: skip
DIED = Kind(
    "workers_died", Area.FLEET, Level.WARNING,
    "Workers ended without being told to: mostly the system killed them for their memory. Celery calls it "
    "WorkerLostError, signal 9 (SIGKILL).",
    "export SHOAL_CONCURRENCY=1 SHOAL_RECYCLE_MEGABYTES=256",
)  # fmt: skip
WAITING = Kind(
    "workers_wait", Area.FLEET, Level.ERROR,
    "Workers cannot use something that they need, and pause until they can.",
    "shoal logs --level warning",
)  # fmt: skip
APART = Kind(
    "apart_databases", Area.FLEET, Level.ERROR,
    "Workers on several machines, and a database that is a file of this one: the others write their pages elsewhere.",
    "export SHOAL_DATABASE_URL=postgresql://user:password@HOST/DATABASE",
)  # fmt: skip


def workers(ground: Ground) -> Iterator[Finding]:
    """Is somebody there for all that waits?"""
    with ground.watch() as watch:
        alive, depths, troubles, stats = watch.workers(), watch.queues(), watch.troubles(), watch.stats()
    yield from judge(alive, depths, without_house=_without_house(ground))
    yield from _of_troubles(troubles)
    if died := sum(times for name, times in stats.items() if name in ("restarts:died", "restarts:hung")):
        yield DIED.found(f"{died} times a worker, or a process of one, had to be started again")
    if not ground.settings.database_url or ground.settings.database_url.startswith("sqlite"):
        yield from _of_machines(alive)


def _without_house(ground: Ground) -> Level:
    """How bad it is when nobody keeps house: schedules and webhooks do nothing without."""
    try:
        with opened(ground) as database:
            return Level.ERROR if database.counts_on_housekeeping() else Level.WARNING
    except NotLooked:
        return Level.WARNING


def judge(
    alive: Sequence[WorkerBeat], depths: Iterable[QueueDepth], *, without_house: Level = Level.WARNING
) -> Iterator[Finding]:
    """Workers held against queues."""
    waiting = {depth.queue: depth.pending for depth in depths if depth.jobs_due or depth.leased}  # not of paused jobs
    if not alive:
        yield from _nobody(waiting)
        return
    served = {queue for worker in alive for queue in worker.queues}
    for queue, pending in waiting.items():
        if queue not in served:
            yield UNSERVED.found(f"{pending} URLs wait in {queue}, which no living worker serves", queue=queue)
    if CONTROL_QUEUE not in served:
        yield NO_CONTROL.found(f"of the living workers ({len(alive)}) none serves control", level=without_house)
    for build in sorted({build_of(worker) for worker in alive} - {BUILD}):
        names = ", ".join(worker.name for worker in alive if build_of(worker) == build)
        what = f"this is Shoal {BUILD}, and {build} is what runs in: {names}"
        yield OTHER_VERSION.found(what, version=__version__)
    yield well(Area.FLEET, f"workers alive: {', '.join(worker.name for worker in alive)}")


def _nobody(waiting: dict[str, int]) -> Iterator[Finding]:
    if waiting:
        told = ", ".join(f"{pending} in {queue}" for queue, pending in waiting.items())
        queues = ",".join([*waiting, CONTROL_QUEUE])
        yield NO_WORKER.found(
            f"no worker is alive, and URLs wait: {told}", mend=f"shoal worker --queues {queues} --beat"
        )
    else:
        yield note(Area.FLEET, "no worker is alive, and nothing waits for one; `shoal crawl` brings its own")


def _of_troubles(troubles: Iterable[Trouble]) -> Iterator[Finding]:
    for trouble, many in worst(troubles):
        lasted = f" for {trouble.lasted_ms // 1000} s" if trouble.lasted_ms else ""
        what = f"{many} processes wait for the {trouble.what.value}{lasted}: {trouble.message}"
        mend = "df -h" if trouble.what is Need.ARCHIVE else ""
        yield WAITING.found(what, mend=mend)


def _of_machines(alive: Iterable[WorkerBeat]) -> Iterator[Finding]:
    machines = sorted({worker.name.rpartition(":")[0] for worker in alive})
    if len(machines) > 1:
        yield APART.found(f"there are workers on {', '.join(machines)}, and the database is SQLite")


def housekeeping(ground: Ground) -> Iterator[Finding]:
    """Has somebody kept house lately? Looked at twice, for a round may just be over."""
    with ground.watch() as watch:
        served = any(CONTROL_QUEUE in worker.queues for worker in watch.workers())
    if not served:
        return
    with ground.frontier() as client:
        keys = [f"{ground.settings.prefix}:chore:{chore}" for chore in HOUSEKEEPING]
        for again in (True, False):
            if client.exists(*keys):
                yield well(Area.FLEET, "somebody keeps house")
                return
            if again:
                time.sleep(LOOK_AGAIN_S)
    yield NO_BEAT.found("nobody has kept house for the last 15 s", level=_without_house(ground))


CHECKS = (workers, housekeeping)
