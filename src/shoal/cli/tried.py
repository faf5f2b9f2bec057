"""What came out of a page that was tried, for people and for programs."""

from __future__ import annotations

import json as json_lib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from shoal.cli.talk import counted, human_bytes, human_seconds, print_json, say, show
from shoal.core.field import field_names
from shoal.core.frozen import frozen
from shoal.core.spec import JobSpec
from shoal.core.url import Base
from shoal.extract.document import is_json
from shoal.extract.extractor import extractor_of
from shoal.extract.findings import Findings
from shoal.extract.page import HTML_TYPES
from shoal.spiders.follow import FollowUp
from shoal.store.page_rows import PageRow

SHOWN_ITEMS = 20
SHOWN_REQUESTS = 20


@frozen
class Tried:
    """One page, read once."""

    url: str
    job: str
    """That has fetched it."""
    status: int
    content_type: str
    size: int
    stored: bool
    """Was it there already?"""
    age_ms: int
    fetch_ms: float
    read_ms: float
    items: list[Mapping[str, Any]]
    flaws: list[dict[str, Any]]
    """Items that break the contract, by their place from 0, with the reasons."""
    empty: dict[str, int]
    """Fields without a value, each with in how many items."""
    unconverted: dict[str, int]
    """Fields with values that are none of their type."""
    incomplete: dict[str, int]
    """Required fields that were missing, each with how many items were left out."""
    cut: list[str]
    """Of what there was more than is taken."""
    follow: list[dict[str, Any]]
    """What the spider asks for."""
    links: int
    failed: str
    """Why the spider has failed."""
    note: str
    """Why nothing could be taken."""

    @classmethod
    def of(cls, spec: JobSpec, page: PageRow, found: Findings, *, read_ms: float, stored: bool) -> Tried:
        return cls(
            url=page.url,
            job=page.job,
            status=page.status,
            content_type=page.content_type,
            size=page.size,
            stored=stored,
            age_ms=max(0, time.time_ns() // 1_000_000 - page.fetched_ms),
            fetch_ms=page.elapsed_ms,
            read_ms=round(read_ms, 1),
            items=list(found.items),
            flaws=[{"item": place, "reasons": list(reasons)} for place, reasons in found.flaws],
            empty=_empty(spec, found.items),
            unconverted=dict(found.unconverted),
            incomplete=dict(found.incomplete),
            cut=list(found.cut),
            follow=list(_asked(found, page.url)),
            links=len(set(found.hrefs)),
            failed=found.failed,
            note=_note(spec, page, found),
        )


def print_tried(tried: Tried, *, json: bool, quiet: bool) -> None:
    """Items go to standard output, all about them to standard error."""
    if json:
        print_json(asdict(tried))
        return
    if not quiet:
        say(_head(tried))
    for item in tried.items[:SHOWN_ITEMS]:
        show(json_lib.dumps(item, indent=2, ensure_ascii=False))
    if len(tried.items) > SHOWN_ITEMS:
        say(f"… and {counted(len(tried.items) - SHOWN_ITEMS, 'more item')}; --json has all")
    for line in () if quiet else _lines(tried):
        say(line)
    if tried.failed:
        say(f"the spider failed: {tried.failed}")


def _head(tried: Tried) -> str:
    ago = f" {human_seconds(tried.age_ms / 1000)} ago (--fresh: anew)" if tried.stored else ""
    kind = f"{tried.content_type.partition(';')[0] or 'no type'}, {human_bytes(tried.size)}"
    return (
        f"{tried.url}: {tried.status}, {kind}; fetched in {tried.fetch_ms:.0f} ms{ago}, read in {tried.read_ms:.0f} ms"
    )


def _lines(tried: Tried) -> Iterator[str]:
    asked = f", {counted(len(tried.follow), 'request')} of the spider" if tried.follow else ""
    yield f"{counted(len(tried.items), 'item')}, {counted(tried.links, 'link')}{asked}"
    if tried.note:
        yield tried.note
    for name, number in tried.empty.items():
        yield f"empty: {name}" + (f" ({number:,} of {counted(len(tried.items), 'item')})" if tried.items else "")
    for name, number in tried.unconverted.items():
        yield f"not of its type: {name} ({counted(number, 'value')})"
    for name, number in tried.incomplete.items():
        yield f"required, and missing: {name} ({counted(number, 'item')} left out)"
    if tried.cut:
        yield f"cut short: {', '.join(tried.cut)}"
    for flaw in tried.flaws[:SHOWN_ITEMS]:
        yield f"item {flaw['item'] + 1} breaks the contract: {'; '.join(flaw['reasons'])}"
    for each in tried.follow[:SHOWN_REQUESTS]:
        meta = f"  {json_lib.dumps(each['meta'], ensure_ascii=False)}" if each["meta"] else ""
        yield f"  {each['callback'] or 'parse'}  {each['url']}{meta}"
    if len(tried.follow) > SHOWN_REQUESTS:
        yield f"  … and {len(tried.follow) - SHOWN_REQUESTS:,} more; --json has all"


def _empty(spec: JobSpec, items: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """A page without any item is one in which all fields are empty, unless there may be many items."""
    names: Iterable[str] = field_names(spec.fields)
    if not items:
        return {} if spec.each else dict.fromkeys(names, 1)
    if spec.spider or not names:
        names = dict.fromkeys(name for item in items for name in item)
    counts = {name: sum(item.get(name) in (None, "", [], {}) for item in items) for name in names}
    return {name: count for name, count in counts.items() if count}


def _asked(found: Findings, url: str) -> Iterator[dict[str, Any]]:
    base = Base(url).rebase(found.base) if found.base else Base(url)
    for each in found.requests:
        yield _record(each, base)


def _record(request: FollowUp, base: Base) -> dict[str, Any]:
    return {
        "url": str(base.join(request.url) or request.url),
        "callback": request.callback,
        "depth": request.depth,
        "meta": json_lib.loads(request.meta) if request.meta else {},
    }


def _note(spec: JobSpec, page: PageRow, found: Findings) -> str:
    kind = page.content_type.partition(";")[0].strip().lower()
    if not spec.takes_items:
        return "nothing was asked for: add --field title=h1, --take markdown or --spider NAME"
    if found.items or found.failed or found.requests or spec.spider:
        return ""
    if found.unreadable:
        return f"{kind}, and no JSON that can be read: look at it in a browser, or leave such pages out with --deny"
    if is_json(kind) and extractor_of(spec.extraction).reads_json:
        return "--each has found nothing in this JSON answer" if spec.each else "nothing was found in this JSON answer"
    if is_json(kind):
        return "a JSON answer: take from it with --field name=json:items[0].name, or --each json:items"
    if kind not in HTML_TYPES:
        return f"nothing is taken from {kind or 'an answer without a type'}: fields are for HTML, and json: for JSON"
    return "--each has found nothing on this page" if spec.each else "nothing was found on this page"
