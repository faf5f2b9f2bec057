"""A page carried over from an earlier job: its row anew, its items and links as they were, its body where it lies.

Where it must be read again, as this job takes other things from it, or as nobody has written down where it leads to,
its stored bytes are read as if they had come just now. What cannot be read is not carried over: it is fetched.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog

from shoal.core.model import Lease, Outcome, Settlement
from shoal.core.reuse import interval_after, read_validators
from shoal.core.url import Base, parse
from shoal.errors import ArchiveUnavailable, FetchError, NotFound
from shoal.extract.directives import SILENT, Directives
from shoal.extract.outlinks import Written
from shoal.fetch.port import Response
from shoal.store.page_rows import CarriedOver, PageRow
from shoal.worker.context import JobContext
from shoal.worker.earlier import EarlierPage
from shoal.worker.reader import Reader, unhurried
from shoal.worker.reading import MAX_HOPS, read_page
from shoal.worker.result import Result, gap_of

log = structlog.get_logger()


async def carry_over(
    context: JobContext,
    lease: Lease,
    earlier: EarlierPage,
    reader: Reader,
    answer: Response | None = None,
) -> Result | None:
    """What comes of a page that need not be fetched; None when it must be, after all.

    `answer`: of a host that was asked, and said that it has not changed.
    """
    row, settlement = _row(context, lease, earlier, answer), _settlement(lease, earlier, answer)
    if row.redirect and lease.request.hops >= MAX_HOPS:
        return None
    if row.redirect:
        return _of_redirect(context, lease, row, settlement, earlier)
    written = earlier.whole(context, lease.request)
    if written is not None:
        return await _as_it_was(context, lease, row, settlement, earlier, written)
    return await _read_again(context, lease, row, settlement, earlier, reader)


def with_interval(context: JobContext, earlier: EarlierPage, found: Result) -> Result:
    """A page that was fetched in full, with how often it is visited from now on."""
    row = found.page
    if row is None or context.reuse.revisit is None:
        return found
    changed = _has_changed(earlier, row)
    interval = interval_after(earlier.row.known, context.reuse, earlier.present_ms, changed=changed)
    return replace(found, page=replace(row, interval_ms=interval))


def _has_changed(earlier: EarlierPage, row: PageRow) -> bool | None:
    """By its text without noise, where both runs have it by the same rules, else by its bytes; None: nobody knows."""
    mine, theirs = row.digest, earlier.row.digest
    if mine is None or theirs is None or not earlier.alike:
        mine, theirs = row.body_hash, earlier.row.body_hash
    return None if mine is None or theirs is None else mine != theirs


def _row(context: JobContext, lease: Lease, earlier: EarlierPage, answer: Response | None) -> PageRow:
    """All changes at once: a copy of so many columns takes as long as all the rest."""
    request, before = lease.request, earlier.row
    return replace(
        before,
        job=context.job,
        depth=request.depth,
        attempt=request.attempt,
        hops=request.hops,
        request_id=context.request_id,
        callback=request.callback,
        meta=request.meta or None,
        found_on=request.found_on,
        duplicate_of=None,
        reused=earlier.decision.reason,
        **_said(context, earlier, answer),
    )


def _said(context: JobContext, earlier: EarlierPage, answer: Response | None) -> dict[str, Any]:
    """What the host has said about the page just now, if it was asked."""
    before, known = earlier.row, earlier.row.known
    if answer is None:
        return {"checked_ms": known.checked_ms}
    now_ms = earlier.present_ms
    given = read_validators(answer.headers)
    return {
        "checked_ms": now_ms,
        "etag": given.etag or before.etag,
        "last_modified": given.last_modified or before.last_modified,
        "unverified": before.unverified + 1,
        "interval_ms": interval_after(known, context.reuse, now_ms, changed=False),
    }


def _settlement(lease: Lease, earlier: EarlierPage, answer: Response | None) -> Settlement:
    row = earlier.row
    reason = "redirect" if row.redirect else earlier.decision.reason
    saved = row.received or row.size
    if answer is not None:
        received = len(answer.wire_body)
        return Settlement(lease, Outcome.DONE, reason, latency=answer.elapsed, received=received, saved=saved)
    return Settlement(lease, Outcome.DONE, reason, counts=False, saved=saved, unasked=gap_of(lease))


def _of_redirect(
    context: JobContext, lease: Lease, row: PageRow, settlement: Settlement, earlier: EarlierPage
) -> Result:
    target = context.links.follow(parse(row.redirect or ""), lease.request)
    return Result(settlement, row, candidates=[target], carried=_carried(row, earlier, with_items=False))


async def _as_it_was(
    context: JobContext,
    lease: Lease,
    row: PageRow,
    settlement: Settlement,
    earlier: EarlierPage,
    written: Written,
) -> Result:
    """Nothing is read: all that is to be known was written down."""
    url, trail = lease.request.url, context.trail
    base = Base(str(url), drop_tracking=context.spec.drop_tracking)
    if written.findings.base:
        base = base.rebase(written.findings.base)
    says = Directives(nofollow=True) if written.nofollow else SILENT
    found = trail.from_depth(lease.request.depth, written.findings)
    links = await unhurried(trail.onward(url, lease.request.depth, found, base, says))
    return Result(
        settlement,
        row,
        candidates=links.candidates,
        duplicates=links.duplicates,
        alike=context.spec.duplicates if row.content_hash is not None else None,
        outlinks=earlier.written,
        carried=_carried(row, earlier, with_items=True),
    )


async def _read_again(
    context: JobContext, lease: Lease, row: PageRow, settlement: Settlement, earlier: EarlierPage, reader: Reader
) -> Result | None:
    if earlier.body is None or row.engine == "browser":
        return None
    try:
        kept = await asyncio.to_thread(earlier.body)
        response = Response(lease.request.url, kept.status, kept.http_reason, kept.headers, kept.body, timedelta())
        found = await read_page(context, lease, response, reader, context.require)
    except (NotFound, ArchiveUnavailable, FetchError) as exc:
        log.info("earlier_page_unreadable", job=context.job, url=row.url, error=str(exc))
        return None
    if found.page is None:
        return None  # by this job's rules it is none: a browser is to fetch it, or it is not to be kept
    read = replace(
        row,
        charset=found.page.charset,
        canonical=found.page.canonical,
        notes=found.page.notes,
        content_hash=found.page.content_hash,
        simhash=found.page.simhash,
        body_hash=found.page.body_hash,
        digest=found.page.digest,
    )
    carried = _carried(read, earlier, with_items=False)
    return replace(found, settlement=settlement, page=read, exchange=None, carried=carried)


def _carried(row: PageRow, earlier: EarlierPage, *, with_items: bool) -> CarriedOver:
    return CarriedOver(row.job, row.fingerprint, earlier.row.job, with_items, frozenset(row.lenders))
