"""How a URL came to its job: submitted, or found on which page; and whether its dead letter was tried again."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.core.explanation import Step
from shoal.core.frozen import frozen
from shoal.core.model import Request
from shoal.core.sitemaps import ROBOTS
from shoal.core.url import Url
from shoal.store.page_rows import DeadLetter, PageRow
from shoal.store.traces import Naming, Traces


@frozen
class Facts:
    """What is known of a request, wherever it is."""

    depth: int
    hops: int
    found_on: int | None
    callback: str = ""

    @classmethod
    def of(cls, known: PageRow | DeadLetter | Request) -> Facts:
        hops = 0 if isinstance(known, DeadLetter) else known.hops
        return cls(known.depth, hops, known.found_on, known.callback)


def origin_steps(traces: Traces, job: str, url: Url, facts: Facts | None) -> Iterator[Step]:
    """The beginning of its way; nothing when there is no trace of one."""
    if facts is not None and facts.found_on is not None:
        yield _found_step(traces, job, url, facts, facts.found_on)
    elif naming := traces.named(job, url):
        yield submitted_step(naming)
    elif facts is not None:
        told = f"found at depth {facts.depth}; on which page is not known"
        yield Step("found", told, detail={"depth": facts.depth, "page": None})
    if naming := traces.replayed(job, url):
        told = "its dead letter was taken out, to be tried once more"
        yield Step("replayed", told, naming.created_ms, {"submission": naming.id, "admitted": naming.admitted})


def submitted_step(naming: Naming) -> Step:
    more = naming.count - 1
    others = f"with {more:,} other{'s' if more > 1 else ''}" if more else "alone"
    waits = "" if naming.admitted else "; the frontier may not have it yet"
    told = f"submitted {others}, in submission {naming.id}{waits}"
    return Step(
        "submitted",
        told,
        naming.created_ms,
        {"submission": naming.id, "urls": naming.count, "admitted": naming.admitted},
    )


def _found_step(traces: Traces, job: str, url: Url, facts: Facts, found_on: int) -> Step:
    page, way, at_ms = _page_behind(traces, job, url, facts, found_on)
    called = f", for the spider's callback {facts.callback}" if facts.callback else ""
    told = f"{way} {page or 'a page that is not stored (any more)'} at depth {facts.depth}{called}"
    return Step("found", told, at_ms, {"page": page, "depth": facts.depth, "hops": facts.hops})


def _page_behind(traces: Traces, job: str, url: Url, facts: Facts, found_on: int) -> tuple[str | None, str, int | None]:
    """(its URL, how it led here, when it was fetched)"""
    if page := traces.page(job, found_on):
        return page.url, "redirected from" if page.redirect else "found on", page.fetched_ms
    if letter := traces.letter(job, found_on):  # one that is not to be kept, and whose links are followed
        return letter.url, "found on", letter.at_ms
    for robots in (Url(scheme, url.host, ROBOTS) for scheme in ("https", "http")):
        if robots.fingerprint == found_on:
            return str(robots), "a sitemap that was announced by, or looked for beside,", None
    return None, "redirected from" if facts.hops else "found on", None
