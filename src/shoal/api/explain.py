"""What became of one URL of a job."""

from __future__ import annotations

from flask import Response

from shoal.api.answers.explain import ExplanationView
from shoal.api.context import answer, own_job, platform
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import ExplainQuery, JobPath
from shoal.errors import BadUrl

routes = Routes("explain", "/api/v1/jobs", "What became of a URL")


@routes.get("/<job>/explain", {200: ExplanationView})
def explain_url(path: JobPath, query: ExplainQuery) -> Response:
    """Explain what became of a URL in a job: a verdict, and the steps to it, each with its time and reason.

    Also for a URL that the job has never seen: then the steps say what would become of it.
    """
    row = own_job(path.job)
    try:
        found = platform().explainer.explain(row, query.url)
    except BadUrl as exc:
        raise BadValue("url", str(exc)) from exc
    return answer(found.as_json)
