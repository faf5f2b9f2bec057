"""One request from lease to result: robots, fetch, read. Decides everything, changes nothing.

A result holds all that must be stored and how the lease is to be settled; `delivery` carries it out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from shoal.core.model import Candidate, Lease, Outcome, Settlement
from shoal.core.retry import parse_retry_after
from shoal.core.url import Base, Url
from shoal.errors import FetchError
from shoal.extract.page import HTML_TYPES, Html
from shoal.fetch.port import Client, Response
from shoal.fetch.robots_cache import RobotsCache
from shoal.store.archive import Exchange
from shoal.store.pages import DeadLetter, ItemRow, PageRow
from shoal.worker.context import JobContext

MAX_HOPS = 10
MAX_LOSSES = 3
"""Workers that may die with a request in their hands before it is given up."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one lease."""

    settlement: Settlement
    page: PageRow | None = None
    exchange: Exchange | None = None
    items: tuple[ItemRow, ...] = ()
    letter: DeadLetter | None = None
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    duplicates: int = 0


class Visitor:
    """Turns leases into results."""

    def __init__(self, client: Client, robots: RobotsCache) -> None:
        self._client = client
        self._robots = robots

    async def visit(self, context: JobContext, lease: Lease) -> Result:
        """Fetch one request and read the answer."""
        request = lease.request
        try:
            if request.losses >= MAX_LOSSES:
                raise FetchError("worker_lost", f"{request.losses} workers were lost while they fetched it")
            if context.spec.robots and not (await self._robots.rules(request.url)).allow(str(request.url)):
                return given_up(lease, Outcome.ROBOTS, FetchError("robots_disallowed"))
            response = await self._client.fetch(request.url, context.headers_for(request.url), context.limits)
            return self._read(context, lease, response)
        except FetchError as exc:
            return _failed(context, lease, exc)

    def _read(self, context: JobContext, lease: Lease, response: Response) -> Result:
        if 200 <= response.status < 300:
            return _page(context, lease, response)
        location = response.header("location")
        if 300 <= response.status < 400 and location is not None:
            return _redirect(context, lease, response, location)
        raise FetchError(
            f"http_{response.status}",
            response.http_reason,
            retry_after=parse_retry_after(response.header("retry-after")),
        )


def _page(context: JobContext, lease: Lease, response: Response) -> Result:
    url, depth = lease.request.url, lease.request.depth
    body = response.unpacked(context.spec.max_body)
    charset = response.charset(body)
    page = _row(context, lease, response, len(body), charset)
    settlement, exchange = _done(lease, response), _exchange(context, response, page)
    wants_links = context.follows_from(depth)
    if response.media_type not in HTML_TYPES or not body or not (wants_links or context.fields):
        return Result(settlement, page, exchange)
    html = Html.parse(body, charset, Base(page.url, drop_tracking=context.spec.drop_tracking))
    canonical = html.canonical()
    if canonical and (target := html.base.join(canonical)):
        page = replace(page, canonical=str(target))
    items = _items(context, html, url, page.fingerprint) if context.fields else ()
    if not wants_links:
        return Result(settlement, page, exchange, items)
    hrefs = html.hrefs(skip_nofollow=context.spec.nofollow)
    candidates, known = context.links.sort_out(url, html.base, hrefs, depth + 1, rebased=html.rebased)
    return Result(settlement, page, exchange, items, candidates=candidates, duplicates=known)


def _items(context: JobContext, html: Html, url: Url, fingerprint: int) -> tuple[ItemRow, ...]:
    values = html.take(context.fields)
    if not any(values.values()):
        return ()
    return (ItemRow(context.job, fingerprint, 0, str(url), values),)


def _redirect(context: JobContext, lease: Lease, response: Response, location: str) -> Result:
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
        fetched_ms=_now_ms(),
        request_id=context.request_id,
    )


def _exchange(context: JobContext, response: Response, page: PageRow) -> Exchange | None:
    if not context.spec.archive:
        return None
    return Exchange(
        page.url, response.status, response.http_reason, response.headers, response.wire_body, page.fetched_ms
    )


def _done(lease: Lease, response: Response) -> Settlement:
    return Settlement(lease, Outcome.DONE, latency=response.elapsed, received=len(response.wire_body))


def _failed(context: JobContext, lease: Lease, error: FetchError) -> Result:
    decision = context.retry.decide(error.reason, lease.request.attempt, error.retry_after)
    if decision.outcome is Outcome.RETRY:
        return Result(Settlement(lease, Outcome.RETRY, error.reason, decision.delay, decision.hold_host))
    result = given_up(lease, decision.outcome, error)
    return replace(result, settlement=replace(result.settlement, hold_host=decision.hold_host))


def given_up(lease: Lease, outcome: Outcome, error: FetchError) -> Result:
    """A request that will not be tried again, with its letter."""
    request = lease.request
    letter = DeadLetter(
        job=lease.job,
        fingerprint=request.url.fingerprint,
        url=str(request.url),
        host=request.url.host,
        outcome=outcome.value,
        reason=error.reason,
        detail=_clean(error.detail[:500]),
        depth=request.depth,
        attempts=request.attempt + 1,
        at_ms=_now_ms(),
    )
    return Result(Settlement(lease, outcome, error.reason), letter=letter)


def _clean(text: str) -> str:
    """What every database can store: no lone surrogates, no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
