"""Where a job goes from a page: its links, or the target of a redirect.

The worker that fetched a page asks this, and so does whoever rebuilds the frontier from bodies that were kept: the same
page leads to the same places.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from shoal.core.model import Candidate
from shoal.core.scope import Scope
from shoal.core.spec import JobSpec
from shoal.core.url import Base, Url
from shoal.extract.apart import find_apart
from shoal.extract.directives import SILENT, Directives, read_directives
from shoal.extract.document import is_json
from shoal.extract.extractor import extractor_of
from shoal.extract.findings import Findings, Wanted, find
from shoal.extract.links import Links, SortedOut, finish
from shoal.extract.page import HTML_TYPES
from shoal.fetch.port import Response

Onward = Generator[None, None, SortedOut]

UNHURRIED = 10
"""Of pages that are read again nobody waits for a millisecond: a process for each would take longer than most."""


@dataclass(frozen=True, slots=True)
class Trail:
    """A job's rules for going on."""

    spec: JobSpec
    links: Links

    @classmethod
    def of(cls, spec: JobSpec) -> Trail:
        return cls(spec, Links(Scope.of(spec.hosts if spec.follow else (), spec.allow, spec.deny)))

    @property
    def heeds_directives(self) -> bool:
        """Does it matter what a page says to robots about itself?"""
        return self.spec.nofollow or self.spec.noindex

    def follows_from(self, depth: int) -> bool:
        """Are links of a page at this depth wanted?"""
        return self.spec.follow and (self.spec.depth is None or depth < self.spec.depth)

    def wanted(
        self,
        url: Url,
        depth: int,
        media_type: str,
        charset: str,
        extraction: str = "",
        require: str | None = None,
    ) -> Wanted | None:
        """What is to be read of a page, if it is one that can have links or values, and if anything is."""
        links = self.follows_from(depth)
        if is_json(media_type):
            reads = bool(extraction) and extractor_of(extraction).reads_json
            drop_tracking = self.spec.drop_tracking
            return Wanted(str(url), charset, drop_tracking, extraction=extraction, json=True) if reads else None
        if media_type not in HTML_TYPES or not (links or extraction or self.heeds_directives or require is not None):
            return None
        spec = self.spec
        return Wanted(
            str(url),
            charset,
            spec.drop_tracking,
            links,
            spec.nofollow,
            directives=self.heeds_directives,
            extraction=extraction,
            require=require,
        )

    def directives(self, response: Response, findings: Findings) -> Directives:
        """What the page says to robots about itself, as far as that matters."""
        return read_directives(response.headers, findings.metas) if self.heeds_directives else SILENT

    def onward(self, url: Url, depth: int, findings: Findings, base: Base, says: Directives) -> Onward:
        """What the links of a page at this depth come to, step by step."""
        if self.spec.nofollow and says.nofollow:
            return SortedOut([], 0)
        rebased = bool(findings.base)
        return (yield from self.links.sort_stepwise(url, base, findings.hrefs, depth + 1, rebased=rebased))

    def again(self, depth: int, response: Response) -> tuple[list[Candidate], int]:
        """(candidates that are new to this process, number of the others) of a body that was kept."""
        if not self.follows_from(depth):
            return [], 0
        body = response.unpacked(self.spec.max_body)
        wanted = self.wanted(response.url, depth, response.media_type, response.charset(body))
        if not body or wanted is None:
            return [], 0
        findings = find(body, wanted) if wanted.is_light(body, scale=UNHURRIED) else find_apart(body, wanted)
        base = wanted.base_with(findings.base)
        found = finish(self.onward(response.url, depth, findings, base, self.directives(response, findings)))
        return found.candidates, found.duplicates
