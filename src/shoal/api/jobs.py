"""Jobs: submitting, watching, changing, ending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from flask import Response, g, request
from flask_openapi3.models import RawModel

from shoal.api import cursor, present
from shoal.api.answers.jobs import AcceptedJob, AddedUrls, JobList, JobView
from shoal.api.context import allowed_output, answer, idempotency_claim, origin, own_job, platform, tenant, time_ms
from shoal.api.operations import check_proxies
from shoal.api.problems import BadValue, problem
from shoal.api.routes import Routes
from shoal.api.schemas import Idempotency, JobBody, JobChange, JobPath, JobQuery
from shoal.api.urllist import KINDS, NDJSON, TEXT, read_lines
from shoal.core.flaws import Flaw
from shoal.core.job_order import JobOrder, JobSort, Place
from shoal.core.model import JobState
from shoal.core.template import count_all
from shoal.errors import Conflict
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobFilter
from shoal.waits import waits_of

routes = Routes("jobs", "/api/v1/jobs", "Work to do")


class UrlLines(RawModel):
    """URLs, one a line."""

    mimetypes = [TEXT, *NDJSON]  # noqa: RUF012 - the name and kind that flask-openapi3 asks for


@routes.post("", {202: AcceptedJob})
def submit_job(header: Idempotency, body: JobBody) -> Response:
    """Submit a job.

    Answered when the job and its URLs are in the database and in the frontier.
    """
    most = platform().settings.api_urls
    if count_all(body.urls) > most:
        detail = f"at most {most} URLs in one submission; send more to an open job's /urls"
        return problem(422, f"urls: {detail}", flaws=[Flaw("urls", detail)])
    check_proxies(body.proxies)
    whence = replace(origin(), allowed=allowed_output(body))
    taken = platform().intake.submit(body, whence, idempotency_claim(header.idempotency_key))
    g.job = taken.job
    row = JobRow(taken.job, body.name, body, JobState.RUNNING, 0, None, request_id=g.request_id)
    if taken.repeated:
        row = own_job(taken.job)
    headers = {"Location": f"{present.PREFIX}/jobs/{taken.job}"}
    if taken.repeated:
        headers["Idempotent-Replayed"] = "true"
    return answer(present.accepted(row, taken.report, repeated=taken.repeated), 202, headers)


@routes.get("", {200: JobList})
def list_jobs(query: JobQuery) -> Response:
    """List jobs, newest first or in an order of your choice."""
    wanted = JobFilter(
        tenant=tenant(),
        state=query.state,
        lane=query.lane,
        label=query.label,
        find=query.find,
        since_ms=time_ms(query.since, "since"),
        until_ms=time_ms(query.until, "until"),
    )
    found = platform().control.jobs_in_order(query.limit + 1, wanted, _order(query))
    shown = found[: query.limit]
    last = _cursor(query, shown[-1][0]) if shown else query.cursor
    return answer({"data": [present.job(row) for _, row in shown], "cursor": last, "more": len(found) > query.limit})


def _order(query: JobQuery) -> JobOrder:
    """What a list is sorted by, and where to go on: a cursor belongs to its order."""
    if _is_plain(query):
        plain = cursor.read(query.cursor, int, str)
        return JobOrder(after=(plain[0], cast(int, plain[0]), cast(str, plain[1])) if plain else None)
    kind = str if query.sort.by_text else int
    place = cursor.read(query.cursor, str, str, kind, int, str)
    if place is not None and (query.sort, query.order) != (place[0], place[1]):
        raise BadValue("cursor", f"it is of a list by {place[0]}, {place[1]}")
    after = None if place is None else (place[2], cast(int, place[3]), cast(str, place[4]))
    return JobOrder(query.sort, query.order == "asc", after)


def _cursor(query: JobQuery, place: Place) -> str:
    return cursor.write([*place[1:]] if _is_plain(query) else [query.sort.value, query.order, *place])


def _is_plain(query: JobQuery) -> bool:
    """The newest first, as by default."""
    return query.sort is JobSort.CREATED and query.order == "desc"


@routes.get("/<job>", {200: JobView})
def show_job(path: JobPath) -> Response:
    """Show a job: state, sums, rate, errors by reason."""
    row = own_job(path.job)
    return answer(present.job(row, _waiting_for(row)))


@routes.patch("/<job>", {200: JobView})
def change_job(path: JobPath, body: JobChange) -> Response:
    """Change a job's limits, lane or names while it runs."""
    own_job(path.job)
    changes: dict[str, Any] = body.model_dump(mode="json", exclude_unset=True)
    return answer(present.job(platform().control.edit(path.job, changes)))


@routes.delete("/<job>", {204: None})
def delete_job(path: JobPath) -> Response:
    """Delete a job with its data.

    It is gone at once for everybody; a running one is cancelled. Its rows and archive are removed in the background.
    """
    own_job(path.job)
    platform().control.delete(path.job)
    return Response(status=204)


@routes.post("/<job>/urls", {200: AddedUrls})
def add_urls(path: JobPath, raw: UrlLines) -> Response:
    """Send more URLs to an open job, one a line, as many as you like.

    Plain text, or NDJSON with a string or an object with `url` on each line. Invalid lines are counted and named,
    and the others taken.
    """
    row = own_job(path.job)
    kind = request.mimetype
    if kind not in KINDS:
        return problem(415, f"send the URLs as one of {', '.join(KINDS)}, one a line, not as {kind or 'nothing'!r}")
    added = platform().intake.add(row, read_lines(request.stream.read, TEXT if kind == TEXT else "ndjson"))
    problems = [{"line": line, "detail": detail} for line, detail in added.problems]
    return answer({**added.sums, "problems": problems})


@routes.post("/<job>/pause", {200: JobView})
def pause_job(path: JobPath) -> Response:
    """Hand out nothing more; what is under way is finished."""
    return _changed(path, platform().control.pause, living=True)


@routes.post("/<job>/resume", {200: JobView})
def resume_job(path: JobPath) -> Response:
    """Go on with a paused job."""
    return _changed(path, platform().control.resume, living=True)


@routes.post("/<job>/cancel", {200: JobView})
def cancel_job(path: JobPath) -> Response:
    """Drop all that waits; pages already stored stay."""
    return _changed(path, platform().control.cancel)


@routes.post("/<job>/close", {200: JobView})
def close_job(path: JobPath) -> Response:
    """Take no more URLs; the job ends when it has done what it has."""
    return _changed(path, platform().control.close)


def _waiting_for(row: JobRow) -> str | None:
    """A job that has work and no lease: is there anybody to do it, and may its hosts be asked?"""
    status = row.status
    if row.state is not JobState.RUNNING or status is None or status.counters.leased or not status.counters.pending:
        return None
    served = any(row.spec.queue in beat.queues for beat in platform().watch.workers())
    return waits_of(platform(), status) if served else f"no worker serves {row.spec.queue}"


def _changed(path: JobPath, change: Callable[[str], JobState], *, living: bool = False) -> Response:
    row = own_job(path.job)
    if living and row.state.ended:
        raise Conflict(f"job {row.id} is {row.state.value}")
    change(path.job)
    return answer(present.job(own_job(path.job)))
