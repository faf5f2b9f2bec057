"""An answer read: a page with its items and links, or a redirect."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import structlog

from shoal.core.frozen import changed
from shoal.core.manners import Signal
from shoal.core.model import Lease, Outcome, Settlement
from shoal.core.noise import NOTHING_SAID
from shoal.core.redact import without_secrets
from shoal.core.reuse import read_validators
from shoal.core.sitemaps import is_guess
from shoal.core.url import Base, Url, fingerprint
from shoal.errors import FetchError
from shoal.extract.directives import Directives
from shoal.extract.findings import NOTHING, Findings, Wanted
from shoal.extract.listing import name_of
from shoal.extract.outlinks import Written
from shoal.extract.page import HTML_TYPES
from shoal.fetch.port import Response
from shoal.store.archive import Exchange
from shoal.store.items import rows_of
from shoal.store.page_rows import PageRow
from shoal.worker.context import JobContext
from shoal.worker.reader import Reader, unhurried
from shoal.worker.result import Result, clean, given_up, handed_over, now_ms
from shoal.worker.sitemaps import without_sitemap

log = structlog.get_logger()

MAX_HOPS = 10
"""Redirects in a row."""


async def read_page(
    context: JobContext, lease: Lease, response: Response, reader: Reader, require: str | None = None
) -> Result:
    """A page, its items, and the links to follow; or, if it is asked for, that it needs a browser."""
    body, charset = await reader.unpack(response, context.spec.max_body)
    media_type = response.media_type
    listing = name_of(body, media_type)
    if not listing and is_guess(context.spec, lease.request):
        return without_sitemap(lease, response)
    page = _row(context, lease, response, len(body), charset)
    if context.spec.revisit:
        page = changed(page, body_hash=hash_of(body))
    if context.noise and not body:
        page = changed(page, digest=NOTHING_SAID)
    exchange = exchange_of(context, response, page)
    found = Result(_done(lease, response), page, exchange, itemless=not context.extraction)
    url, depth = lease.request.url, lease.request.depth
    asked = (url, depth, media_type, charset, context.extraction, require, listing)
    alike = context.spec.duplicates is not None
    wanted = context.trail.wanted(*asked, likeness=alike, noise=context.noise) if body else None
    findings, unread = NOTHING, False
    if wanted is not None:
        try:
            wanted = context.trail.briefed(wanted, lease.request, response)
            findings = await reader.read(body, wanted)
        except FetchError as exc:
            _unread(context, found, exc)
            unread = True
    if findings.render:
        return _for_browser(lease, response)
    says = context.trail.directives(response, findings)
    if wanted is not None and findings is not NOTHING:
        await _go_on(context, lease, found, findings, wanted.base_with(findings.base), says)
    if context.spec.keeps_trail and not unread and not findings.failed:
        found.outlinks = Written(findings, _links_read(context, wanted, media_type), says.nofollow).pack()
    if require is not None and wanted is not None and not wanted.only_digest:
        found.needed = False
    return _left_out(lease, found) if context.spec.noindex and says.noindex else found


def hash_of(body: bytes) -> int:
    """By which it is known again whether a body has changed."""
    return int.from_bytes(hashlib.blake2b(body, digest_size=8).digest(), "big", signed=True)


def _links_read(context: JobContext, wanted: Wanted | None, media_type: str) -> bool:
    """Are all links known that a page can have?"""
    if wanted is None:
        return media_type not in HTML_TYPES and not context.spec.spider
    return wanted.links or bool(wanted.extractor.spider) or not (wanted.markup or wanted.listing)


async def needs_browser(context: JobContext, lease: Lease, response: Response, reader: Reader) -> bool | None:
    """Would the page have needed a browser? For one that has had one; None when it is not asked, or cannot be said."""
    if context.require is None or not response.wire_body:
        return None
    charset = response.charset(response.wire_body)
    wanted = context.trail.wanted(lease.request.url, 0, response.media_type, charset, require=context.require)
    if wanted is None:
        return None
    try:
        findings = await reader.read(response.wire_body, replace(wanted, links=False, directives=False))
    except FetchError:
        return None
    return bool(findings.render)


def _for_browser(lease: Lease, response: Response) -> Result:
    handed = handed_over(lease, "needs_browser")
    settlement = replace(
        handed.settlement, latency=response.elapsed, received=len(response.wire_body), signal=Signal.OK
    )
    return replace(handed, settlement=settlement, needed=True)


async def _go_on(
    context: JobContext, lease: Lease, found: Result, findings: Findings, base: Base, says: Directives
) -> None:
    url, depth = lease.request.url, lease.request.depth
    if found.page and findings.canonical and (target := base.join(findings.canonical)):
        found.page = changed(found.page, canonical=str(target))
    if found.page and findings.digest is not None:
        found.page = changed(found.page, digest=findings.digest)
    if findings.failed:
        _spider_failed(context, found, findings.failed)
    if found.page and findings.likeness:
        content, simhash = findings.likeness
        found.page = changed(found.page, content_hash=content, simhash=simhash)
        found.alike = context.spec.duplicates
    if findings.items:
        found.items, found.quarantined = rows_of(context.job, url.fingerprint, str(url), findings.items, findings.flaws)
    links = await unhurried(context.trail.onward(url, depth, findings, base, says))
    cut = tuple(dict.fromkeys((*findings.cut, "links"))) if links.cut else findings.cut
    if reason := _partial_reason(context, url, findings, cut):
        found.settlement = replace(found.settlement, reason=reason)
    found.candidates, found.duplicates = links.candidates, links.duplicates


def _partial_reason(context: JobContext, url: Url, findings: Findings, cut: tuple[str, ...]) -> str:
    """What is missing of a page that was read, the worst of it; all of it is logged."""
    if not (findings.unreadable or findings.unconverted or cut or findings.incomplete):
        return ""
    names = {"job": context.job, "request_id": context.request_id, "url": str(url)}
    if findings.unreadable:
        log.info("json_unreadable", **names)
        return "json_unreadable"
    if findings.unconverted:
        log.info("values_unconverted", fields=dict(findings.unconverted), **names)
    if cut:
        log.info("page_cut", cut=",".join(cut), **names)
    if findings.incomplete:
        log.info("items_incomplete", fields=dict(findings.incomplete), **names)
        return "item_incomplete"
    if cut:
        return "page_cut"
    return "value_unconverted" if findings.unconverted else ""


def _spider_failed(context: JobContext, found: Result, detail: str) -> None:
    """The page is kept, with the reason; it can be read again when the spider is mended."""
    url, detail = str(found.settlement.lease.request.url), clean(without_secrets(detail, context.secrets))
    names = {"job": context.job, "request_id": context.request_id, "spider": context.spec.spider}
    log.warning("spider_failed", url=url, error=detail, **names)
    found.page = found.page and replace(found.page, notes={"spider_failed": detail})
    found.settlement = replace(found.settlement, reason="spider_failed")


def _unread(context: JobContext, found: Result, error: FetchError) -> None:
    """The page is kept; what it holds stays unknown."""
    if context.spec.spider and error.reason == "too_complex":
        _spider_failed(context, found, f"{error.detail}: the page is too complex, or the spider does not end")
        return
    url = str(found.settlement.lease.request.url)
    log.warning("page_unread", job=context.job, request_id=context.request_id, url=url, error=error.detail)
    found.settlement = replace(found.settlement, reason=error.reason)


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
        raise FetchError("bad_redirect", f"to {without_secrets(location[:8_192])[:200]!r}")
    if target == request.url:
        raise FetchError("redirect_loop", "the page redirects to itself")
    if request.hops >= MAX_HOPS:
        raise FetchError("too_many_redirects", f"more than {MAX_HOPS} in a row")
    page = _row(context, lease, response, len(response.wire_body), "")
    page = changed(page, redirect=str(target))
    settlement = replace(_done(lease, response), reason="redirect")
    return Result(
        settlement,
        page,
        exchange_of(context, response, page),
        candidates=[context.links.follow(target, request)],
        itemless=not context.extraction,
    )


def _row(context: JobContext, lease: Lease, response: Response, size: int, charset: str) -> PageRow:
    request, at_ms = lease.request, now_ms()
    validators, url = read_validators(response.headers), str(request.url)
    return PageRow(
        job=lease.job,
        fingerprint=fingerprint(url),
        url=url,
        host=request.url.host,
        status=response.status,
        depth=request.depth,
        attempt=request.attempt,
        content_type=response.content_type[:200],
        charset=charset,
        size=size,
        elapsed_ms=round(response.elapsed.total_seconds() * 1000, 1),
        fetched_ms=at_ms,
        request_id=context.request_id,
        hops=request.hops,
        received=len(response.wire_body),
        callback=request.callback,
        meta=request.meta or None,
        found_on=request.found_on,
        etag=validators.etag,
        last_modified=validators.last_modified,
    )


def exchange_of(context: JobContext, response: Response, page: PageRow) -> Exchange | None:
    """What goes into the archive."""
    if not context.spec.archive:
        return None
    return Exchange(
        page.url, response.status, response.http_reason, response.headers, response.wire_body, page.fetched_ms
    )


def _done(lease: Lease, response: Response) -> Settlement:
    return Settlement(lease, Outcome.DONE, latency=response.elapsed, received=len(response.wire_body))
