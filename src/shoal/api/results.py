"""What jobs have brought: pages, items, errors, dead letters, bodies, exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from flask import Response

from shoal.api import cursor, present
from shoal.api.answers import ErrorList, ItemList, PageList, Replayed
from shoal.api.context import answer, own_job, platform, tenant, time_ms
from shoal.api.routes import Routes, stream
from shoal.api.schemas import (
    CapturePath,
    DeadQuery,
    ErrorQuery,
    ExportQuery,
    ItemQuery,
    JobPath,
    PagePath,
    PageQuery,
    ReplayBody,
    RowQuery,
)
from shoal.core.file_name import safe_name
from shoal.core.model import Outcome
from shoal.errors import FetchError, NotFound
from shoal.store.dead import Selection
from shoal.store.export import (
    DEAD_COLUMNS,
    PAGE_COLUMNS,
    Encoder,
    Record,
    dead_record,
    encoder,
    item_columns,
    page_record,
)
from shoal.store.extractions import Version
from shoal.store.jobs import JobRow
from shoal.store.lineage import LINEAGE_COLUMNS, lineages, records
from shoal.store.pages import PageRow, PageStore, RowFilter

routes = Routes("results", "/api/v1", "What came of it")

EXPORT_AT_ONCE = 1_000
_EXPORT_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_SAFE_TYPES = frozenset(
    {"application/json", "application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"}
)
"""Everything else could be run by a browser, and is sent as mere bytes."""

Rows = list[tuple[int, Any]]


@routes.get("/jobs/<job>/pages", {200: PageList})
def list_pages(path: JobPath, query: PageQuery) -> Response:
    """List stored pages, in order of arrival."""
    store = platform().pages
    return _listing(path, query, RowFilter(status=query.status), store.pages_after, present.page)


@routes.get("/jobs/<job>/items", {200: ItemList})
def list_items(path: JobPath, query: ItemQuery) -> Response:
    """List extracted items, in order of arrival.

    They are of one version of the extraction, and a cursor stays with the version that it was given for.
    """
    job, store = own_job(path.job), platform().pages
    place = cursor.read(query.cursor, int, str)
    chosen = platform().extractions.choose(job.id, job.spec, query.version or (str(place[1]) if place else None))
    wanted = _narrowed(query, RowFilter(version=chosen.name))
    rows = store.items_after(job.id, int(place[0]) if place else 0, query.limit + 1, wanted)
    shown = rows[: query.limit]
    origins = lineages(store, job.id, [row for _, row in shown]) if query.lineage else repeat(None, len(shown))
    data = [present.item(number, row, origin) for (number, row), origin in zip(shown, origins, strict=True)]
    last = cursor.write([shown[-1][0], chosen.name]) if shown else query.cursor
    return answer({"data": data, "cursor": last, "more": len(rows) > query.limit})


@routes.get("/jobs/<job>/errors", {200: ErrorList})
def list_errors(path: JobPath, query: ErrorQuery) -> Response:
    """List every request that ended without a page: dead, refused by robots.txt, filtered."""
    wanted = RowFilter(outcome=query.outcome, reason=query.reason)
    return _listing(path, query, wanted, platform().pages.letters_after, present.error)


@routes.get("/jobs/<job>/dead", {200: ErrorList})
def list_dead(path: JobPath, query: DeadQuery) -> Response:
    """List dead letters: requests given up on, which can be replayed."""
    wanted = RowFilter(outcome=Outcome.DEAD.value, reason=query.reason)
    return _listing(path, query, wanted, platform().pages.letters_after, present.error)


@routes.post("/jobs/<job>/dead/replay", {200: Replayed})
def replay_dead(path: JobPath, body: ReplayBody) -> Response:
    """Try dead letters once more: all, or those with these ids, this reason, this host.

    A job that has finished goes on for them.
    """
    row = own_job(path.job)
    chosen = Selection(body.ids, body.reason, body.host)
    return answer({"replayed": platform().intake.replay(row, chosen)})


@routes.get(
    "/jobs/<job>/export",
    {200: {"description": "Lines, as they are read", "content": {"application/x-ndjson": {}, "text/csv": {}}}},
)
def export(path: JobPath, query: ExportQuery) -> Response:
    """Download all items (or pages, or errors) as JSON Lines or CSV; streamed."""
    row, store = own_job(path.job), platform().pages
    chosen = platform().extractions.choose(row.id, row.spec, query.version)
    what = query.what or ("items" if chosen.spec.takes_items else "pages")
    return Response(
        _export_items(store, row.id, chosen, query.format, lineage=query.lineage)
        if what == "items"
        else _export(store, row, what, query.format),
        content_type=_EXPORT_TYPES[query.format],
        headers={"Content-Disposition": f'attachment; filename="{row.id}-{what}.{query.format}"'},
    )


@routes.get(
    "/pages/<page>/body",
    {200: stream("The body as it was received, unpacked", "*/*")},
)
def page_body(path: PagePath) -> Response:
    """Download a page's body from the archive."""
    row, owner = _own_page(path.page)
    if row.archive is None:
        raise NotFound(f"the body of page {path.page} was not kept: the job ran without the archive")
    exchange = platform().archive.read(row.archive)
    media = row.content_type.partition(";")[0].strip().lower()
    try:
        body = exchange.unpacked(owner.spec.max_body)
    except FetchError:  # nobody has looked into the body of a redirect so far
        body, media = exchange.body, ""
    return _download(body, media, _file_name(row.url), row.content_type)


@routes.get(
    "/pages/<page>/captures/<kind>",
    {200: stream("The document, picture or print", "*/*")},
)
def page_capture(path: CapturePath) -> Response:
    """Download what was kept of a rendered page: its document after all scripts, a screenshot, a PDF."""
    row, _ = _own_page(path.page)
    capture = row.capture(path.kind)
    if capture is None:
        has = ", ".join(each.kind for each in row.captures) or "nothing of the kind"
        raise NotFound(f"page {path.page} has no {path.kind}; it has {has}")
    media = capture.media_type.partition(";")[0]
    ending = {"text/html": ".html", "image/png": ".png", "application/pdf": ".pdf"}.get(media, "")
    name = f"{_file_name(row.url)}{ending}"
    return _download(platform().archive.read_attachment(capture.archive), media, name, capture.media_type)


def _own_page(page: int) -> tuple[PageRow, JobRow]:
    row = platform().pages.page_by_id(page)
    owner = None if row is None else platform().jobs.get(row.job)
    if row is None or owner is None or owner.tenant != tenant():
        raise NotFound(f"there is no page {page}")
    return row, owner


def _download(body: bytes, media: str, name: str, original: str) -> Response:
    """Strangers wrote it: no browser may take it for something of ours."""
    return Response(
        body,
        content_type=media if media in _SAFE_TYPES else "application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "X-Original-Content-Type": _one_line(original),
        },
    )


def _listing(
    path: JobPath,
    query: RowQuery,
    wanted: RowFilter,
    read: Callable[[str, int, int, RowFilter], Rows],
    show: Callable[[int, Any], dict[str, Any]],
) -> Response:
    job = own_job(path.job)
    place = cursor.read(query.cursor, int)
    rows = read(job.id, int(place[0]) if place else 0, query.limit + 1, _narrowed(query, wanted))
    shown = rows[: query.limit]
    last = cursor.write([shown[-1][0]]) if shown else query.cursor
    return answer({"data": [show(*row) for row in shown], "cursor": last, "more": len(rows) > query.limit})


def _narrowed(query: RowQuery, wanted: RowFilter) -> RowFilter:
    since, until = time_ms(query.since, "since"), time_ms(query.until, "until")
    return replace(wanted, host=query.host, since_ms=since, until_ms=until)


def _export_items(store: PageStore, job: str, chosen: Version, kind: str, *, lineage: bool) -> Iterator[str]:
    columns = item_columns(chosen.spec)
    lines: Encoder = encoder(kind, (*columns, *LINEAGE_COLUMNS) if lineage else columns)
    yield lines.head()
    for some in store.item_batches(job, RowFilter(version=chosen.name)):
        yield lines.encode(records(store, job, some, lineage=lineage))


def _export(store: PageStore, row: JobRow, what: str, kind: str) -> Iterator[str]:
    columns, read, record = _source(store, what)
    lines: Encoder = encoder(kind, columns)
    yield lines.head()
    last = 0
    while rows := read(row.id, last, EXPORT_AT_ONCE):
        last = rows[-1][0]
        yield lines.encode(record(value) for _, value in rows)


def _source(
    store: PageStore, what: str
) -> tuple[tuple[str, ...], Callable[[str, int, int], Rows], Callable[[Any], Record]]:
    if what == "pages":
        return PAGE_COLUMNS, store.pages_after, page_record
    return DEAD_COLUMNS, store.letters_after, dead_record


def _file_name(url: str) -> str:
    """The last part of the path, safe as a name."""
    return quote(safe_name(unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])) or "page", safe="")


def _one_line(text: str) -> str:
    return "".join(char for char in text if char.isprintable() and ord(char) < 256)
