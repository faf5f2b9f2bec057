"""Where a stored page leads to, and how it is settled: for who need not fetch it to know.

Whoever rebuilds the frontier asks this, and so does a worker that is given a request whose page is stored already. The
body and the links that were written down in its place are read by the caller: bodies one by one, links as they come.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from shoal.core.model import Candidate, Level, Request, further
from shoal.core.reuse import FRESH, NOT_DUE
from shoal.core.tail import read_line
from shoal.core.url import parse
from shoal.extract.trail import Trail
from shoal.fetch.port import Response
from shoal.store.archive import Exchange
from shoal.store.page_rows import ArchiveRef, FoundLinks, PageRow


def body_wanted(trail: Trail, page: PageRow) -> ArchiveRef | None:
    """Where the body lies that the page's links are to be read from; None when it is not needed, or not kept."""
    wanted = page.tells_links and not page.redirect and trail.goes_on_from(page.depth) and _leads_on(trail, page)
    return page.archive if wanted else None


def onward(trail: Trail, page: PageRow, body: Exchange | None) -> tuple[list[Candidate], int]:
    """(candidates that are new to this trail, number of the others); FetchError says that the body is unreadable."""
    url = parse(page.url)
    level = Level.NORMAL if page.depth else Level.FIRST
    request = Request(url, page.depth, level, hops=page.hops, callback=page.callback, meta=page.meta or "")
    if page.redirect:
        return [trail.links.follow(parse(page.redirect), request)], 0
    if body is None:
        return [], 0
    response = Response(url, body.status, body.http_reason, body.headers, body.body, timedelta())
    found, known = trail.again(request, response)
    return (found, known) if _follows(trail, page) else (further(found, page.depth), 0)


def _leads_on(trail: Trail, page: PageRow) -> bool:
    """Is there anything in it that is followed? The next page of a list always is."""
    return _follows(trail, page) or bool(trail.spec.next)


def _follows(trail: Trail, page: PageRow) -> bool:
    """Are its links followed, or does it say what an earlier page says?"""
    alike = trail.spec.duplicates
    return page.duplicate_of is None or alike is None or alike.follow


def written_down(found: Iterable[FoundLinks]) -> list[Candidate]:
    """Links of pages whose bodies are not kept."""
    return [read_line(line, each.depth, each.fingerprint) for each in found for line in each.urls]


def reason_of(page: PageRow) -> str:
    """With which it counts as done."""
    return "redirect" if page.redirect else "duplicate" if page.duplicate_of is not None else page.reused or ""


def received_of(page: PageRow) -> int:
    """Bytes that it counts for; those of a page that was carried over came in an earlier job."""
    return 0 if page.reused else page.received or page.size


def saved_of(page: PageRow) -> int:
    """Bytes that did not have to come."""
    return (page.received or page.size) if page.reused else 0


def asked_at(page: PageRow) -> int:
    """When it was asked for, on some worker's clock; 0 when it was not."""
    if page.reused in (FRESH, NOT_DUE):
        return 0
    return page.checked_ms or page.fetched_ms - round(page.elapsed_ms)
