"""Where a job goes from a page: its links, or the target of a redirect.

The worker that fetched a page asks this, and so does whoever rebuilds the frontier from bodies that were kept: the same
page leads to the same places.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import field, replace
from itertools import repeat

from shoal.core.frozen import frozen
from shoal.core.model import Candidate, Level, Request
from shoal.core.scope import Scope
from shoal.core.sitemaps import within_budget
from shoal.core.spec import JobSpec
from shoal.core.url import Base, Url
from shoal.extract.brief import Brief, header_lines
from shoal.extract.companion import Companion
from shoal.extract.directives import SILENT, Directives, read_directives
from shoal.extract.document import is_json
from shoal.extract.extractor import extractor_of
from shoal.extract.findings import Findings, Wanted, find_light
from shoal.extract.links import Links, SortedOut, finish
from shoal.extract.listing import name_of
from shoal.extract.page import HTML_TYPES
from shoal.fetch.port import Response

Onward = Generator[None, None, SortedOut]

UNHURRIED = 10
"""Of pages that are read again nobody waits for a millisecond: a process for each would take longer than most."""


@frozen
class Sighting:
    """A page that was named somewhere."""

    url: Url
    source: str
    """Where: in a `sitemap`, in a `feed`, or in a `link`."""
    date: str = ""
    """When it was last changed, as a listing says."""


@frozen
class Trail:
    """A job's rules for going on."""

    spec: JobSpec
    links: Links
    companion: Companion = field(default_factory=Companion)
    """In which stored pages are read that are not read in place."""

    @classmethod
    def of(cls, spec: JobSpec, companion: Companion | None = None) -> Trail:
        scope = Scope.of(spec.hosts if spec.goes_on else (), spec.allow, spec.deny)
        remembers = spec.duplicates is None or spec.duplicates.follow
        links = Links(scope, forgiving=bool(spec.sitemaps or spec.next), remembers=remembers)
        return cls(spec, links, companion or Companion())

    @property
    def heeds_directives(self) -> bool:
        """Does it matter what a page says to robots about itself?"""
        return self.spec.nofollow or self.spec.noindex

    def follows_from(self, depth: int) -> bool:
        """Are links of a page at this depth wanted?"""
        return self.spec.follow and (bool(self.spec.spider) or self._goes_deeper(depth))

    def lists_from(self, depth: int) -> bool:
        """Are entries of a sitemap or feed at this depth wanted? Also without links, where sitemaps are asked for."""
        return (self.spec.follow or bool(self.spec.sitemaps)) and self._goes_deeper(depth)

    def goes_on_from(self, depth: int) -> bool:
        """Can a page at this depth lead anywhere?"""
        return bool(self.spec.next) or self.follows_from(depth) or self.lists_from(depth)

    def _goes_deeper(self, depth: int) -> bool:
        return self.spec.depth is None or depth < self.spec.depth

    def wanted(
        self,
        url: Url,
        depth: int,
        media_type: str,
        charset: str,
        extraction: str = "",
        require: str | None = None,
        listing: str = "",
        *,
        likeness: bool = False,
        noise: str = "",
    ) -> Wanted | None:
        """What is to be read of a page, if it is one that can have links or values, and if anything is.

        With the rules of a digest, `noise`, something is of every page.
        """
        spec, extractor = self.spec, extractor_of(extraction)
        markup = media_type in HTML_TYPES
        if listing and (spec.sitemaps or not extractor.spider):
            found = Wanted(str(url), charset, spec.drop_tracking, self.lists_from(depth), listing=listing)
            return replace(found, since_ms=spec.since_ms, noise=noise, media_type=media_type)
        json = is_json(media_type) and extractor.reads_json
        if not (markup or json or extractor.spider or noise):
            return None
        links = self.follows_from(depth) and markup and not spec.spider
        asked = links or extraction or self.heeds_directives or likeness or require is not None or spec.next or noise
        if not asked:
            return None
        return Wanted(
            str(url),
            charset,
            spec.drop_tracking,
            links and markup,
            spec.nofollow,
            directives=self.heeds_directives,
            extraction=extraction,
            likeness=likeness and markup,
            require=require,
            next=spec.next,
            json=json,
            markup=markup,
            noise=noise,
            media_type=media_type,
            prose=markup and not listing,
        )

    def _wanted_of(self, request: Request, response: Response, body: bytes) -> Wanted | None:
        """What is to be read of a body that was kept, for the sake of where it leads to."""
        media_type, spec = response.media_type, self.spec
        listing, extraction = name_of(body, media_type), spec.extraction if spec.spider else ""
        charset = response.charset(body)
        wanted = self.wanted(response.url, request.depth, media_type, charset, extraction, listing=listing)
        return wanted and self.briefed(wanted, request, response)

    def briefed(self, wanted: Wanted, request: Request, response: Response) -> Wanted:
        """With what the job's spider is to know of the page, if it has one."""
        if not wanted.extractor.spider:
            return wanted
        brief = Brief(response.status, header_lines(response.headers), request.depth, request.callback, request.meta)
        return replace(wanted, brief=brief.pack())

    def directives(self, response: Response, findings: Findings) -> Directives:
        """What the page says to robots about itself, as far as that matters."""
        return read_directives(response.headers, findings.metas) if self.heeds_directives else SILENT

    def from_depth(self, depth: int, findings: Findings) -> Findings:
        """What was found in a page, as if it had been read at this depth: an earlier job may have gone further."""
        if findings.kind:
            return findings if self.lists_from(depth) else replace(findings, hrefs=(), further=(), stale=())
        return findings if self.follows_from(depth) else replace(findings, hrefs=())

    def onward(self, url: Url, depth: int, findings: Findings, base: Base, says: Directives) -> Onward:
        """What the links of a page at this depth come to, step by step."""
        if self.spec.nofollow and says.nofollow:
            return SortedOut([], 0)
        rebased = bool(findings.base)
        level = Level.NORMAL if depth else Level.FIRST
        more: list[Candidate] = []
        if findings.further:
            more = yield from self.links.further(url, base, findings.further, depth, level, listed=bool(findings.kind))
            more = within_budget(self.spec, more) if findings.kind == "index" else more
        if self.spec.spider and not findings.kind:
            found = yield from self.links.sort_requests(url, base, findings.requests, self.spec.depth)
        else:
            found = yield from self.links.sort_stepwise(url, base, findings.hrefs, depth + 1, rebased=rebased)
        if not more and not findings.stale:
            return found
        stale = yield from self.links.stale(base, findings.stale)
        return SortedOut([*more, *found.candidates, *stale], found.duplicates, found.cut)

    def again(self, request: Request, response: Response) -> tuple[list[Candidate], int]:
        """(candidates that are new to this process, number of the others) of a body that was kept."""
        depth, read = request.depth, self._read_again(request, response)
        if read is None:
            return [], 0
        findings, base = read
        found = finish(self.onward(response.url, depth, findings, base, self.directives(response, findings)))
        return found.candidates, found.duplicates

    def sightings(self, depth: int, response: Response) -> Iterator[Sighting]:
        """The pages that a body names, and that are within the job's bounds."""
        read = self._read_again(Request(response.url, depth), response)
        if read is None:
            return
        findings, base = read
        source = ("feed" if findings.kind == "feed" else "sitemap") if findings.kind else "link"
        dates = findings.dates or repeat("")
        for href, date in zip(findings.hrefs, dates, strict=False):
            if (url := base.join(href)) is not None and not self.links.refuses(url):
                yield Sighting(url, source, date)
        for href in () if findings.kind else findings.further:
            if (url := base.join(href)) is not None and not self.links.refuses(url):
                yield Sighting(url, source)

    def _read_again(self, request: Request, response: Response) -> tuple[Findings, Base] | None:
        """What is in a body that was kept; None when it leads nowhere."""
        if not self.goes_on_from(request.depth):
            return None
        body = response.unpacked(self.spec.max_body)
        wanted = self._wanted_of(request, response, body)
        if not body or wanted is None:
            return None
        findings = find_light(body, wanted, scale=UNHURRIED) or self.companion.find(body, wanted)
        return findings, wanted.base_with(findings.base)
