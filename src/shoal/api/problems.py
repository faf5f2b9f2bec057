"""Errors as RFC 9457 problem details: what happened, where, and what to do now. Never a stack trace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from http import HTTPStatus
from math import ceil
from typing import Any, cast

import orjson
import structlog
from flask import Flask, Response, current_app, g, request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import HTTPException

from shoal.api import schedule_schemas, schemas
from shoal.core.flaws import Flaw, flaws_of
from shoal.core.redact import without_secrets
from shoal.core.spec import JobSpec
from shoal.core.url import parse_all
from shoal.errors import BadUrls, Busy, Conflict, InputError, NotFound, ShoalError, Unavailable, Unfinished
from shoal.intake.intake import Full

log = structlog.get_logger()

PROBLEM_TYPE = "application/problem+json"
RETRY_S = 5
_SHOWN_FLAWS = 100


class BadValue(InputError):
    """One value of a request cannot be used; carries its field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.flaw = Flaw(field, message)


def problem(
    status: int,
    detail: str,
    *,
    flaws: Sequence[Flaw] = (),
    retry_after: timedelta | None = None,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response:
    """One problem document."""
    body: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    body |= {"detail": without_secrets(detail), "instance": request.path, "request_id": g.get("request_id", ""), **more}
    if flaws:
        body["errors"] = [
            {"field": flaw.place, "detail": without_secrets(flaw.message)} for flaw in flaws[:_SHOWN_FLAWS]
        ]
    answer = Response(orjson.dumps(body), status, content_type=PROBLEM_TYPE)
    if retry_after is not None:
        answer.headers["Retry-After"] = str(max(1, ceil(retry_after.total_seconds())))
    answer.headers.update(headers or {})
    return answer


def refuse_values(exc: ValidationError) -> Response:
    """Everything that is wrong with a request, at once."""
    given = request.get_json(silent=True) if request.is_json else None
    values = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    if exc.title in (schemas.JobPath.__name__, schemas.PagePath.__name__):
        return problem(404, "there is no such job or page: ids look different")
    if exc.title == schedule_schemas.SchedulePath.__name__:
        return problem(404, "there is no such schedule: names look different")
    of_schedule: type[BaseModel] | None = getattr(schedule_schemas, exc.title, None)
    model: type[BaseModel] = of_schedule or getattr(schemas, exc.title, BaseModel)
    elsewhere = () if of_schedule else JobSpec.model_fields
    flaws = [_never_here(flaw) for flaw in flaws_of(exc, values, model, elsewhere)]
    if model is schemas.JobBody:
        flaws += _url_flaws(values.get("urls"))
    return problem(422, _sum_up(flaws), flaws=flaws)


def _never_here(flaw: Flaw) -> Flaw:
    """What no request can set is not to be tried with another one."""
    return Flaw(flaw.place, schemas.ONLY_HERE) if flaw.place == "local" else flaw


def _url_flaws(urls: object) -> list[Flaw]:
    """What is wrong with a list of URLs, where it is one."""
    if not isinstance(urls, list):
        return []
    given = cast(list[object], urls)
    texts = [url if isinstance(url, str) else "" for url in given]  # others are named already
    try:
        parse_all(texts)
    except BadUrls as exc:
        return [Flaw(f"urls.{at}", text) for at, text in exc.problems if isinstance(given[at], str)]
    return []


def _sum_up(flaws: Sequence[Flaw]) -> str:
    first = flaws[0]
    shown = f"{first.place}: {first.message}" if first.place else first.message
    return shown if len(flaws) == 1 else f"{shown}; and {len(flaws) - 1} more: see errors"


def install_handlers(app: Flask) -> None:
    """Every error that can leave the application, as a problem."""
    app.register_error_handler(ShoalError, _on_shoal_error)
    app.register_error_handler(ValidationError, refuse_values)
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(Exception, _on_any_error)


def _on_shoal_error(exc: ShoalError) -> Response:
    match exc:
        case BadUrls():
            flaws = [Flaw(f"urls.{at}", text) for at, text in exc.problems]
            return problem(422, _sum_up(flaws), flaws=flaws)
        case BadValue(flaw=flaw):
            return problem(422, str(exc), flaws=[flaw])
        case InputError():
            return problem(422, str(exc), flaws=[Flaw(exc.field, str(exc))])
        case NotFound():
            return problem(404, str(exc))
        case Conflict():
            return problem(409, str(exc))
        case Full(added=added) if added is not None:
            return problem(429, str(exc), retry_after=exc.retry_after, taken=added.sums)
        case Busy():
            return problem(429, str(exc), retry_after=exc.retry_after)
        case Unfinished():
            log.warning("submission_unfinished", job=exc.job, error=str(exc))
            return problem(503, str(exc), retry_after=timedelta(seconds=RETRY_S), job=exc.job)
        case Unavailable():
            log.warning("unavailable", error=str(exc))
            return problem(503, str(exc), retry_after=timedelta(seconds=RETRY_S))
        case _:
            return _on_any_error(exc)


def _on_http_error(exc: HTTPException) -> Response:
    if exc.response is not None:
        return cast(Response, exc.response)
    status = exc.code or 500
    headers = {name: value for name, value in exc.get_headers() if name in ("Allow", "Location", "Retry-After")}
    detail = exc.description or HTTPStatus(status).phrase
    if status == 405:
        detail = f"{request.method} is not possible here; what is: {headers.get('Allow', '')}"
    elif status == 413:
        most = cast(int, current_app.config["MAX_CONTENT_LENGTH"]) // 1_000_000
        detail = f"a request may have at most {most} MB; send long lists of URLs to an open job's /urls"
    elif status == 404:
        detail = f"there is nothing at {request.path[:200]}; /openapi/ shows what there is"
    return problem(status, detail, headers=headers)


def _on_any_error(exc: Exception) -> Response:
    log.error("request_failed", path=request.path, method=request.method, exc_info=exc)
    return problem(500, "something went wrong in Shoal itself; its log tells more under this request_id")
