"""Where a job goes from a page: its links, or the target of a redirect.

The worker that fetched a page asks this, and so does whoever rebuilds the frontier from bodies that were kept: the same
page leads to the same places.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.core.model import Candidate
from shoal.core.scope import Scope
from shoal.core.spec import JobSpec
from shoal.core.url import Base, Url
from shoal.extract.directives import SILENT, Directives, read_directives
from shoal.extract.links import Links
from shoal.extract.page import HTML_TYPES, Html
from shoal.fetch.port import Response


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

    def parse(self, url: Url, response: Response, body: bytes, charset: str) -> Html | None:
        """The page, if it is one that can have links."""
        if response.media_type not in HTML_TYPES or not body:
            return None
        return Html.parse(body, charset, Base(str(url), drop_tracking=self.spec.drop_tracking))

    def directives(self, response: Response, html: Html | None) -> Directives:
        """What the page says to robots about itself, as far as that matters."""
        return read_directives(response.headers, html) if self.heeds_directives else SILENT

    def onward(self, url: Url, depth: int, html: Html, says: Directives) -> tuple[list[Candidate], int]:
        """(candidates that are new to this process, number of the others) of a page at this depth."""
        if not self.follows_from(depth) or (self.spec.nofollow and says.nofollow):
            return [], 0
        hrefs = html.hrefs(skip_nofollow=self.spec.nofollow)
        return self.links.sort_out(url, html.base, hrefs, depth + 1, rebased=html.rebased)

    def again(self, depth: int, response: Response) -> tuple[list[Candidate], int]:
        """The same for a body that was kept."""
        if not self.follows_from(depth):
            return [], 0
        body = response.unpacked(self.spec.max_body)
        html = self.parse(response.url, response, body, response.charset(body))
        return ([], 0) if html is None else self.onward(response.url, depth, html, self.directives(response, html))
