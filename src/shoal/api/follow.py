"""The route on which a client listens to a job."""

from __future__ import annotations

import re

from flask import Response, request

from shoal.api.context import api, own_job
from shoal.api.problems import BadValue
from shoal.api.routes import Routes, stream
from shoal.api.schemas import JobPath

routes = Routes("events", "/api/v1/jobs", "Live")

_EVENT_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")  # of 64 bits each


@routes.get(
    "/<job>/events",
    {200: stream("Events", "text/event-stream"), 204: None},
)
def follow_job(path: JobPath) -> Response:
    """Listen to a job: server-sent events `counters` (once a second while they change), `state`, `changed`, `ended`.

    With Last-Event-ID the changes of state since then come first. 204 when there is nothing more to come.
    """
    row = own_job(path.job)
    seen = request.headers.get("Last-Event-ID") or None
    if seen and not _EVENT_ID.fullmatch(seen):
        raise BadValue("Last-Event-ID", "this is not an id that Shoal has given")
    if seen and row.state.ended and not api().platform.watch.events_since(seen, row.id):
        return Response(status=204)  # tells a browser's EventSource to stop
    stream = api().hub.follow(row.id, seen)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(stream, content_type="text/event-stream", headers=headers)
