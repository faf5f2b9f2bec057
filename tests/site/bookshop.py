"""A deterministic bookshop of about 300 pages, pleasant to people and awkward for crawlers.

A `Bookshop` is a routing table built once from its seed and its own address; answering is a lookup.
Any spelling of an address gets the answer of its canonical one, as on most real servers, so a crawler
which does not canonicalise is not punished with errors but finds too many pages.
"""

from __future__ import annotations

from tests.site.catalogue import Book, catalogue
from tests.site.corners import EXTERNAL, add_corners
from tests.site.disguise import canonical
from tests.site.facts import Facts, facts_of
from tests.site.reply import NOT_FOUND, Reply, nth
from tests.site.routes import Routes
from tests.site.shelves import add_shelves

__all__ = ["Book", "Bookshop", "Facts", "Reply"]


class Bookshop:
    """The site as served at `origin` (scheme, host and port without a trailing slash)."""

    def __init__(self, seed: int = 1, *, origin: str = "http://bookshop.invalid", slow_seconds: float = 1.0) -> None:
        self.seed = seed
        self.origin = origin
        self.slow_seconds = slow_seconds
        self.books: tuple[Book, ...] = catalogue(seed)
        routes = Routes(origin)
        add_shelves(routes, self.books)
        add_corners(routes, slow_seconds)
        self._table = routes.table

    def at(self, origin: str) -> Bookshop:
        """The same shop, with its absolute links pointing to `origin`."""
        return Bookshop(self.seed, origin=origin, slow_seconds=self.slow_seconds)

    def respond(self, path_and_query: str, hits: int) -> Reply:
        route = self._table.get(path_and_query) or self._table.get(canonical(path_and_query))
        return nth(route.replies, hits) if route else NOT_FOUND

    def facts(self) -> Facts:
        book_pages = frozenset(book.path for book in self.books)
        return facts_of(self._table, book_pages, frozenset(EXTERNAL))
