"""The regular pages: home, category listings, authors and books.

Every book is linked from its category and its author; related links use each disguise in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.site import markup, words
from tests.site.catalogue import SHELF, Book, author_path, category_path
from tests.site.disguise import FORMS, disguise
from tests.site.markup import link
from tests.site.reply import Reply, page
from tests.site.routes import Fate, Route, Routes

FORMER = 20  # each twentieth book has an old address


def add_shelves(routes: Routes, books: Sequence[Book]) -> None:
    _add_home(routes, books)
    for name in words.CATEGORIES:
        _add_category(routes, name, [book for book in books if book.category == name])
    for author in sorted({book.author for book in books}):
        _add_author(routes, author, [book for book in books if book.author == author])
    for book in books:
        _add_book(routes, book, books)


def _add_home(routes: Routes, books: Sequence[Book]) -> None:
    categories = markup.bullets(link(category_path(name), name) for name in words.CATEGORIES)
    # One book in every disguise, so that the home page alone shows whether a crawler canonicalises.
    star = markup.bullets(
        link(disguise(routes.origin, books[0].path, turn), books[0].title) for turn in range(len(FORMS))
    )
    corners = markup.bullets([link("/corners", "Odd corners of the shop")])
    content = f"<h2>Shelves</h2>\n{categories}<h2>Book of the month</h2>\n{star}{corners}"
    routes.page("/", words.SHOP, content)


def _add_category(routes: Routes, name: str, books: Sequence[Book]) -> None:
    last = -(-len(books) // SHELF)
    for number in range(1, last + 1):
        shown = books[(number - 1) * SHELF : number * SHELF]
        cards = markup.bullets((link(book.path, book.title) for book in shown), "cards")
        others = [other for other in range(1, last + 1) if other != number]
        pager = markup.bullets((_pager_link(routes, name, other, number) for other in others), "pager")
        heading = name if number == 1 else f"{name}, page {number}"
        routes.page(category_path(name, number), heading, cards + pager)


def _pager_link(routes: Routes, name: str, to: int, seen_from: int) -> str:
    return link(disguise(routes.origin, category_path(name, to), to + 3 * seen_from), f"Page {to}")


def _add_author(routes: Routes, author: str, books: Sequence[Book]) -> None:
    shown = markup.bullets(link(book.path, book.title) for book in books)
    routes.page(author_path(author), author, shown)


def _add_book(routes: Routes, book: Book, books: Sequence[Book]) -> None:
    related = markup.bullets(_related_links(routes, book, books), "related")
    text = markup.document(book.title, markup.book_content(book, related))
    routes.add(book.path, Route(Fate.PAGE, (page(text),), book.title))
    routes.add(book.cover, Route(Fate.UNLINKED, (_cover(book),)))
    if book.number % FORMER == 0:
        # An absolute Location and a relative one are both legal; alternate between them.
        prefix = routes.origin if book.number % (2 * FORMER) else ""
        routes.redirect(book.old_path, prefix + book.path, status=301)


def _related_links(routes: Routes, book: Book, books: Sequence[Book]) -> list[str]:
    others = [books[(book.number * step + step) % len(books)] for step in (3, 7, 11, 13)]
    found = [
        link(disguise(routes.origin, other.path, book.number + turn), other.title)
        for turn, other in enumerate(others)
        if other is not book
    ]
    following = books[book.number % len(books)]
    if following.number % FORMER == 0:
        found.append(link(following.old_path, f"{following.title} (previous edition)"))
    return found


def _cover(book: Book) -> Reply:
    return Reply(200, (("Content-Type", "image/svg+xml"),), markup.cover_svg(book).encode())
