"""Charts: how a job, or everything, has been doing for up to a week."""

from __future__ import annotations

from flask import Response

from shoal.api.answers.history import FleetHistory, JobHistory
from shoal.api.charts import fleet_chart, job_chart
from shoal.api.context import answer, own_job, platform, time_ms
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import HistoryQuery, JobPath

routes = Routes("history", "/api/v1", "Charts")


@routes.get("/jobs/<job>/history", {200: JobHistory})
def show_job_history(path: JobPath, query: HistoryQuery) -> Response:
    """Show how a job has been doing: rates, what waits, errors by reason, in equal steps.

    From its beginning to now or to its end, unless `since` and `until` say otherwise; a week at the most.
    """
    row = own_job(path.job)
    chart = platform().history.job(row, *_span(query), query.points)
    return answer(job_chart(row.id, chart))


@routes.get("/stats/history", {200: FleetHistory})
def show_fleet_history(query: HistoryQuery) -> Response:
    """Show how everything has been doing: rates, queues, workers, hosts, Redis, in equal steps.

    Of the last hour, unless `since` and `until` say otherwise; a week at the most.
    """
    chart = platform().history.fleet(*_span(query), query.points)
    return answer(fleet_chart(chart))


def _span(query: HistoryQuery) -> tuple[int | None, int | None]:
    since, until = time_ms(query.since, "since"), time_ms(query.until, "until")
    if since is not None and since >= (platform().history.now_ms() if until is None else until):
        raise BadValue("", "since must be before until, and before now")
    return since, until
