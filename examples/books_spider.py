"""A spider for a bookshop: shelves with pages, books, and on each book the shelf that it was found on.

SHOAL_SPIDERS=examples/books_spider.py shoal crawl https://books.example/ --spider books -o books.jsonl
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import shoal


@dataclass(frozen=True)
class Book:
    """One row of the results."""

    title: str
    price: float
    tags: list[str]
    shelf: str
    found_on_page: int


@shoal.spider("books")
class Books:
    """All books of the shop, with their shelves."""

    def start(self, page: shoal.Page) -> Iterator[shoal.Follow]:
        """The front page: on to the shelves, or to the one that the job names (`params: {shelf: Poetry}`)."""
        only = page.params.get("shelf")
        for link in page.css("main > ul:first-of-type a"):
            if only in (None, link.text):
                yield shoal.Follow(link.attr("href", ""), "shelf", meta={"shelf": link.text, "number": 1})

    def shelf(self, page: shoal.Page) -> Iterator[shoal.Follow]:
        """A page of a shelf: its books, and its other pages, which are no deeper."""
        for card in page.css(".cards a"):
            yield shoal.Follow(card.attr("href", ""), "parse", priority="first", meta=page.meta)
        for link in page.css(".pager a"):
            number = int(link.text.removeprefix("Page "))
            yield shoal.Follow(link.attr("href", ""), "shelf", depth=page.depth, meta={**page.meta, "number": number})

    def parse(self, page: shoal.Page) -> Iterator[Book]:
        """A book."""
        price = page.xpath("//p[@class='price']/text()").text
        yield Book(
            title=page.css("h1").text,
            price=float(price.lstrip("£$€ ")),
            tags=page.css(".tag").texts,
            shelf=page.meta["shelf"],
            found_on_page=page.meta["number"],
        )
