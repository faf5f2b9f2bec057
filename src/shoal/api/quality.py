"""How good a job's items are: what their fields look like, and which of them break the contract."""

from __future__ import annotations

from flask import Response

from shoal.api import cursor, present
from shoal.api.answers.quality import FieldsView
from shoal.api.answers.results import QuarantineList
from shoal.api.context import answer, own_job, platform
from shoal.api.routes import Routes
from shoal.api.schemas import FieldsQuery, JobPath, QuarantineQuery
from shoal.core.tally import KEPT, KEPT_OF_HOST, describe
from shoal.store.row_filter import RowFilter

routes = Routes("quality", "/api/v1/jobs", "How good the items are")


@routes.get("/<job>/fields", {200: FieldsView})
def show_fields(path: JobPath, query: FieldsQuery) -> Response:
    """Show what the fields of a job's items look like: how many are filled, with what, from where to where.

    Of a job with many new items not all may be counted yet; ask again.
    """
    row = own_job(path.job)
    version = platform().extractions.choose(row.id, row.spec, query.version).name
    counted = platform().field_stats.count(row.id, version)
    hosts = counted.tally.hosts.items() if query.hosts else ()
    return answer(
        {
            "complete": counted.complete,
            "quarantined": platform().pages.count_quarantine(row.id, version),
            "drift": [each.as_json for each in row.drift or ()],
            **describe(counted.tally.whole, KEPT),
            "hosts": {host: describe(group, KEPT_OF_HOST) for host, group in hosts},
        }
    )


@routes.get("/<job>/quarantine", {200: QuarantineList})
def list_quarantine(path: JobPath, query: QuarantineQuery) -> Response:
    """List items that break the job's contract, with the reasons; they are not among the items."""
    row = own_job(path.job)
    place = cursor.read(query.cursor, int)
    last = int(place[0]) if place else 0
    version = platform().extractions.choose(row.id, row.spec, query.version).name
    wanted = RowFilter(host=query.host, version=version)
    rows = platform().pages.quarantine_after(row.id, last, query.limit + 1, wanted)
    shown = rows[: query.limit]
    after = cursor.write([shown[-1][0]]) if shown else query.cursor
    return answer(
        {"data": [present.quarantined(*row) for row in shown], "cursor": after, "more": len(rows) > query.limit}
    )
