"""Further versions of a job's items, made from its stored pages."""

from __future__ import annotations

from flask import Response, g

from shoal.api import cursor, present
from shoal.api.answers.extractions import DiffView, ExtractionList, ExtractionView
from shoal.api.context import answer, own_job, platform
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import DiffQuery, ExtractionBody, JobPath, VersionPath
from shoal.changes.comparison import by_page, compare_stretch
from shoal.core.versions import read_extraction

FIRST = (-(2**63), -1)
"""Before all items."""

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


@routes.get("/<job>/diff", {200: DiffView})
def compare_versions(path: JobPath, query: DiffQuery) -> Response:
    """Compare two versions of a job's items, row by row, in the order of their pages; an answer is about some rows."""
    row = own_job(path.job)
    chosen = [platform().extractions.choose(row.id, row.spec, name).name for name in (query.before, query.after)]
    start = _place(query.cursor, chosen)
    sides = [by_page(platform().pages.items_by_page(row.id, name, start)) for name in chosen]
    found = compare_stretch(sides[0], sides[1], query.limit)
    place = cursor.write([*chosen, *map(str, found.upto)]) if found.upto else None
    return answer(
        {
            "before": chosen[0],
            "after": chosen[1],
            "data": [each.as_json() for each in found.changes],
            "summary": found.summary.as_json,
            "cursor": place,
            "more": found.upto is not None,
        }
    )


def _place(given: str | None, versions: list[str]) -> tuple[int, int]:
    """The page and the place on it that a cursor stands for: a part of one comparison, and of no other."""
    place = cursor.read(given, str, str, str, str)
    if place is None:
        return FIRST
    try:
        page, number = (int(part) for part in place[2:])
    except ValueError as exc:
        raise BadValue("cursor", "this is not one that Shoal has given") from exc
    if place[:2] != versions or not (-(2**63) <= page < 2**63 and 0 <= number < 2**31):
        raise BadValue("cursor", "this is not one of this comparison: leave it out to start anew")
    return page, number
