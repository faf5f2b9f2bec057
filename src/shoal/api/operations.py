"""For who runs the machines: hosts, workers, queues, sums."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from flask import Response

from shoal import __version__
from shoal.api import cursor, present
from shoal.api.answers.fleet import AdviceView, OverviewView, QueueList, StatsView, WorkerList
from shoal.api.answers.hosts import AuditList, HostList, HostView, ProxyList
from shoal.api.context import answer, api, platform, tenant, time_ms
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import AuditQuery, HostChangeBody, HostPath, HostQuery, ProxyQuery
from shoal.core.fleet import WorkerBeat
from shoal.core.history import is_outcome
from shoal.core.host_name import asked_host
from shoal.core.proxies import ProxyPool, ProxyState
from shoal.errors import InputError
from shoal.frontier.host_change import KEEP, HostChange
from shoal.frontier.proxies import ProxyDesk
from shoal.proxy_pools import ProxyPools, listed, pools_of, proxy_record
from shoal.store.export import ASK_COLUMNS, ask_record, encoder, iso
from shoal.store.ledger import Ledger
from shoal.wiring import redis_urls

routes = Routes("operations", "/api/v1", "The fleet")

HOSTS_LOOKED_AT = 1_000
"""The last used ones."""


@routes.get("/hosts", {200: HostList})
def list_hosts(query: HostQuery) -> Response:
    """List hosts, the last used first: limits, state and why, in flight.

    Those in one state are looked for among 10,000 at a time: an answer may have few rows, or none, and yet `more`.
    """
    place = cursor.read(query.cursor, int, str)
    before = None if place is None else (int(place[0]), str(place[1]))
    found = platform().hosts.list(query.limit, before, query.state)
    last = query.cursor if found.place is None else cursor.write([*found.place])
    return answer({"data": [present.host(report) for report in found.reports], "cursor": last, "more": found.more})


@routes.get("/hosts/<host>", {200: HostView})
def show_host(path: HostPath) -> Response:
    """Show a host: limits and whose they are, what was decided about it, in flight, who waits for it."""
    return answer(present.host(platform().hosts.show(path.host)))


@routes.patch("/hosts/<host>", {200: HostView})
def change_host(path: HostPath, body: HostChangeBody) -> Response:
    """Set a host's limits or pause it, for good, whatever the jobs say; or hold it for a while."""
    given = body.model_fields_set
    change = HostChange(
        rate=(0.0 if body.rate == "unlimited" else body.rate) if "rate" in given else KEEP,
        parallel=(0 if body.parallel == "unlimited" else body.parallel) if "parallel" in given else KEEP,
        paused=body.paused if "paused" in given else KEEP,
        hold=timedelta(seconds=body.hold_seconds) if "hold_seconds" in given else KEEP,
    )
    return answer(present.host(platform().hosts.set(path.host, change, body.note if "note" in given else None)))


@routes.delete("/hosts/<host>", {204: None})
def clear_host(path: HostPath) -> Response:
    """Take everything back that was set for a host; what the file of hosts says holds again."""
    platform().hosts.clear(path.host)
    return Response(status=204)


@routes.get("/hosts/<host>/audit", {200: AuditList})
def audit_host(path: HostPath, query: AuditQuery) -> Response:
    """Read the ledger: when the host was asked, by which job, under which limit and version of robots.txt.

    As CSV it is all of it, streamed; `limit` and `cursor` are for JSON.
    """
    host = asked_host(path.host)
    since, until = time_ms(query.since, "since"), time_ms(query.until, "until")
    ledger = platform().ledger
    if query.format == "csv":
        return Response(
            _audit_lines(ledger, host, since, until),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="audit-{host.replace(":", "-").strip("[]")}.csv"'},
        )
    if query.newest:
        last_ones = ledger.newest(host, since, until, query.limit)[::-1]
        return answer({"data": [present.entry(row) for row in last_ones], "cursor": None, "more": False})
    place = cursor.read(query.cursor, int, int)
    after = None if place is None else (int(place[0]), int(place[1]))
    found = ledger.read(host, since, until, query.limit + 1, after)
    shown = found[: query.limit]
    last = cursor.write([*shown[-1].place]) if shown else query.cursor
    return answer({"data": [present.entry(row) for row in shown], "cursor": last, "more": len(found) > query.limit})


def _audit_lines(ledger: Ledger, host: str, since_ms: int | None, until_ms: int | None) -> Iterator[str]:
    lines = encoder("csv", ASK_COLUMNS)
    yield lines.head()
    for entries in ledger.batches(host, since_ms, until_ms):
        yield lines.encode(ask_record(row.ask) for row in entries)


@routes.get("/proxies", {200: ProxyList})
def list_proxies(query: ProxyQuery) -> Response:
    """List the operator's proxies by pool: score, in flight, rest; never how to use them."""
    place = cursor.read(query.cursor, int)
    start = 0 if place is None else int(place[0])
    found = listed(_chosen_pools(query.pool))[start : start + query.limit + 1]
    shown = found[: query.limit]
    states = _look([row.name for row in shown])
    return answer(
        {
            "data": [proxy_record(row, state) for row, state in zip(shown, states, strict=True)],
            "cursor": cursor.write([start + len(shown)]),
            "more": len(found) > query.limit,
        }
    )


@routes.get("/workers", {200: WorkerList})
def list_workers() -> Response:
    """List the workers that live."""
    return answer({"data": [present.worker(beat) for beat in platform().watch.workers()]})


@routes.get("/workers/advice", {200: AdviceView})
def advise_workers() -> Response:
    """Say how many worker processes would be useful now, for each queue; at most a few seconds old."""
    return answer(present.staff(api().staffing.look(platform().watch)))


@routes.get("/queues", {200: QueueList})
def list_queues() -> Response:
    """List queues: what waits in each, and how many processes serve it."""
    workers = platform().watch.workers()
    return answer({"data": [present.queue(depth, workers) for depth in platform().watch.queues()]})


@routes.get("/stats", {200: StatsView})
def show_stats() -> Response:
    """Show sums over everything."""
    return answer(_sums(platform().watch.workers()))


@routes.get("/overview", {200: OverviewView})
def show_overview() -> Response:
    """Show at once how the fleet is: sums, queues, workers, and in which states hosts are."""
    watch = platform().watch
    workers = watch.workers()
    sums = _sums(workers)
    states = Counter(status.state for status in watch.hosts(HOSTS_LOOKED_AT))
    outcomes: dict[str, int] = sums["outcomes"]
    return answer(
        {
            **sums,
            "at": iso(time.time_ns() // 1_000_000),
            "pages": sum(count for name, count in outcomes.items() if name.partition(":")[0] == "done"),
            "queues": [present.queue(depth, workers) for depth in watch.queues()],
            "active": sum(beat.active for beat in workers),
            "hosts": dict(states),
        }
    )


def _sums(workers: Sequence[WorkerBeat]) -> dict[str, Any]:
    watch, settings = platform().watch, platform().settings
    load, stats = watch.load(), watch.stats()
    return {
        "version": __version__,
        "jobs": {state.value: count for state, count in platform().jobs.count_by_state(tenant()).items()},
        "frontier": {
            "urls": load.urls,
            "max_urls": settings.frontier_urls,
            "memory_bytes": load.memory,
            "max_memory_bytes": load.most(settings.frontier_bytes),
        },
        "workers": len(workers),
        "processes": sum(beat.processes for beat in workers),
        "outcomes": {name: count for name, count in stats.items() if is_outcome(name)},
        "leases_reaped": stats.get("reaped", 0),
        "fence_refusals": stats.get("late", 0),
        "slices": stats.get("slices", 0),
        "troubles": [present.trouble(met) for met in watch.troubles()],
        "outages": {what.value: times for what, times in watch.outages().items()},
    }


def check_proxies(chosen: str | ProxyPool | None) -> None:
    """A pool that a submission names must be one of the operator's."""
    if chosen is not None:
        _pools().check(chosen)


def _pools() -> ProxyPools:
    return pools_of(platform().settings.proxies_file)


def _chosen_pools(name: str | None) -> dict[str, ProxyPool]:
    try:
        return dict(_pools().all()) if name is None else {name: _pools().get(name)}
    except InputError as exc:
        raise BadValue("pool", str(exc)) from exc


def _look(names: list[str]) -> list[ProxyState]:
    settings = platform().settings
    desk = ProxyDesk.at(redis_urls(settings).frontier, settings.prefix)
    try:
        return desk.look(names)
    finally:
        desk.close_connections()
