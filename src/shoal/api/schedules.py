"""Schedules: jobs that are submitted again and again."""

from __future__ import annotations

from typing import Any

from flask import Response

from shoal.api import cursor, present
from shoal.api.answers.schedules import RunList, RunView, ScheduleList, ScheduleView, SlotList
from shoal.api.context import allowed_output, answer, platform, tenant
from shoal.api.operations import check_proxies
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schedule_schemas import (
    PreviewQuery,
    RunQuery,
    ScheduleBody,
    ScheduleChange,
    SchedulePath,
    ScheduleQuery,
    TimingBody,
)
from shoal.core.schedule import Timing
from shoal.core.spec import JobSpec
from shoal.core.template import count_all
from shoal.schedules.book import Book, Listed
from shoal.schedules.record import run_record, schedule_record, slot_record
from shoal.store.schedules import NewSchedule, ScheduleRow
from shoal.waits import nobody_keeps_house

SHOWN_URLS = 100

routes = Routes("schedules", "/api/v1", "Jobs again and again")


@routes.post("/schedules", {201: ScheduleView})
def add_schedule(body: ScheduleBody) -> Response:
    """Submit a job again and again.

    The job is checked as if it were submitted now. The first run is at the first slot; `/run` does not wait for it.
    """
    timing = Timing.model_validate({name: getattr(body, name) for name in Timing.model_fields})
    _check_job(body.job)
    allowed = allowed_output(body.job)
    row = _book().add(NewSchedule(tenant(), body.name, timing, body.job, allowed, body.enabled))
    return _shown(row, 201, {"Location": f"{present.PREFIX}/schedules/{row.name}"})


@routes.get("/schedules", {200: ScheduleList})
def list_schedules(query: ScheduleQuery) -> Response:
    """List schedules by name: when each runs next, and what became of the last slot."""
    place = cursor.read(query.cursor, str)
    found = _book().list(tenant(), query.limit + 1, (tenant(), str(place[0])) if place else ("", ""))
    shown, trouble = found[: query.limit], nobody_keeps_house(platform())
    last = cursor.write([shown[-1].row.name]) if shown else query.cursor
    data = [_view(listed, trouble) for listed in shown]
    return answer({"data": data, "cursor": last, "more": len(found) > query.limit})


@routes.post("/schedule-preview", {200: SlotList})
def preview_timing(query: PreviewQuery, body: TimingBody) -> Response:
    """Show the slots that a schedule would have, for who wants to know what an expression means."""
    return _slots(body, query.count)


@routes.get("/schedules/<schedule>", {200: ScheduleView})
def show_schedule(path: SchedulePath) -> Response:
    """Show a schedule with its job."""
    return _shown(_own(path))


@routes.patch("/schedules/<schedule>", {200: ScheduleView})
def change_schedule(path: SchedulePath, body: ScheduleChange) -> Response:
    """Change when it runs, its policies, or its job; its history stays. Another timing counts from now."""
    row, job = _own(path), body.job
    if job is not None:
        _check_job(job)
    changes: dict[str, Any] = body.model_dump(mode="json", exclude_unset=True, exclude={"job"})
    return _shown(_book().edit(row, changes, job, allowed_output(job) if job else ""))


@routes.delete("/schedules/<schedule>", {204: None})
def remove_schedule(path: SchedulePath) -> Response:
    """Remove a schedule with its history; jobs that it has made stay."""
    _book().remove(_own(path))
    return Response(status=204)


@routes.post("/schedules/<schedule>/pause", {200: ScheduleView})
def pause_schedule(path: SchedulePath) -> Response:
    """No more slots; what runs goes on."""
    return _shown(_book().pause(_own(path)))


@routes.post("/schedules/<schedule>/resume", {200: ScheduleView})
def resume_schedule(path: SchedulePath) -> Response:
    """Go on from now; slots that have passed meanwhile were not missed."""
    return _shown(_book().resume(_own(path)))


@routes.post("/schedules/<schedule>/run", {200: RunView})
def run_schedule(path: SchedulePath, query: RunQuery) -> Response:
    """Run it now, by its overlap policy: the answer says what came of it."""
    return answer(run_record(platform().schedules.starter.run_now(_own(path), force=query.force)))


@routes.get("/schedules/<schedule>/runs", {200: RunList})
def list_runs(path: SchedulePath, query: ScheduleQuery) -> Response:
    """List what became of its slots, the latest first."""
    place = cursor.read(query.cursor, int)
    found = _book().history(_own(path), query.limit + 1, None if place is None else int(place[0]))
    shown = found[: query.limit]
    last = cursor.write([shown[-1].slot_ms]) if shown else query.cursor
    return answer({"data": [run_record(run) for run in shown], "cursor": last, "more": len(found) > query.limit})


@routes.get("/schedules/<schedule>/preview", {200: SlotList})
def preview_schedule(path: SchedulePath, query: PreviewQuery) -> Response:
    """Show its next slots."""
    row = _own(path)
    return _slots(row.timing, query.count, row)


def _check_job(job: JobSpec) -> None:
    """What holds for a submission; the rest is asked when it is recorded."""
    most = platform().settings.api_urls
    if count_all(job.urls) > most:
        raise BadValue("job.urls", f"at most {most} URLs in one submission; sitemaps and links lead to more")
    check_proxies(job.proxies)


def _book() -> Book:
    return platform().schedules.book


def _own(path: SchedulePath) -> ScheduleRow:
    """A schedule of the caller's; one of another tenant does not exist."""
    return _book().find(tenant(), path.schedule)


def _slots(timing: Timing, count: int, row: ScheduleRow | None = None) -> Response:
    found = _book().preview(timing, count, row)
    data = [slot_record(slot, due, timing) for slot, due in found]
    return answer({"words": timing.words, "timezone": timing.timezone, "data": data})


def _view(listed: Listed, trouble: str | None) -> dict[str, Any]:
    return {**schedule_record(listed), "waiting_for": trouble if listed.row.state == "active" else None}


def _shown(row: ScheduleRow, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    values = _book().spec(row)
    job = platform().schedules.store.job(row)
    urls = values.get("urls", [])
    shown = {
        **_view(_book().show(row), nobody_keeps_house(platform())),
        "url_count": len(urls),
        "urls": urls[:SHOWN_URLS],
        "job": present.spec(job),
    }
    return answer(shown, status, headers)
