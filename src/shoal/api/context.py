"""What a view needs: the platform, the caller, and the job that the caller means."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import Any, cast

import orjson
from flask import Response, current_app, g, request

from shoal.api.events import Hub
from shoal.api.problems import BadValue
from shoal.core.access import Principal
from shoal.core.frozen import frozen
from shoal.core.spec import JobSpec
from shoal.core.values import read_moment
from shoal.errors import BadSpec
from shoal.frontier.attempts import Attempts
from shoal.frontier.sessions import Sessions
from shoal.intake.intake import Origin
from shoal.staffing import Staffing
from shoal.store.claims import Claim
from shoal.store.job_rows import JobRow
from shoal.store.keys import KeyStore
from shoal.wiring import Platform

EXTENSION = "shoal"


@frozen
class Api:
    """The parts of one API process."""

    platform: Platform
    hub: Hub
    keys: KeyStore
    sessions: Sessions
    attempts: Attempts
    staffing: Staffing


def api() -> Api:
    """The parts that serve this request."""
    return cast(Api, current_app.extensions[EXTENSION])


def platform() -> Platform:
    return api().platform


def tenant() -> str:
    """Whose jobs the caller may see."""
    return cast(Principal, g.principal).tenant


def origin() -> Origin:
    """Where a submission of this request comes from."""
    span = g.get("span")
    return Origin(tenant(), g.request_id, trace=span.trace if span else "")


def allowed_output(spec: JobSpec) -> str:
    """The operator's word that allows a job's output; who sends jobs may not choose where the fleet connects to."""
    if spec.output is None:
        return ""
    allowed, place = platform().settings.allowed_outputs, spec.output.place
    if why := allowed.refuses(place):
        raise BadSpec(f"output: {why}", field="output.to")
    return str(allowed.root_of(place))


def idempotency_claim(key: str | None) -> Claim | None:
    """The client's word that this very submission may come twice; the order of its settings does not matter."""
    if not key:
        return None
    body = orjson.dumps([request.path, request.get_json()], option=orjson.OPT_SORT_KEYS)
    return Claim(key, sha256(body).hexdigest())


def own_job(job: str) -> JobRow:
    """A job of the caller's; one of another tenant does not exist."""
    return platform().control.job(job, tenant())


def answer(value: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON, quickly."""
    return Response(orjson.dumps(value), status, headers, content_type="application/json")


def time_ms(text: str | None, name: str) -> int | None:
    """Milliseconds of an ISO 8601 time, which is UTC when it has no zone, or of an age such as 2h."""
    if text is None:
        return None
    try:
        return read_moment(text, time.time())
    except (ValueError, OverflowError) as exc:
        raise BadValue(
            name, f"write a time such as 2026-11-16T08:00:00Z, or an age such as 2h, not {text[:60]!r}"
        ) from exc
