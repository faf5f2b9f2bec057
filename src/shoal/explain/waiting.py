"""Where a request waits, and for what: its place, its host, its job, its workers."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

from shoal.core.explanation import Step, moment
from shoal.core.job_status import JobStatus
from shoal.core.model import Engine, JobState, queue_name
from shoal.frontier.watch import Watch
from shoal.frontier.whereabouts import Found, Sighting, Where
from shoal.hosts import Hosts
from shoal.store.job_rows import JobRow


def waiting_steps(sighting: Sighting, found: Found, hosts: Hosts, watch: Watch, row: JobRow) -> Iterator[Step]:
    """From its place to what stands before it."""
    request = found.request
    if request.render:
        yield Step("browser", "it needs a browser, and waits for one of its workers", detail={"render": True})
    if request.losses:
        told = f"{request.losses} of its leases were lost with their workers"
        yield Step("lost", told, detail={"losses": request.losses})
    yield place_step(sighting, found)
    if found.where is Where.LEASED:
        return
    if row.state is JobState.PAUSED:
        yield Step("paused", f"the job is paused: shoal resume {row.id}", detail={"state": row.state.value})
    yield from _host_steps(sighting, hosts, watch, request.url.host)
    yield from _worker_steps(watch, row, render=request.render)


def place_step(sighting: Sighting, found: Found) -> Step:
    """The place itself."""
    host, attempt = found.request.url.host, found.request.attempt + 1
    if found.where is Where.QUEUED:
        before = f"{found.before:,} of {sighting.queued:,} before it" if found.before else "nothing before it"
        told = f"queued for {host}, {before}; attempt {attempt}"
        detail = {"host": host, "before": found.before, "queued": sighting.queued, "attempt": attempt}
        return Step("queued", told, detail=detail)
    until = moment(found.until_ms)
    if found.where is Where.DELAYED:
        told = f"it waits until {until} for attempt {attempt}"
        return Step("delayed", told, detail={"until": until, "attempt": attempt})
    by = found.holder or "a worker"
    told = f"leased by {by} until {until}; attempt {attempt}"
    return Step("leased", told, detail={"until": until, "holder": found.holder or None, "attempt": attempt})


def _host_steps(sighting: Sighting, hosts: Hosts, watch: Watch, host: str) -> Iterator[Step]:
    """Why the host is not asked now, and when it may be."""
    for wait in hosts.waits([host]):
        yield Step("throttled", f"{wait.host}: {wait.reason}", detail={"host": wait.host, "why": wait.reason})
    ready, now = sighting.ready_ms, sighting.now_ms
    if ready is not None and ready > now and not isinf(ready):
        told = f"{host} may next be asked for this job at {moment(ready)}"
        yield Step("throttled", told, detail={"host": host, "until": moment(ready)})
    status = watch.host(host)
    if status and status.pace is not None and status.decisions:
        last = status.decisions[0]
        told = f"{host} is asked {status.pace:g} times a second at the most: {last.reason}"
        yield Step("throttled", told, last.at_ms, {"host": host, "pace": status.pace, "why": last.reason})


def _worker_steps(watch: Watch, row: JobRow, *, render: bool) -> Iterator[Step]:
    queue = queue_name(Engine.BROWSER, row.spec.lane) if render else row.spec.queue
    beats = watch.workers()
    if row.state is not JobState.RUNNING:
        return
    if not beats:
        yield Step("worker", f"no worker is alive: shoal resume {row.id}, or shoal worker")
    elif not any(queue in beat.queues for beat in beats):
        yield Step("worker", f"no worker serves {queue}: shoal worker --queues {queue}", detail={"queue": queue})


def lost_step(row: JobRow, sighting: Sighting) -> Step:
    """Nobody knows what waits in a job that Redis has lost, before it is rebuilt."""
    if sighting.rebuilding:
        told = "Redis has lost the job, which is being rebuilt: what waits in it is not complete; ask again"
    else:
        told = (
            f"Redis has lost the job: what waited in it comes back with its rebuild (at once: shoal recover {row.id})"
        )
    return Step("job_lost", told)


def ended_step(row: JobRow, status: JobStatus | None) -> Step:
    """Nothing more is taken."""
    told = f"the job is {row.state.value}: nothing more is fetched"
    return Step("ended", told, status.ended_ms if status else None, {"state": row.state.value})
