"""What is new, changed and gone since an earlier run. An answer is about a part: no request works for long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from flask import Response

from shoal.api import cursor
from shoal.api.answers.changes import ChangeSums, PageChangeView, RunChangeList
from shoal.api.change_queries import ChangesQuery, ChangeSumsQuery, PageChangeQuery
from shoal.api.context import answer, own_job, platform
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import JobPath
from shoal.changes.items import BEGINNING, ItemChange, ItemComparison
from shoal.changes.kinds import Kind, Sums
from shoal.changes.pages import PageChange, PageComparison
from shoal.errors import Conflict
from shoal.store.job_rows import JobRow
from shoal.store.run_pages import FIRST

WORK_S = 2.0
"""After this much time an answer is what there is by then."""
MOST_KEYED = 50_000
"""Items of both runs that are put in order of a key for one request."""
MOST_ROWS = 2_000
"""Items that are looked at together."""

routes = Routes("changes", "/api/v1/jobs", "What has changed since an earlier run")

Place = tuple[int, int]


@routes.get("/<job>/changes", {200: RunChangeList})
def list_changes(path: JobPath, query: ChangesQuery) -> Response:
    """List what became of each page, or item, since an earlier run: new, changed, gone, unchanged, or unknown."""
    run, since, start = _asked(path.job, query)
    kinds = query.kinds
    found: list[dict[str, object]] = []
    place: Place | None = start
    for change, place in _walk(run, since, query.of, start):  # noqa: B007 - where it ended is told below
        if change is not None and change.kind in kinds:
            found.append(change.as_json if isinstance(change, PageChange) else change.as_json(_key(run)))
        if len(found) == query.limit:
            break
    told = {"job": run.id, "since": since.id, "data": found}
    return answer({**told, "cursor": _cursor(since, query.of, place), "more": place is not None})


@routes.get("/<job>/changes/summary", {200: ChangeSums})
def sum_changes(path: JobPath, query: ChangeSumsQuery) -> Response:
    """Count what became of the pages, or items. A large job takes several answers: go on with the cursor, add up."""
    run, since, start = _asked(path.job, query)
    sums, place = Sums(), start
    for change, place in _walk(run, since, query.of, start):  # noqa: B007 - where it ended is told below
        if isinstance(change, PageChange):
            sums.note(change.kind, change.page.host, change.why)
        elif change is not None:
            sums.note(change.kind, change.host, change.why)
            sums.fields.update(change.change.fields.keys())
    told = {"job": run.id, "since": since.id, **sums.as_json}
    return answer({**told, "cursor": _cursor(since, query.of, place), "more": place is not None})


@routes.get("/<job>/changes/page", {200: PageChangeView})
def show_page_change(path: JobPath, query: PageChangeQuery) -> Response:
    """Show what became of one page, with the lines that were added to its text and removed from it."""
    run = own_job(path.job)
    since = own_job(query.since or platform().changes.earlier(run))
    change, compared = platform().changes.page(run, since, query.url)
    diff = compared.diff(change).as_json if change.kind is Kind.CHANGED else None
    return answer({"job": run.id, "since": since.id, **change.as_json, "diff": diff})


def _asked(job: str, query: ChangeSumsQuery) -> tuple[JobRow, JobRow, Place]:
    """(the run, the earlier one, where to begin); a cursor stays with the run that it was given for."""
    run = own_job(job)
    place = cursor.read(query.cursor, str, str, str, str)
    since = own_job(query.since or (str(place[0]) if place else platform().changes.earlier(run)))
    if place is None:
        return run, since, BEGINNING
    try:
        first, second = (int(part) for part in place[2:])
    except ValueError as exc:
        raise BadValue("cursor", "this is not one that Shoal has given") from exc
    if place[:2] != [since.id, query.of] or not (FIRST <= first < 2**63 and -1 <= second < 2**31):
        raise BadValue("cursor", "this is not one of this comparison: leave it out to start anew")
    return run, since, (first, second)


def _cursor(since: JobRow, of: str, place: Place | None) -> str | None:
    return cursor.write([since.id, of, *map(str, place)]) if place is not None else None


def _key(run: JobRow) -> str | None:
    return run.spec.watching.key


def _walk(
    run: JobRow, since: JobRow, of: str, start: Place
) -> Iterator[tuple[PageChange | ItemChange | None, Place | None]]:
    """Each change with where to go on behind it, until time is up; last, where that is, or None at the end."""
    if of == "pages":
        yield from _walk_pages(platform().changes.compare_pages(run, since), start)
        return
    compared = platform().changes.compare_items(run, since)
    yield from _walk_items(compared, start) if compared.key is None else _walk_keys(compared, start)


def _walk_pages(compared: PageComparison, start: Place) -> Iterator[tuple[PageChange | None, Place | None]]:
    until, after = time.monotonic() + WORK_S, start[0]
    while True:
        changes, upto = compared.stretch(after)
        for change in changes:
            yield change, (change.page.fingerprint, -1)
        if upto is None:
            yield None, None
            return
        after = upto
        if time.monotonic() > until:
            yield None, (after, -1)
            return


def _walk_items(compared: ItemComparison, start: Place) -> Iterator[tuple[ItemChange | None, Place | None]]:
    until, after = time.monotonic() + WORK_S, start
    while True:
        changes, upto = compared.stretch(after, MOST_ROWS)
        for change in changes:
            yield change, (change.change.key[0], change.change.key[1])
        if upto is None:
            yield None, None
            return
        after = upto[0], upto[1]
        if time.monotonic() > until:
            yield None, after
            return


def _walk_keys(compared: ItemComparison, start: Place) -> Iterator[tuple[ItemChange | None, Place | None]]:
    """By a key all items are put in order first; a place is how many were told."""
    if (count := compared.count()) > MOST_KEYED:
        raise Conflict(
            f"{count:,} items are too many to be compared by {compared.key!r} in a request (at most {MOST_KEYED:,}): "
            "shoal changes --items does it"
        )
    done = max(start[0], 0)
    for number, change in enumerate(islice(compared.stream(), done, None), done + 1):
        yield change, (number, -1)
    yield None, None
