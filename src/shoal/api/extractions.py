"""Further versions of a job's items, made from its stored pages."""

from __future__ import annotations

from flask import Response, g

from shoal.api import present
from shoal.api.answers.extractions import ExtractionList, ExtractionView
from shoal.api.context import answer, own_job, platform
from shoal.api.routes import Routes
from shoal.api.schemas import ExtractionBody, JobPath, VersionPath
from shoal.core.versions import read_extraction

routes = Routes("extractions", "/api/v1/jobs", "Extraction again, from stored pages")


@routes.post("/<job>/extractions", {202: ExtractionView})
def start_extraction(path: JobPath, body: ExtractionBody) -> Response:
    """Take other items from all pages that the job has stored, without fetching any.

    The same order under the same name is one extraction, however often it is sent.
    """
    row = own_job(path.job)
    spec, _ = read_extraction(body.spec)
    made = platform().again.start(row, spec, body.version, g.request_id)
    place = {"Location": f"{present.PREFIX}/jobs/{row.id}/extractions/{made.version}"}
    return answer(present.extraction(platform().again.progress(made.id)), 202, place)


@routes.get("/<job>/extractions", {200: ExtractionList})
def list_extractions(path: JobPath) -> Response:
    """List a job's further versions, the oldest first; v1, what the job itself has taken, is not among them."""
    row = own_job(path.job)
    return answer({"data": [present.extraction(each) for each in platform().again.versions(row.id)]})


@routes.get("/<job>/extractions/<version>", {200: ExtractionView})
def show_extraction(path: VersionPath) -> Response:
    """Show how far a version is."""
    found = platform().again.find(own_job(path.job).id, path.version)
    return answer(present.extraction(platform().again.progress(found.id)))


@routes.delete("/<job>/extractions/<version>", {204: None})
def drop_extraction(path: VersionPath) -> Response:
    """Give a version up; its items are removed in the background."""
    platform().again.drop(own_job(path.job).id, path.version)
    return Response(status=204)
