"""What a correct, polite crawl of the bookshop from `/` finds: the routing table, grouped by fate.

All targets are canonical paths with their query. Pages that only nofollow links reach are kept apart,
because whether to follow those is the crawler's policy and not a matter of correctness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tests.site.routes import Fate, Route


@dataclass(frozen=True, slots=True)
class Facts:
    """Sets and mappings of targets; `pages`, `redirects`, `loops`, ... do not overlap."""

    pages: frozenset[str]  # HTML, answered with 200 in the end
    headings: Mapping[str, str]  # page -> the text of its h1
    books: int
    book_pages: frozenset[str]
    flaky: frozenset[str]  # those pages which fail at first
    slow: frozenset[str]  # those pages which take their time
    files: Mapping[str, str]  # linked, not HTML -> content type
    redirects: Mapping[str, str]  # -> the next hop
    loops: frozenset[str]
    leaving: Mapping[str, str]  # redirect -> address on another host
    dead: Mapping[str, str]  # -> "404", "410", "500" or "dropped"
    blocked: frozenset[str]  # linked or redirected to, and disallowed by robots.txt
    nofollow: frozenset[str]  # reachable through rel=nofollow links only
    external: frozenset[str]  # addresses on other hosts which pages link to

    @property
    def requests(self) -> frozenset[str]:
        """Every target such a crawl asks for, apart from /robots.txt; nothing else may be asked for."""
        return self.pages.union(self.files, self.redirects, self.loops, self.leaving, self.dead)


def facts_of(table: Mapping[str, Route], book_pages: frozenset[str], external: frozenset[str]) -> Facts:
    pages = {target: route for target, route in table.items() if route.fate is Fate.PAGE}
    return Facts(
        pages=frozenset(pages),
        headings=MappingProxyType({target: route.heading for target, route in pages.items()}),
        books=len(book_pages),
        book_pages=book_pages,
        flaky=frozenset(target for target, route in pages.items() if route.replies[0].status != 200),
        slow=frozenset(target for target, route in pages.items() if route.replies[0].delay),
        files=_details(table, Fate.FILE),
        redirects=_details(table, Fate.REDIRECT),
        loops=frozenset(_details(table, Fate.LOOP)),
        leaving=_details(table, Fate.LEAVING),
        dead=_details(table, Fate.DEAD),
        blocked=frozenset(_details(table, Fate.BLOCKED)),
        nofollow=frozenset(_details(table, Fate.NOFOLLOW)),
        external=external,
    )


def _details(table: Mapping[str, Route], fate: Fate) -> Mapping[str, str]:
    return MappingProxyType({target: route.detail for target, route in table.items() if route.fate is fate})
