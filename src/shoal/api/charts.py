"""Charts as JSON: the same for the API and for the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.history import Point
from shoal.core.model import ALL_QUEUES
from shoal.history import Chart
from shoal.store.export import iso

OF_JOBS = ("pages", "redirects", "errors", "retries", "robots", "filtered", "received", "items")
OF_THE_FLEET = (*OF_JOBS, "leases_reaped", "fence_refusals", "slices")
PLACES = ("queued", "delayed", "leased")
HOST_STATES = ("open", "at_cap", "slowed", "held", "tripped", "down", "paused")
THROTTLED = ("slowed", "held", "tripped", "down")
GAUGES = ("jobs", "workers", "processes", "slices_active", "redis_memory_bytes")


def job_chart(job: str, chart: Chart) -> dict[str, Any]:
    """How a job has been doing."""
    return {"job": job, **_steps(chart), "points": [_job_point(point) for point in chart.points]}


def fleet_chart(chart: Chart) -> dict[str, Any]:
    """How everything has been doing."""
    return {**_steps(chart), "points": [_fleet_point(point) for point in chart.points]}


def _steps(chart: Chart) -> dict[str, Any]:
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
