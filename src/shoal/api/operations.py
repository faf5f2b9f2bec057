"""For who runs the machines: hosts, workers, queues, sums."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Response

from shoal import __version__
from shoal.api import cursor, present
from shoal.api.answers import HostList, HostView, ProxyList, QueueList, StatsView, WorkerList
from shoal.api.context import answer, platform, tenant
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import HostChangeBody, HostPath, HostQuery, ProxyQuery
from shoal.core.proxies import ProxyPool, ProxyState
from shoal.core.url import parse
from shoal.errors import BadUrl, InputError, NotFound
from shoal.frontier.frontier import KEEP, HostChange
from shoal.frontier.proxies import ProxyDesk
from shoal.proxy_pools import ProxyPools, listed, pools_of, proxy_record
from shoal.wiring import redis_urls

routes = Routes("operations", "/api/v1", "The fleet")

_COUNTS = ("reaped", "late", "slices")


@routes.get("/hosts", {200: HostList})
def list_hosts(query: HostQuery) -> Response:
    """List hosts, the last used first: limits, state, in flight."""
    place = cursor.read(query.cursor, int, str)
    before = None if place is None else (int(place[0]), str(place[1]))
    found = platform().watch.hosts(query.limit + 1, before)
    shown = found[: query.limit]
    last = cursor.write([shown[-1].seen_ms, shown[-1].host]) if shown else query.cursor
    return answer(
        {"data": [present.host(status) for status in shown], "cursor": last, "more": len(found) > query.limit}
    )


@routes.get("/hosts/<host>", {200: HostView})
def show_host(path: HostPath) -> Response:
    """Show a host: limits, hold, in flight, who waits for it."""
    return answer(_host(_canonical(path.host)))


@routes.patch("/hosts/<host>", {200: HostView})
def change_host(path: HostPath, body: HostChangeBody) -> Response:
    """Set a host's limits, pause it, or hold it for a while; stronger than what jobs ask for."""
    host = _canonical(path.host)
    given = body.model_fields_set
    change = HostChange(
        rate=(0.0 if body.rate == "unlimited" else body.rate) if "rate" in given else KEEP,
        parallel=(0 if body.parallel == "unlimited" else body.parallel) if "parallel" in given else KEEP,
        paused=body.paused if "paused" in given else KEEP,
        hold=timedelta(seconds=body.hold_seconds) if "hold_seconds" in given else KEEP,
    )
    platform().frontier.configure_host(host, change)
    return answer(_host(host))


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


@routes.get("/queues", {200: QueueList})
def list_queues() -> Response:
    """List queues: what waits in each, and how many processes serve it."""
    workers = platform().watch.workers()
    return answer(
        {
            "data": [
                {
                    "queue": depth.queue,
                    "queued": depth.queued,
                    "delayed": depth.delayed,
                    "leased": depth.leased,
                    "jobs_due": depth.jobs_due,
                    "workers": sum(beat.processes for beat in workers if depth.queue in beat.queues),
                }
                for depth in platform().watch.queues()
            ]
        }
    )


@routes.get("/stats", {200: StatsView})
def show_stats() -> Response:
    """Show sums over everything."""
    watch, settings = platform().watch, platform().settings
    load, stats, workers = watch.load(), watch.stats(), watch.workers()
    most = settings.frontier_megabytes * 1_000_000
    return answer(
        {
            "version": __version__,
            "jobs": {state.value: count for state, count in platform().jobs.count_by_state(tenant()).items()},
            "frontier": {
                "urls": load.urls,
                "max_urls": settings.frontier_urls,
                "memory_bytes": load.memory,
                "max_memory_bytes": min(most, load.memory_limit * 9 // 10) if load.memory_limit else most,
            },
            "workers": len(workers),
            "processes": sum(beat.processes for beat in workers),
            "outcomes": {name: count for name, count in stats.items() if name not in _COUNTS},
            "leases_reaped": stats.get("reaped", 0),
            "fence_refusals": stats.get("late", 0),
            "slices": stats.get("slices", 0),
        }
    )


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


def _canonical(host: str) -> str:
    try:
        return parse(f"http://{host}/").host
    except BadUrl as exc:
        raise BadValue("host", f"{host!r} is not a host, such as shop.example or shop.example:8080") from exc


def _host(host: str) -> dict[str, Any]:
    status = platform().watch.host(host)
    if status is None:
        raise NotFound(f"nobody has asked for {host} lately, and nothing is set for it")
    return present.host(status)
