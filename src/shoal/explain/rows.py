"""What the database says about a URL: each time that it was asked for, its page and what became of that, its letter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shoal.core.explanation import Step
from shoal.core.ledger import Ask
from shoal.core.model import JobState, Outcome
from shoal.core.reuse import FRESH, NOT_DUE, NOT_MODIFIED
from shoal.core.spec import JobSpec
from shoal.extract.document import is_json
from shoal.extract.page import HTML_TYPES
from shoal.store.page_rows import DeadLetter, PageRow
from shoal.store.traces import ItemCount, Traces

_LISTING = ("xml", "text/plain")
"""In media types that may be sitemaps or feeds."""


def ask_steps(asks: Iterable[Ask]) -> Iterator[Step]:
    """Each request to the host."""
    for number, ask in enumerate(asks, 1):
        answer = f"HTTP {ask.status}" if ask.status else f"no page: {ask.reason}"
        rule = f"; {ask.rule} of robots.txt lets it pass" if ask.rule else ""
        yield Step(
            "asked",
            f"request {number}: {answer}{rule}",
            ask.at_ms,
            {"status": ask.status, "reason": ask.reason, "rate": ask.rate, "limit": ask.source.value, "rule": ask.rule},
        )


def page_steps(traces: Traces, spec: JobSpec, page: PageRow, counts: list[ItemCount]) -> Iterator[Step]:
    """A page that is stored, and what was made of it."""
    yield _fetched_step(page)
    if page.reused:
        yield _carried_step(page)
    if page.redirect:
        yield Step("redirected", f"it points to {page.redirect}", page.fetched_ms, {"to": page.redirect})
    if page.canonical and page.canonical != page.url:
        told = f'the page names {page.canonical} as the one that counts (<link rel="canonical">); both are requests'
        yield Step("canonical_link", told, page.fetched_ms, {"canonical": page.canonical})
    if page.duplicate_of is not None:
        yield _duplicate_step(traces, spec, page, page.duplicate_of)
    yield _archive_step(page)
    if failed := (page.notes or {}).get("spider_failed"):
        yield Step("spider_failed", f"the spider failed on it: {failed}", page.fetched_ms)
    if not page.redirect:
        yield from _item_steps(spec, page, counts)


def _fetched_step(page: PageRow) -> Step:
    kind = page.content_type.partition(";")[0] or "no media type"
    tries = f", at attempt {page.attempt + 1}" if page.attempt else ""
    rendered = ", rendered by a browser" if page.engine == "browser" else ""
    told = f"fetched: HTTP {page.status}, {kind}, {page.size:,} bytes in {page.elapsed_ms:.0f} ms{tries}{rendered}"
    return Step(
        "fetched",
        told,
        page.fetched_ms,
        {
            "status": page.status,
            "content_type": page.content_type,
            "size": page.size,
            "attempt": page.attempt + 1,
            "engine": page.engine,
            "depth": page.depth,
        },
    )


_CARRIED = {
    NOT_MODIFIED: "its host was asked, and said that it has not changed (HTTP 304)",
    NOT_DUE: "it was not due to be visited, by how often it changes",
    FRESH: "it was stored a short while ago, which is recent enough for this job (max_age)",
}


def _carried_step(page: PageRow) -> Step:
    """Why there is no body of this job's own."""
    lenders = ", ".join(sorted(page.lenders))
    of = f" of job {lenders}" if lenders else ""
    told = f"carried over from an earlier job: {_CARRIED.get(page.reused or '', page.reused)}; the body is that{of}"
    detail = {"reused": page.reused, "interval_ms": page.interval_ms, "lender": lenders or None}
    return Step("carried_over", told, page.checked_ms, detail)


def _duplicate_step(traces: Traces, spec: JobSpec, page: PageRow, of: int) -> Step:
    earlier = traces.page(page.job, of)
    name = earlier.url if earlier else "an earlier page that is not stored any more"
    alike = spec.duplicates
    left = "" if alike is None or alike.follow else "; its links are not followed"
    told = f"it says what {name} says{left}"
    return Step("duplicate", told, page.fetched_ms, {"of": earlier.url if earlier else None})


def _archive_step(page: PageRow) -> Step:
    at = page.archive
    if at is None:
        return Step("archived", "its body is not kept: the job runs without the archive", page.fetched_ms)
    kept = "".join(f", {each.kind}" for each in page.captures)
    told = f"its response is in {at.key} at {at.offset:,}, {at.length:,} bytes{kept}"
    return Step("archived", told, page.fetched_ms, {"key": at.key, "offset": at.offset, "length": at.length})


def _item_steps(spec: JobSpec, page: PageRow, counts: list[ItemCount]) -> Iterator[Step]:
    media = page.content_type.partition(";")[0].strip().lower()
    readable = media in HTML_TYPES or is_json(media) or any(part in media for part in _LISTING)
    if not readable and not spec.spider:
        told = f"no links or items are taken from it: its media type is {media or 'not given'}"
        yield Step("unread", told, page.fetched_ms, {"media_type": media})
        return
    for each in counts:
        broken = f", {each.quarantined} in quarantine" if each.quarantined else ""
        detail = {"version": each.version, "items": each.items, "quarantined": each.quarantined}
        yield Step("items", f"items of {each.version}: {each.items}{broken}", page.fetched_ms, detail)
    if not counts and spec.takes_items:
        yield Step("items", "it has no items", page.fetched_ms, {"items": 0})


def letter_step(letter: DeadLetter, group: str) -> Step:
    """Why there is no page; `group` is whom the rules of robots.txt are for, where they decided."""
    said = f": {letter.detail}" if letter.detail else ""
    detail = {"reason": letter.reason, "detail": letter.detail, "attempts": letter.attempts, "depth": letter.depth}
    if letter.outcome == Outcome.ROBOTS.value:
        told = f"refused by the page itself{said}" if letter.reason == "noindex" else f"refused by robots.txt{said}"
        whom = f", in the group for {group}" if group else ""
        return Step("robots", f"{told}{whom}", letter.at_ms, {**detail, "agent": group or None})
    if letter.outcome == Outcome.FILTERED.value:
        return Step("filtered", f"left out as {letter.reason}{said}", letter.at_ms, detail)
    times = "once" if letter.attempts == 1 else f"{letter.attempts} times"
    return Step("given_up", f"given up as {letter.reason}, tried {times}{said}", letter.at_ms, detail)


def replay_step(letter: DeadLetter, state: JobState) -> Step:
    """What can be done about a dead letter."""
    can = state is not JobState.CANCELLED
    told = f"it can be tried again: shoal dead {letter.job} --replay --reason {letter.reason}"
    if not can:
        told = "it cannot be tried again in this job, which was cancelled: submit it as a new one"
    return Step("replay", told, detail={"possible": can}, recorded=False)
