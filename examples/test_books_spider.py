"""Tests of the spider next door, on pages as the shop has them: no network, no workers."""

from __future__ import annotations

from pathlib import Path

from examples.books_spider import Books
from shoal import Follow
from shoal.testing import page_from_file, run_spider

SHELF = """<ul class="cards"><li><a href="/books/a">A</a></li><li><a href="/books/b">B</a></li></ul>
<ul class="pager"><li><a href="?page=2">Page 2</a></li></ul>"""
BOOK = '<h1>The  Estuary</h1><p class="price">£25.90</p><span class="tag">sea</span><span class="tag">maps</span>'
META = {"shelf": "Poetry", "number": 1}


def test_a_shelf_leads_to_its_books_first_and_to_its_other_pages(tmp_path: Path) -> None:
    saved = tmp_path / "shelf.html"
    saved.write_text(SHELF, encoding="utf-8")
    page = page_from_file(saved, url="https://books.example/category/poetry", callback="shelf", meta=META, depth=1)
    assert run_spider(Books, page).requests == [
        Follow("https://books.example/books/a", "parse", "first", 2, META),
        Follow("https://books.example/books/b", "parse", "first", 2, META),
        Follow("https://books.example/category/poetry?page=2", "shelf", "normal", 1, {"shelf": "Poetry", "number": 2}),
    ]


def test_a_book_has_its_price_as_a_number(tmp_path: Path) -> None:
    saved = tmp_path / "book.html"
    saved.write_text(BOOK, encoding="utf-8")
    page = page_from_file(saved, url="https://books.example/books/a", callback="parse", meta=META)
    (book,) = run_spider("books", page).items
    assert book == {
        "title": "The Estuary",
        "price": 25.9,
        "tags": ["sea", "maps"],
        "shelf": "Poetry",
        "found_on_page": 1,
    }
