"""Is this process alive, can it work, and what has it measured?"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from flask import Response

from shoal.api import metrics as measured
from shoal.api.answers.fleet import Health, Readiness
from shoal.api.context import answer, api, platform
from shoal.api.routes import Routes, stream
from shoal.errors import ShoalError
from shoal.frontier.watch import Watch
from shoal.wiring import frontier_place

REDIS_PATIENCE_S = 2.0

routes = Routes("health", "", "For those who watch")


@routes.get("/healthz", {200: Health})
def healthz() -> Response:
    """Does the process live?"""
    return answer({"status": "ok"})


@routes.get("/readyz", {200: Readiness, 503: Readiness})
def readyz() -> Response:
    """Can it work: are Redis, database and archive there? Says which is not."""
    parts = platform()
    checks = {
        "redis": _check(_ask_redis),
        "database": _check(parts.jobs.ping),
        "archive": _check(parts.archive.ping),
    }
    ready = all(check["ok"] for check in checks.values())
    return answer({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)


@routes.get("/metrics", {200: stream("Prometheus text", "text/plain")})
def metrics() -> Response:
    """Measurements for Prometheus."""
    parts = platform()
    with _hasty_watch() as watch:
        collector = measured.FrontierCollector(
            watch,
            parts.settings.frontier_bytes,
            parts.history.age_s,
            measured.ScheduleFigures(parts.schedules.store.count_by_state, parts.schedules.runs.lateness_s),
            parts.webhooks.age_of_oldest_s,
            api().staffing.look,
        )
        body, content_type = measured.render(collector)
    return Response(body, content_type=content_type)


@contextmanager
def _hasty_watch() -> Generator[Watch]:
    """On a connection of its own: who asks whether Redis is there cannot wait as long as who needs it."""
    settings = platform().settings
    watch = frontier_place(settings).watch(REDIS_PATIENCE_S)
    try:
        yield watch
    finally:
        watch.close_connections()


def _ask_redis() -> None:
    with _hasty_watch() as watch:
        watch.ping()


def _check(ask: Callable[[], None]) -> dict[str, Any]:
    try:
        ask()
    except ShoalError as exc:
        return {"ok": False, "detail": str(exc)}
    return {"ok": True, "detail": ""}
