"""An answer read: a page with its items and links, or a redirect."""

from __future__ import annotations

from dataclasses import replace

from shoal.core.manners import Signal
from shoal.core.model import Lease, Outcome, Settlement
from shoal.core.url import Base, Url
from shoal.errors import FetchError
from shoal.extract.directives import Directives
from shoal.extract.page import Html
from shoal.fetch.port import Response
from shoal.store.archive import Exchange
from shoal.store.pages import ItemRow, PageRow
from shoal.worker.context import JobContext
from shoal.worker.result import Result, given_up, now_ms

MAX_HOPS = 10


def read_page(context: JobContext, lease: Lease, response: Response) -> Result:
    """A page, its items, and the links to follow."""
    body = response.unpacked(context.spec.max_body)
    charset = response.charset(body)
    page = _row(context, lease, response, len(body), charset)
    trail, html = context.trail, None
    if trail.follows_from(lease.request.depth) or context.fields or trail.heeds_directives:
        html = trail.parse(lease.request.url, response, body, charset)
    says = trail.directives(response, html)
    found = Result(_done(lease, response), page, _exchange(context, response, page))
    if html is not None:
        found = _read_html(context, lease, found, html, says)
    return _left_out(lease, found) if context.spec.noindex and says.noindex else found


def _read_html(context: JobContext, lease: Lease, found: Result, html: Html, says: Directives) -> Result:
    url, depth, page = lease.request.url, lease.request.depth, found.page
    canonical = html.canonical()
    if page and canonical and (target := html.base.join(canonical)):
        found = replace(found, page=replace(page, canonical=str(target)))
    if context.fields:
        found = replace(found, items=_items(context, html, url))
    candidates, known = context.trail.onward(url, depth, html, says)
    return replace(found, candidates=candidates, duplicates=known)


def _items(context: JobContext, html: Html, url: Url) -> tuple[ItemRow, ...]:
    values = html.take(context.fields)
    if not any(values.values()):
        return ()
    return (ItemRow(context.job, url.fingerprint, 0, str(url), values),)


def _left_out(lease: Lease, found: Result) -> Result:
    """The page asks not to be kept; its links are another matter."""
    left = given_up(lease, Outcome.ROBOTS, FetchError("noindex", "the page is marked noindex"))
    seen = found.settlement
    settlement = replace(left.settlement, latency=seen.latency, received=seen.received, signal=Signal.OK)
    return replace(left, settlement=settlement, candidates=found.candidates, duplicates=found.duplicates)


def read_redirect(context: JobContext, lease: Lease, response: Response, location: str) -> Result:
    """The target is a request of its own: the frontier decides whether and when it is fetched."""
    request = lease.request
    target = Base(str(request.url), drop_tracking=context.spec.drop_tracking).join(location)
    if target is None:
        raise FetchError("bad_redirect", f"to {location[:200]!r}")
    if target == request.url:
        raise FetchError("redirect_loop", "the page redirects to itself")
    if request.hops >= MAX_HOPS:
        raise FetchError("too_many_redirects", f"more than {MAX_HOPS} in a row")
    page = _row(context, lease, response, len(response.wire_body), "")
    page = replace(page, redirect=str(target))
    settlement = replace(_done(lease, response), reason="redirect")
    return Result(
        settlement,
        page,
        _exchange(context, response, page),
        candidates=[context.links.follow(target, request)],
    )


def _row(context: JobContext, lease: Lease, response: Response, size: int, charset: str) -> PageRow:
    request = lease.request
    return PageRow(
        job=lease.job,
        fingerprint=request.url.fingerprint,
        url=str(request.url),
        host=request.url.host,
        status=response.status,
        depth=request.depth,
        attempt=request.attempt,
        content_type=response.content_type[:200],
        charset=charset,
        size=size,
        elapsed_ms=round(response.elapsed.total_seconds() * 1000, 1),
        fetched_ms=now_ms(),
        request_id=context.request_id,
        hops=request.hops,
        received=len(response.wire_body),
    )


def _exchange(context: JobContext, response: Response, page: PageRow) -> Exchange | None:
    if not context.spec.archive:
        return None
    return Exchange(
        page.url, response.status, response.http_reason, response.headers, response.wire_body, page.fetched_ms
    )


def _done(lease: Lease, response: Response) -> Settlement:
    return Settlement(lease, Outcome.DONE, latency=response.elapsed, received=len(response.wire_body))
