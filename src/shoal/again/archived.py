"""Items of a page that is stored: its bytes from the archive, read as when it was fetched."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from shoal.core.model import Request
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.errors import FetchError, NotFound
from shoal.extract.findings import NOTHING, Findings, Wanted, find_light
from shoal.extract.trail import UNHURRIED, Trail
from shoal.fetch.port import Response
from shoal.store.archive import ArchiveReader
from shoal.store.lineage import source_of
from shoal.store.page_rows import PageRow

Heavy = Callable[[bytes, Wanted], Findings]
"""Reads a page under bounds of time and memory."""


class ArchivedPages:
    """Takes the items of one version from pages of one job."""

    def __init__(
        self, spec: JobSpec, archive: ArchiveReader, heavy: Heavy, *, cautious: bool = False, links: bool = False
    ) -> None:
        """`spec` is that of the version; who is `cautious` reads every page as a heavy one; `links` are read, too."""
        self._spec = spec
        self._trail = Trail.of(spec.model_copy(update={"follow": links, "nofollow": False, "noindex": False}))
        self._extraction = spec.extraction
        self._archive = archive
        self._heavy = heavy
        self._cautious = cautious

    def read(self, page: PageRow) -> Findings:
        """Raises FetchError when the page is not there, or cannot be read within bounds."""
        response = response_of(self._archive, page)
        body = response.unpacked(self._spec.max_body)
        url, media_type = response.url, response.media_type
        wanted = self._trail.wanted(url, page.depth, media_type, page.charset, self._extraction) if body else None
        if wanted is None:
            return NOTHING
        request = Request(url, page.depth, hops=page.hops, callback=page.callback, meta=page.meta or "")
        wanted = self._trail.briefed(wanted, request, response)
        light = None if self._cautious else find_light(body, wanted, scale=UNHURRIED)
        return light or self._heavy(body, wanted)


def response_of(archive: ArchiveReader, page: PageRow) -> Response:
    """What the page was read from; raises FetchError when it is not there."""
    ref = source_of(page)
    if ref is None:
        raise FetchError("body_not_kept", "the page was fetched without the archive")
    try:
        if ref is page.archive:
            kept = archive.read(ref)
            return Response(parse(page.url), kept.status, kept.http_reason, kept.headers, kept.body, timedelta())
        body = archive.read_attachment(ref)
    except NotFound as exc:
        raise FetchError("body_missing", str(exc)) from exc
    document = page.capture("document")
    kind = document.media_type if document else page.content_type
    head = ((b"content-type", kind.encode("latin-1", "replace")),)
    return Response(parse(page.url), page.status, "", head, body, timedelta())
