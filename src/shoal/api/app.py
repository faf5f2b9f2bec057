"""The Flask application: routes, who may use them, request ids, errors as problems."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import orjson
import structlog
from flask import Flask, g, request
from flask.json.provider import JSONProvider
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI
from werkzeug.exceptions import BadRequest, RequestEntityTooLarge, UnsupportedMediaType
from werkzeug.wrappers import Response as BaseResponse

from shoal import __version__, spans
from shoal.api import (
    changes,
    dashboard,
    explain,
    extractions,
    follow,
    health,
    history,
    jobs,
    metrics,
    operations,
    quality,
    results,
    schedules,
    scrape,
    session,
    webhooks,
)
from shoal.api.answers.problem import Problem
from shoal.api.auth import Guard
from shoal.api.context import EXTENSION, Api
from shoal.api.events import Hub
from shoal.api.problems import BadValue, install_handlers, refuse_values
from shoal.api.rule import RouteRule
from shoal.frontier.attempts import Attempts
from shoal.frontier.sessions import Sessions
from shoal.intake.ids import new_request_id
from shoal.spans import Span
from shoal.staffing import Staffing
from shoal.store.keys import KeyStore
from shoal.wiring import Platform, frontier_place, redis_urls

log = structlog.get_logger()

ROUTES = (
    *(jobs.routes, results.routes, extractions.routes, quality.routes, explain.routes, scrape.routes),
    *(follow.routes, operations.routes, history.routes, health.routes, session.routes, changes.routes),
    schedules.routes,
    webhooks.routes,
)
STREAMED = frozenset({"jobs.add_urls"})
"""Routes whose bodies have no limit: they are read bit by bit."""
STREAMED_BODY = "shoal.streamed"
"""Marks, for who reads it, a body that may take as long as it likes."""
STOP_STREAMS = "shoal.stop_streams"
"""The extension that ends endless answers, for who is to stop the process."""
SPARE_THREADS = 32
"""Threads that listeners to events leave to others."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


POLICY = "default-src 'none'; frame-ancestors 'none'"
"""What a browser may do with an answer: nothing."""
POLICY_OF_PAGES = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The pages of the OpenAPI document bring scripts of their own, written into the page."""
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Application(OpenAPI):
    """All routes, and the document about them."""

    url_rule_class = RouteRule


def make_api(platform: Platform) -> Flask:
    """The application of one process."""
    app = Application(
        "shoal",
        info=Info(title="Shoal", version=__version__, description="Submit, watch and read crawls."),
        security_schemes={
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "password": {"type": "http", "scheme": "basic", "description": "any user, the key as the password"},
        },
        validation_error_model=Problem,
        validation_error_callback=refuse_values,
        static_folder=None,
    )
    app.json = Orjson(app)
    app.config["MAX_CONTENT_LENGTH"] = platform.settings.api_body_megabytes * 1_000_000
    app.config["SWAGGER_CONFIG"] = {"validatorUrl": None}
    app.url_map.strict_slashes = False
    hub = _hub(platform)
    place = redis_urls(platform.settings).frontier, platform.settings.prefix
    keys, sessions = KeyStore(platform.engine), Sessions.at(*place)
    staffing = Staffing(platform.settings.address_parallel)
    app.extensions[EXTENSION] = Api(platform, hub, keys, sessions, Attempts.at(*place), staffing)
    app.extensions[STOP_STREAMS] = hub.stop
    _install_hooks(app, Guard(keys, platform.frontier, sessions))
    install_handlers(app)
    for routes in ROUTES:
        app.register_api(routes.blueprint)
    app.register_blueprint(dashboard.blueprint)
    return app


class Orjson(JSONProvider):
    """Flask's JSON by orjson."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        return orjson.dumps(obj).decode()

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        return orjson.loads(s)


def _hub(platform: Platform) -> Hub:
    settings = platform.settings
    listeners = max(1, settings.api_threads - SPARE_THREADS)
    return Hub(frontier_place(settings).watch, platform.control.status, listeners)


def _install_hooks(app: Flask, guard: Guard) -> None:
    app.before_request(_begin)
    app.before_request(guard.check)
    app.before_request(_check_body)
    app.after_request(_finish)


def _begin() -> None:
    g.started = time.perf_counter()
    given = request.headers.get("X-Request-ID", "")
    g.request_id = given if _REQUEST_ID.fullmatch(given) else new_request_id()
    g.span = _begin_span()
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=g.request_id)
    if job := (request.view_args or {}).get("job"):
        structlog.contextvars.bind_contextvars(job=job)


def _begin_span() -> Span | None:
    """Part of the caller's trace, if it names one."""
    if spans.plan() is None:
        return None
    route = request.url_rule.rule if request.url_rule else "none"
    given = request.headers.get("traceparent", "")
    parent = given if spans.is_traceparent(given) else ""
    return spans.begin(f"{request.method} {route}", parent, shoal__request_id=g.request_id)


def _check_body() -> None:
    """A body that is no JSON is told so, before its values are looked at."""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise UnsupportedMediaType("send the body as it is, without a Content-Encoding")
    if request.endpoint in STREAMED:
        request.environ[STREAMED_BODY] = True
        request.max_content_length = sys.maxsize  # None would mean the limit of all others
        return
    if request.method not in ("POST", "PATCH") or request.endpoint is None:
        return
    if request.content_length == 0 or (request.content_length is None and "Transfer-Encoding" not in request.headers):
        return
    if not request.is_json:
        raise UnsupportedMediaType("send JSON, with Content-Type: application/json")
    if len(request.get_data()) >= (request.max_content_length or sys.maxsize):
        raise RequestEntityTooLarge  # of a chunked body, no more than that is read
    try:
        body: object = request.get_json(cache=True)
    except BadRequest as exc:
        raise BadRequest(f"the body is not JSON: {exc.__cause__ or exc.__context__}") from exc
    if isinstance(body, str):  # flask-openapi3 would read it as JSON once more
        raise BadValue("", "an object is needed, not text")
    if body is None:  # and take this for no body at all
        raise BadValue("", "an object is needed, not null")


def _is_a_page() -> bool:
    return (request.endpoint or "").startswith(("openapi.", "swagger."))


def _finish(response: BaseResponse) -> BaseResponse:
    response.headers["X-Request-ID"] = g.request_id
    if response.status_code == 204:
        response.headers.pop("Content-Type", None)
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", POLICY_OF_PAGES if _is_a_page() else POLICY)
    seconds = time.perf_counter() - g.started
    route = request.url_rule.rule if request.url_rule else "none"
    metrics.note(request.method if request.url_rule else "other", route, response.status_code, seconds)
    if g.span:
        g.span.note(http__response__status_code=response.status_code)
        g.span.end()
    principal = g.get("principal")
    log.info(
        "request",
        method=request.method,
        path=request.path,
        status=response.status_code,
        ms=round(seconds * 1000, 1),
        key=principal.key if principal else None,
        job=(request.view_args or {}).get("job") or g.get("job"),
    )
    return response
