"""One page tried: what would come out of it, with a real job behind it, and no second request for a second look."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.browsers import browser_path
from tests.command import REPOSITORY, Done, Shoal, a_home
from tests.site.bookshop import Bookshop
from tests.site.server import Server, serve
from tests.site.shop import Shop as Scripted

__all__ = ["browser_path"]

EXAMPLE = REPOSITORY / "examples" / "books_spider.py"
JOB = """
urls: [https://elsewhere.example/]
fields:
  title: h1
  price: {css: .price, type: integer}
  isbn: .no-such-thing
contract:
  schema: {type: object, properties: {isbn: {type: string}}}
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """The bookshop, and the command."""

    shoal: Shoal
    site: Server

    def attempt(self, path: str, *options: str) -> Done:
        return self.shoal.run("try", self.site.link(path), *options)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[Shop]:
    with a_home(tmp_path_factory.mktemp("try")) as shoal, serve(Bookshop(slow_seconds=0.2)) as site:
        yield Shop(replace(shoal, extra=(("SHOAL_SPIDERS", str(EXAMPLE)),)), site)


@pytest.fixture(scope="module")
def book(shop: Shop) -> str:
    """The path of one that any of the site's pages tells of."""
    return next(iter(Bookshop(slow_seconds=0.2).books)).path


def test_fields_are_shown_and_a_second_try_with_others_asks_for_nothing(shop: Shop, book: str, tmp_path: Path) -> None:
    first = shop.attempt(book, "--field", "title=h1", "--field", "price:money=.price", "--field", "isbn=.nothing")
    assert first.code == 0, first.err
    item = json.loads(first.out)
    assert item["title"]
    assert item["price"]["currency"] == "GBP"
    assert "1 item, " in first.err
    assert "empty: isbn (1 of 1 item)" in first.err
    assert "200, text/html" in first.err
    asked = len(shop.site.hits)
    second = shop.attempt(book, "--field", "tags[]=.tag", "--field", "title=//h1", "--json")
    assert second.code == 0, second.err
    assert second.json["items"][0]["title"] == item["title"]
    assert second.json["stored"]
    assert second.json["links"] > 1
    assert second.json["read_ms"] < 1000
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    third = shop.attempt(book, "-j", str(job))
    assert third.code == 0, third.err
    assert "not of its type: price (1 value)" in third.err
    assert 'item 1 breaks the contract: isbn: null is not of type "string"' in third.err
    assert "ago (--fresh: anew)" in third.err
    assert len(shop.site.hits) == asked, "nothing was fetched again"
    fresh = shop.attempt(book, "--field", "title=h1", "--fresh", "--json")
    assert not fresh.json["stored"]
    assert len(shop.site.hits) > asked


def test_each_and_content_are_shown(shop: Shop, book: str) -> None:
    cards = shop.attempt(
        "/", "--each", "main > ul:first-of-type a", "--field", "name=.", "--field", "to=@href", "--json"
    )
    assert cards.code == 0, cards.err
    assert len(cards.json["items"]) > 1
    none = shop.attempt("/", "--each", ".no-such-card", "--field", "name=.")
    assert none.code == 0
    assert "--each has found nothing on this page" in none.err
    text = shop.attempt(book, "--take", "markdown", "--json")
    assert text.json["items"][0]["markdown"]
    nothing = shop.attempt(book)
    assert "nothing was asked for: add --field title=h1" in nothing.err


def test_a_spider_shows_its_items_and_what_it_would_follow(shop: Shop, book: str) -> None:
    front = shop.attempt("/", "--spider", "books", "--json")
    assert front.code == 0, front.err
    assert {each["callback"] for each in front.json["follow"]} == {"shelf"}
    assert all(each["url"].startswith(shop.site.url) and each["meta"]["shelf"] for each in front.json["follow"])
    shown = shop.attempt("/", "--spider", "books")
    assert "  shelf  http://" in shown.err
    detail = shop.attempt(
        book, "--spider", "books", "--callback", "parse", "--meta", "shelf=Poetry", "--meta", "number=1"
    )
    assert detail.code == 0, detail.err
    assert json.loads(detail.out)["shelf"] == "Poetry"
    failing = shop.attempt(book, "--spider", "books", "--callback", "parse")
    assert failing.code == 1
    assert "the spider failed: KeyError: 'shelf' (books_spider.py, line" in failing.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--field", "a=:nth("), "a"),
        (("--spider", "nobody"), "there is no spider 'nobody': registered: books"),
        (("--spider", "books", "--callback", "nothing"), "has no callback 'nothing'; there are parse, shelf, start"),
        (("--callback", "parse"), "are for a spider"),
    ],
)
def test_what_cannot_be_tried_is_said_before_anything_is_fetched(
    shop: Shop, options: tuple[str, ...], told: str
) -> None:
    asked = len(shop.site.hits)
    done = shop.attempt("/about", *options)
    assert done.code == 2
    assert told in done.err
    assert len(shop.site.hits) == asked


def test_a_page_that_does_not_come_is_explained(shop: Shop) -> None:
    lost = shop.attempt("/no-such-page", "--field", "a=h1")
    assert lost.code == 1
    assert "was not fetched: http_404" in lost.err
    assert "check the address" in lost.err
    refused = shop.attempt("/private/", "--field", "a=h1")
    assert refused.code == 1
    assert "--no-robots" in refused.err


def test_what_is_not_markup_is_explained(shop: Shop) -> None:
    plain = shop.attempt("/robots.txt", "--field", "a=h1")
    assert plain.code == 0, plain.err
    assert "nothing is taken from text/plain" in plain.err


@pytest.mark.usefixtures("browser_path")
def test_a_page_that_scripts_make_is_tried_in_a_browser(shop: Shop) -> None:
    """With the document as it was rendered, and without a second visit for a second look."""
    fields = ("--field", "cards[]=.card h2", "--field", "links[]=a@href", "--no-robots", "--json")
    with serve(Scripted()) as site:
        url = site.link("/products?page=1")
        bare = shop.shoal.run("try", url, *fields)
        assert bare.code == 0, bare.err
        rendered = shop.shoal.run("try", url, "--browser", "--wait", "idle", *fields)
        assert rendered.code == 0, rendered.err
        assert not rendered.json["stored"], "what came without a browser is another page"
        products = [link for link in rendered.json["items"][0]["links"] if "/product/" in link]
        assert products
        assert not [item for item in bare.json["items"] if set(item["links"] or ()) & set(products)]
        visits = len(site.hits)
        again = shop.shoal.run("try", url, "--browser", "--wait", "idle", "--field", "first=//a/@href", *fields[4:])
        assert again.json["stored"]
        assert again.json["items"]
        assert len(site.hits) == visits
