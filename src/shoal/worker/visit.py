"""One request from lease to result: robots, fetch, read. Decides everything, changes nothing.

A result holds all that must be stored and how the lease is to be settled; `delivery` carries it out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from shoal.core.ledger import Ask
from shoal.core.manners import Signal
from shoal.core.model import Engine, Lease, Mark, Outcome, Settlement
from shoal.core.retry import parse_retry_after, signal_of
from shoal.core.reuse import Way
from shoal.core.sitemaps import asks_robots, is_guess
from shoal.core.url import Url
from shoal.errors import FetchError, Unavailable
from shoal.fetch.port import FetchLimits, Response
from shoal.fetch.robots_cache import RobotsCache, RobotsUnreachable, Rules
from shoal.fetch.robots_inquiry import Asked, Fetch
from shoal.spans import step
from shoal.worker.carrying import carry_over, with_interval
from shoal.worker.context import JobContext
from shoal.worker.earlier import EarlierPage
from shoal.worker.outbound import Outbound
from shoal.worker.reader import Reader
from shoal.worker.reading import read_page, read_redirect
from shoal.worker.rendering import order_of, read_rendered
from shoal.worker.result import Inquiry, Result, gap_of, given_up, handed_over, now_ms, put_off
from shoal.worker.routes import RouteBook
from shoal.worker.sitemaps import lead_to_sitemaps, without_sitemap

MAX_LOSSES = 3
"""Workers that may die with a request in their hands before it is given up."""
PENDING_DELAY = timedelta(milliseconds=300)
"""While another worker fetches the robots.txt."""
TROUBLE_DELAY = timedelta(seconds=2)
"""While a store of ours is down."""
PROBE_DELAY = timedelta(seconds=1)
NOT_MODIFIED_STATUS = 304


class Visitor:
    """Turns leases into results."""

    def __init__(
        self, outbound: Outbound, robots: RobotsCache, reader: Reader | None = None, routes: RouteBook | None = None
    ) -> None:
        self._routes = routes
        """For jobs whose pages go one way or the other; without it, all go without a browser."""
        self._outbound = outbound
        self._robots = robots
        self._reader = reader or Reader()
        self._loose_ends: list[Ask] = []

    async def visit(self, context: JobContext, lease: Lease, earlier: EarlierPage | None = None) -> Result:
        """Fetch one request and read the answer; an earlier page of it may be used again."""
        inquiry = Inquiry(lease)
        started = time.perf_counter()
        try:
            result = await self._visit(context, lease, inquiry, earlier)
        except FetchError as exc:
            elapsed = timedelta(seconds=time.perf_counter() - started)
            result = _failed(context, lease, exc, elapsed)
        except Unavailable:
            result = put_off(lease, "store_down", TROUBLE_DELAY)
        except BaseException:  # interrupted, or a fault of ours: the host was asked all the same
            self._loose_ends += inquiry.asks
            raise
        return inquiry.complete(result)

    def loose_ends(self) -> list[Ask]:
        """What was asked since the last call, for the ledger, by visits that came to no result."""
        asks, self._loose_ends = self._loose_ends, []
        return asks

    async def find_address(self, host: str) -> str:
        """Where a host lives; raises FetchError."""
        return await self._outbound.find_address(host)

    async def end_interrupted(self) -> None:
        """What was begun for the sake of visits that were interrupted ends with them; others go on."""
        await self._robots.end_unattended()

    async def end(self) -> None:
        """No more visits for now; what was begun for the sake of interrupted ones ends with them."""
        try:
            await self._robots.end()
            await self._outbound.settle()
        finally:
            await self._reader.end()

    async def _visit(self, context: JobContext, lease: Lease, inquiry: Inquiry, earlier: EarlierPage | None) -> Result:
        request = lease.request
        if lease.mark is Mark.DOOMED:
            raise FetchError("host_down", "its host could not be reached for a while, also not by probes")
        if request.losses >= MAX_LOSSES:
            raise FetchError("worker_lost", f"{request.losses} workers were lost while they fetched it")
        if context.spec.engine is not Engine.AUTO or request.render or self._routes is None:
            return await self._go(context, lease, inquiry, earlier)
        async with self._routes.turn(context.job, request.url) as way:
            if way is Engine.BROWSER:
                return handed_over(lease, "known_route")
            return await self._go(context, lease, inquiry, earlier)

    async def _go(self, context: JobContext, lease: Lease, inquiry: Inquiry, earlier: EarlierPage | None) -> Result:
        url = lease.request.url
        await self._outbound.check(context, url)
        if asks_robots(context.spec, lease.request):
            rules = await self._rules_or_wait(context, lease, inquiry)
            return rules if isinstance(rules, Result) else lead_to_sitemaps(context, lease, rules.robots)
        if context.spec.robots:
            refusal = await self._ask_robots(context, lease, inquiry)
            if refusal is not None:
                return refusal
        if earlier and earlier.decision.way is Way.REUSE:
            carried = await carry_over(context, lease, earlier, self._reader)
            if carried is not None:
                return self._routed(context, lease, carried)
        found = await self._ask(context, lease, inquiry, earlier)
        if earlier and not found.carried:
            found = with_interval(context, earlier, found)
        return self._routed(context, lease, found)

    async def _ask(self, context: JobContext, lease: Lease, inquiry: Inquiry, earlier: EarlierPage | None) -> Result:
        """The host, for the page or whether it has changed."""
        if context.renders(lease.request):
            return await self._render(context, lease, inquiry)
        conditions: Mapping[str, str] = earlier.decision.headers if earlier else {}
        response = await self._fetch(context, lease, inquiry, conditions)
        if earlier is None or not conditions or response.status != NOT_MODIFIED_STATUS:
            with step("read"):
                return await self._read(context, lease, response)
        carried = await carry_over(context, lease, earlier, self._reader, response)
        if carried is not None:
            return carried
        response = await self._fetch(context, lease, inquiry, {})
        with step("read"):
            found = await self._read(context, lease, response)
        hold = found.settlement.hold_host + gap_of(lease)  # that was one request more than was booked
        return replace(found, settlement=replace(found.settlement, hold_host=hold))

    async def _fetch(
        self, context: JobContext, lease: Lease, inquiry: Inquiry, conditions: Mapping[str, str]
    ) -> Response:
        url = lease.request.url
        headers = context.headers_for(url)
        sent = {**headers, **conditions} if conditions else headers
        at_ms = now_ms()
        try:
            with step("fetch"):
                response = await self._outbound.fetch(context, url, sent, context.limits)
        except (FetchError, asyncio.CancelledError) as exc:
            _note_failed(inquiry, at_ms, url, exc)
            raise
        inquiry.note(at_ms, url.host, str(url), response.status, "")
        return response

    async def _render(self, context: JobContext, lease: Lease, inquiry: Inquiry) -> Result:
        async def may_go(url: Url) -> bool:
            return not context.spec.robots or await self._lets_go_on(context, url, inquiry)

        url, at_ms = lease.request.url, now_ms()
        try:
            with step("render"):
                rendered = await self._outbound.render(context, order_of(context, lease, may_go))
        except (FetchError, asyncio.CancelledError) as exc:
            _note_failed(inquiry, at_ms, url, exc)
            raise
        inquiry.note(at_ms, url.host, str(url), rendered.response.status, "")
        if rendered.is_refused:  # also when the page would go elsewhere: without a browser it would not
            raise _refused(rendered.response, rendered.received)
        with step("read"):
            return await read_rendered(context, lease, rendered, self._reader)

    def _routed(self, context: JobContext, lease: Lease, found: Result) -> Result:
        """What was learnt about pages like this one is noted, and heeded for its links."""
        if self._routes is None or context.spec.engine is not Engine.AUTO:
            return found
        if found.needed is not None:
            self._routes.note(context.job, lease.request.url, needed=found.needed)
        return replace(found, candidates=self._routes.marked(context.job, found.candidates))

    async def _read(self, context: JobContext, lease: Lease, response: Response) -> Result:
        if 200 <= response.status < 300:
            return await read_page(context, lease, response, self._reader, context.require)
        location = response.header("location")
        if 300 <= response.status < 400 and location is not None:
            return read_redirect(context, lease, response, location)
        raise _refused(response)

    # --- robots.txt ---------------------------------------------------------------------------------------------

    async def _ask_robots(self, context: JobContext, lease: Lease, inquiry: Inquiry) -> Result | None:
        """None when the page may be fetched."""
        rules = await self._rules_or_wait(context, lease, inquiry)
        if isinstance(rules, Result):
            return rules
        verdict = rules.robots.judge(lease.request.url.target)
        inquiry.rule = verdict.named
        if verdict.allowed:
            return None
        return given_up(lease, Outcome.ROBOTS, FetchError("robots_disallowed", verdict.named))

    async def _rules_or_wait(self, context: JobContext, lease: Lease, inquiry: Inquiry) -> Rules | Result:
        """The rules of the host, or what becomes of a request that must come again for them."""
        try:
            rules = await self._rules(context, lease.request.url)
        except RobotsUnreachable as exc:
            _note_hops(inquiry, exc.hops)
            if not exc.asked and exc.reason != "robots_unreachable":
                return put_off(lease, exc.reason, PENDING_DELAY)
            raise
        inquiry.robots = rules.version
        if rules.asked:  # that was this lease's turn on the host
            _note_hops(inquiry, rules.hops)
            # Its latency says nothing about pages: many make the one of files and the other of a database.
            return Result(Settlement(lease, Outcome.RETRY, "robots_read", counts=False, signal=Signal.OK))
        return rules

    async def _lets_go_on(self, context: JobContext, url: Url, inquiry: Inquiry) -> bool:
        """To a page that another one leads to; where nobody can tell, it is not gone to."""
        try:
            rules = await self._rules(context, url)
        except RobotsUnreachable as exc:
            _note_hops(inquiry, exc.hops)
            return False
        except Unavailable:
            return False
        if rules.asked:
            _note_hops(inquiry, rules.hops)
        return rules.robots.judge(url.target).allowed

    async def _rules(self, context: JobContext, url: Url) -> Rules:
        return await self._robots.rules(url, self._fetcher(context))

    def _fetcher(self, context: JobContext) -> Fetch:
        async def fetch(url: Url, limits: FetchLimits) -> Response:
            return await self._outbound.fetch(context, url, {}, limits)

        return fetch


def _note_failed(inquiry: Inquiry, at_ms: int, url: Url, error: FetchError | asyncio.CancelledError) -> None:
    """The host was asked, whatever came of it: unless there was no way to ask it."""
    reason = error.reason if isinstance(error, FetchError) else "interrupted"
    if reason not in ("proxy_wait", "browser_missing"):
        inquiry.note(at_ms, url.host, str(url), 0, reason)


def _refused(response: Response, received: int | None = None) -> FetchError:
    return FetchError(
        f"http_{response.status}",
        response.http_reason,
        retry_after=parse_retry_after(response.header("retry-after"), response.header("date")),
        received=len(response.wire_body) if received is None else received,
    )


def _note_hops(inquiry: Inquiry, hops: tuple[Asked, ...]) -> None:
    for hop in hops:
        inquiry.note(hop.at_ms, hop.url.host, str(hop.url), hop.status, hop.reason)


def _failed(context: JobContext, lease: Lease, error: FetchError, elapsed: timedelta) -> Result:
    if error.reason in ("robots_pending", "proxy_wait"):
        return put_off(lease, error.reason, error.retry_after or PENDING_DELAY)
    signal = signal_of(error.reason)
    if lease.mark is Mark.PROBE and signal is Signal.DOWN:
        probe = put_off(lease, error.reason, PROBE_DELAY)
        return replace(probe, settlement=replace(probe.settlement, signal=signal))
    decision = context.retry.decide(error.reason, lease.request.attempt, error.retry_after)
    if decision.outcome is Outcome.RETRY:
        result = Result(Settlement(lease, Outcome.RETRY, error.reason, decision.delay))
    elif is_guess(context.spec, lease.request) and error.reason.startswith("http_4"):
        result = without_sitemap(lease)
    else:
        result = given_up(lease, decision.outcome, error, context.secrets)
    learnt = replace(
        result.settlement,
        hold_host=decision.hold_host,
        signal=signal,
        received=error.received,
        latency=elapsed if signal is Signal.SLOW else timedelta(),
    )
    return replace(result, settlement=learnt)
