"""What jobs have brought: pages, items, errors, dead letters, bodies, exports."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote, urlsplit

from flask import Response

from shoal.api import cursor, present
from shoal.api.answers.jobs import Replayed
from shoal.api.answers.results import DeliveryList, ErrorList, ItemList, PageList
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
from shoal.output.formats import LINES, MEDIA_TYPES, check_format, lines, write_file
from shoal.output.source import Source, source_of
from shoal.store.dead import Selection
from shoal.store.job_rows import JobRow
from shoal.store.lineage import lineages
from shoal.store.page_rows import PageRow
from shoal.store.row_filter import RowFilter

routes = Routes("results", "/api/v1", "What came of it")

CHUNK_BYTES = 256 * 1024
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


@routes.get("/jobs/<job>/deliveries", {200: DeliveryList})
def list_deliveries(path: JobPath) -> Response:
    """List where the results go, and how far that has come."""
    row = own_job(path.job)
    return answer({"data": [present.delivery(each) for each in platform().deliveries.of_job(row.id)]})


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
    {
        200: {
            "description": "Lines, as they are read; or a file, when it is complete",
            "content": {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()},
        }
    },
)
def export(path: JobPath, query: ExportQuery) -> Response:
    """Download all items (or pages, or errors): JSON Lines and CSV as they are read, Parquet and SQLite as a file."""
    row = own_job(path.job)
    check_format(query.format)
    chosen = platform().extractions.choose(row.id, row.spec, query.version)
    wanted = RowFilter(version=chosen.name)
    source = source_of(platform().pages, row.id, chosen.spec, query.what, wanted, lineage=query.lineage)
    return Response(
        lines(source, query.format) if query.format in LINES else _whole(source, query.format),
        content_type=MEDIA_TYPES[query.format],
        headers={"Content-Disposition": f'attachment; filename="{row.id}-{source.what}.{query.format}"'},
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


def _whole(source: Source, kind: str) -> Iterator[bytes]:
    """A file that is complete before its first byte is sent; it has no name any more then, and goes with its reader."""
    with tempfile.TemporaryDirectory(prefix="shoal-export-") as folder:
        path = Path(folder) / f"rows.{kind}"
        write_file(source, kind, path)
        file = path.open("rb")
    return _chunks(file)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _file_name(url: str) -> str:
    """The last part of the path, safe as a name."""
    return quote(safe_name(unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])) or "page", safe="")


def _one_line(text: str) -> str:
    return "".join(char for char in text if char.isprintable() and ord(char) < 256)
