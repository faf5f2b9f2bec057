"""What a job can say about sitemaps, and which of its requests are about them.

Where a job asks for the sitemaps of its start hosts, `/robots.txt` of each is a request like any other: admitted once,
durable, retried. It is answered with what all workers know of that robots.txt, and leads to the sitemaps that it
announces, or to `/sitemap.xml`, which need not be there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from shoal.core.model import Candidate, Engine, Rejected, Request
from shoal.core.robots import Robots
from shoal.core.url import Url, parse
from shoal.core.values import read_moment

if TYPE_CHECKING:
    from shoal.core.spec import JobSpec

ROBOTS = "/robots.txt"
GUESS = "/sitemap.xml"
"""Where a sitemap is looked for when nobody says where it is."""
_WORDS = {"true": True, "false": False}
_PLAIN = (".xml", ".xml.gz", ".txt.gz", ".rss", ".atom", ".rdf")
"""Ends of paths that no browser is needed for, or could show as they are."""


def _one_or_many(value: object) -> object:
    return _WORDS.get(value.strip().lower(), (value,)) if isinstance(value, str) else value


def _read_since(value: object) -> object:
    """As it is written, if it can be understood; YAML makes a date of what looks like one."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        try:
            _iso(read_moment(value, time.time()))
        except (ValueError, OverflowError):
            raise ValueError("write a date or time, such as 2026-01-01, or an age, such as 7d") from None
    return value


Sitemaps = Annotated[bool | tuple[str, ...], BeforeValidator(_one_or_many)]
Since = Annotated[str, BeforeValidator(_read_since)]


def dated(spec: JobSpec, now_s: float) -> JobSpec:
    """The job with a time in place of an age: whoever reads its sitemaps later draws the same line."""
    if spec.since is None:
        return spec
    return spec.model_copy(update={"since": _iso(read_moment(spec.since, now_s))})


def _iso(moment_ms: int) -> str:
    """Raises what is beyond all years."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")


def asks_robots(spec: JobSpec, request: Request) -> bool:
    """Is this request a question for a host's sitemaps?"""
    return bool(spec.sitemaps) and request.depth == 0 and request.url.target == ROBOTS


def is_guess(spec: JobSpec, request: Request) -> bool:
    """May this be a sitemap that is not there?"""
    return bool(spec.sitemaps) and request.depth == 0 and request.url.target == GUESS and not is_listed(spec, request)


def is_listed(spec: JobSpec, request: Request) -> bool:
    """Has the user named it?"""
    return not isinstance(spec.sitemaps, bool) and str(request.url) in spec.sitemaps


def within_budget(spec: JobSpec, sitemaps: Iterable[Candidate]) -> list[Candidate]:
    """Sitemaps that one document names, with some of the job's `pages` left for the pages in them."""
    if spec.pages is None:
        return list(sitemaps)
    room = _most(spec.pages)
    kept: list[Candidate] = []
    for each in sitemaps:
        room -= isinstance(each, Request)
        kept.append(each if room >= 0 or isinstance(each, Rejected) else Rejected(each.url, "over_budget"))
    return kept


def _most(pages: int) -> int:
    """All but the document itself and a tenth, at least one page."""
    return max(1, pages - 2 - pages // 10)


def announced(robots: Robots, url: Url) -> Iterator[Url]:
    """The sitemaps of the host whose robots.txt this is."""
    if not robots.sitemaps:
        yield Url(url.scheme, url.host, GUESS)
    yield from map(parse, robots.sitemaps)


def is_rendered(spec: JobSpec, request: Request) -> bool:
    """Does this request go to the browser? Sitemaps and feeds do not: a browser would show what is in them."""
    wanted = spec.engine is Engine.BROWSER or request.render
    return wanted and not request.url.target.partition("?")[0].lower().endswith(_PLAIN)
