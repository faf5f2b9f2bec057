"""Charts: how a job, or everything, has been doing for up to a week."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from shoal.api.answers.history import FleetHistory, JobHistory
from shoal.api.context import answer, own_job, platform, time_ms
from shoal.api.present import iso
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import HistoryQuery, JobPath
from shoal.core.history import Point
from shoal.core.model import ALL_QUEUES
from shoal.history import Chart

routes = Routes("history", "/api/v1", "Charts")

OF_JOBS = ("pages", "redirects", "errors", "retries", "robots", "filtered", "received", "items")
OF_THE_FLEET = (*OF_JOBS, "leases_reaped", "fence_refusals", "slices")
PLACES = ("queued", "delayed", "leased")
HOST_STATES = ("open", "at_cap", "slowed", "held", "tripped", "down", "paused")
THROTTLED = ("slowed", "held", "tripped", "down")
GAUGES = ("jobs", "workers", "processes", "slices_active", "redis_memory_bytes")


@routes.get("/jobs/<job>/history", {200: JobHistory})
def show_job_history(path: JobPath, query: HistoryQuery) -> Response:
    """Show how a job has been doing: rates, what waits, errors by reason, in equal steps.

    From its beginning to now or to its end, unless `since` and `until` say otherwise; a week at the most.
    """
    row = own_job(path.job)
    chart = platform().history.job(row, *_span(query), query.points)
    return answer({"job": row.id, **_chart(chart), "points": [_job_point(point) for point in chart.points]})


@routes.get("/stats/history", {200: FleetHistory})
def show_fleet_history(query: HistoryQuery) -> Response:
    """Show how everything has been doing: rates, queues, workers, hosts, Redis, in equal steps.

    Of the last hour, unless `since` and `until` say otherwise; a week at the most.
    """
    chart = platform().history.fleet(*_span(query), query.points)
    return answer({**_chart(chart), "points": [_fleet_point(point) for point in chart.points]})


def _span(query: HistoryQuery) -> tuple[int | None, int | None]:
    since, until = time_ms(query.since, "since"), time_ms(query.until, "until")
    if since is not None and since >= (platform().history.now_ms() if until is None else until):
        raise BadValue("", "since must be before until, and before now")
    return since, until


def _chart(chart: Chart) -> dict[str, Any]:
    window = chart.window
    return {"from": iso(window.from_ms), "to": iso(window.to_ms), "step_s": window.step_ms // 1_000}


def _job_point(point: Point) -> dict[str, Any]:
    return {**_common(point, OF_JOBS), **_gauges(point, PLACES)}


def _fleet_point(point: Point) -> dict[str, Any]:
    gauges = None if point.last is None else point.last.gauges
    hosts = None if gauges is None else {state: gauges.get(f"hosts:{state}", 0) for state in HOST_STATES}
    return {
        **_common(point, OF_THE_FLEET),
        **_gauges(point, (*PLACES, *GAUGES)),
        "hosts": hosts,
        "hosts_throttled": None if hosts is None else sum(hosts[state] for state in THROTTLED),
        "queues": None if gauges is None else {queue: _depth(gauges, queue) for queue in ALL_QUEUES},
    }


def _depth(gauges: Mapping[str, int], queue: str) -> dict[str, int]:
    return {place: gauges.get(f"{place}:{queue}", 0) for place in PLACES}


def _common(point: Point, counters: tuple[str, ...]) -> dict[str, Any]:
    rates, last = point.rates, point.last
    return {
        "at": iso(point.at_ms),
        "covered_s": point.covered_ms / 1_000,
        **{f"{name}_per_s": None if rates is None else round(rates.get(name, 0.0), 6) for name in counters},
        "reasons": {name: round(rate, 6) for name, rate in point.reasons.items()},
        "totals": None if last is None else {name: last.counters.get(name, 0) for name in counters},
    }


def _gauges(point: Point, names: tuple[str, ...]) -> dict[str, int | None]:
    return {name: None if point.last is None else point.last.gauges.get(name, 0) for name in names}
