"""The stock of the shop: a tuple of `Book`s, fixed by the seed, in which slugs are unique.

Every page, link and expected fact about books is derived from this one table.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from tests.site import words

BOOKS = 200
SHELF = 6  # books on one page of a category listing


@dataclass(frozen=True, slots=True)
class Book:
    """One book, with exactly the values that its page shows."""

    number: int
    title: str
    author: str
    category: str
    price: str
    copies: int
    tags: tuple[str, ...]
    description: str

    @property
    def path(self) -> str:
        return f"/books/{slug(self.title)}"

    @property
    def old_path(self) -> str:
        return f"/old/book-{self.number}"

    @property
    def cover(self) -> str:
        return f"/covers/{self.number}.svg"

    @property
    def stock(self) -> str:
        return f"In stock ({self.copies} available)" if self.copies else "Out of stock"


def slug(text: str) -> str:
    bare = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", bare.replace("'", "")).strip("-")


def category_path(name: str, number: int = 1) -> str:
    """The listing page `number`; its parameters are in sorted, that is canonical, order."""
    base = f"/category/{slug(name)}"
    return base if number == 1 else f"{base}?page={number}&sort=title"


def author_path(name: str) -> str:
    return f"/author/{slug(name)}"


@lru_cache(maxsize=8)
def catalogue(seed: int) -> tuple[Book, ...]:
    random = Random(seed)
    authors = _authors()
    titles = _titles(random)
    random.shuffle(authors)
    return tuple(
        _book(random, number, title, authors[number % len(authors)]) for number, title in enumerate(titles, start=1)
    )


def _authors() -> list[str]:
    return [f"{first} {last}" for first in words.FIRST_NAMES for last in words.LAST_NAMES]


def _titles(random: Random) -> list[str]:
    """Distinct by slug, since the slug is the address."""
    titles: dict[str, str] = {}
    while len(titles) < BOOKS:
        title = _title(random)
        titles.setdefault(slug(title), title)
    return list(titles.values())


def _title(random: Random) -> str:
    first, second = random.sample(words.NOUNS, 2)
    adjective, place = random.choice(words.ADJECTIVES), random.choice(words.PLACES)
    patterns = (
        f"The {adjective} {first}",
        f"The {first} of {place}",
        f"{first} & {second}",
        f"{adjective} {first}, {adjective} {second}",
    )
    return random.choice(patterns)


def _book(random: Random, number: int, title: str, author: str) -> Book:
    return Book(
        number=number,
        title=title,
        author=author,
        category=words.CATEGORIES[number % len(words.CATEGORIES)],
        price=f"£{random.randint(4, 39)}.{random.choice((0, 49, 50, 95, 99)):02d}",
        copies=random.choice((0, 1, 2, 3, 5, 8, 13)),
        tags=tuple(sorted(random.sample(words.TAGS, random.randint(2, 4)))),
        description=_description(random),
    )


def _description(random: Random) -> str:
    parts = (words.OPENINGS, words.MIDDLES, words.ENDINGS)
    return " ".join(" ".join(random.choice(part) for part in parts) for _ in range(4))
