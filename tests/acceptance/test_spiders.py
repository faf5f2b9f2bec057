"""Crawls by spiders: real workers on the sample site, with the spider of the examples and with one that fails."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.command import REPOSITORY, Done, Shoal, a_home
from tests.site.bookshop import Bookshop
from tests.site.catalogue import SHELF
from tests.site.server import Server, serve
from tests.site.words import CATEGORIES
from tests.stored import page_rows

EXAMPLE = REPOSITORY / "examples" / "books_spider.py"
FAST = ("--rate", "unlimited", "--drop-tracking", "--retries", "0", "--no-robots", "--json", "--quiet")
ROGUE = """
import shoal

@shoal.spider("rogue")
def rogue(page):
    print("not an answer")
    what = page.params["what"]
    if what == "raise":
        yield {"never": "kept"}
        raise ValueError("no such shelf")
    if what == "loop":
        while True:
            pass
    if what == "eat":
        hoard = [bytearray(1 << 20) for _ in range(1 << 20)]
    if what == "die":
        import os
        os._exit(3)
    if what == "flood":
        while True:
            yield {"n": 1}
    yield page.json() if page.content_type == "application/json" else {"title": page.css("h1").text}
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """The bookshop, and commands that know the spiders."""

    shoal: Shoal
    site: Server

    def crawl(self, *options: str) -> Done:
        return self.shoal.run("crawl", self.site.url, *FAST, *options)

    def items(self, done: Done) -> list[dict[str, Any]]:
        return self.shoal.run("results", done.json["job"]).records


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[Shop]:
    folder = tmp_path_factory.mktemp("spiders")
    rogue = folder / "rogue.py"
    rogue.write_text(ROGUE, encoding="utf-8")
    with a_home(folder) as shoal, serve(Bookshop(slow_seconds=0.2)) as site:
        yield Shop(replace(shoal, extra=(("SHOAL_SPIDERS", f"{EXAMPLE},{rogue}"),)), site)


def test_a_spider_goes_through_pages_of_shelves_to_books_and_takes_along_what_it_knows(shop: Shop) -> None:
    done = shop.crawl("--spider", "books")
    assert done.code == 0, done.err
    books = Bookshop(slow_seconds=0.2).books
    shelves = {name: [book for book in books if book.category == name] for name in CATEGORIES}
    assert {(item["title"], item["shelf"], item["found_on_page"]) for item in shop.items(done)} == {
        (book.title, name, number // SHELF + 1) for name, found in shelves.items() for number, book in enumerate(found)
    }
    assert {item["title"]: item["tags"] for item in shop.items(done)} == {b.title: list(b.tags) for b in books}
    reached = done.json["counters"]["done"]
    assert reached == 1 + len(books) + sum(-(-len(found) // SHELF) for found in shelves.values()), "and nothing else"
    assert done.json["reconciles"]


def test_a_spider_is_told_the_jobs_params_and_obeys_the_jobs_bounds(shop: Shop) -> None:
    shelf = CATEGORIES[0]
    done = shop.crawl("--spider", "books", "--param", f"shelf={shelf}", "--pages", "5")
    assert done.code == 0, done.err
    assert {item["shelf"] for item in shop.items(done)} <= {shelf}
    assert done.json["pages"] == 5
    shallow = shop.crawl("--spider", "books", "--depth", "1")
    assert shop.items(shallow) == []
    assert shallow.json["counters"]["done"] > len(CATEGORIES), "pages of a shelf are no deeper than its first"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raise", "ValueError: no such shelf (rogue.py, line 10)"),
        ("loop", "more than 5 s"),
        ("eat", "MB of memory"),
        ("die", "ended with 3"),
    ],
)
def test_a_page_on_which_a_spider_fails_is_stored_with_the_reason_and_no_worker_dies(
    shop: Shop, what: str, said: str
) -> None:
    done = shop.crawl("--spider", "rogue", "--param", f"what={what}", "--workers", "1")
    assert done.code == 0, done.err
    assert done.json["reasons"] == {"done:spider_failed": 1}
    assert done.json["pages"] == 1
    assert shop.items(done) == []
    (page,) = shop.shoal.run("results", done.json["job"], "--pages").records
    assert page["status"] == 200
    (stored,) = page_rows(shop.shoal, done.json["job"])
    assert said in (stored.notes or {})["spider_failed"]


def test_a_spider_that_yields_for_ever_is_cut_short_and_one_that_prints_disturbs_nobody(shop: Shop) -> None:
    flood = shop.crawl("--spider", "rogue", "--param", "what=flood")
    assert flood.json["reasons"] == {"done:page_cut": 1}
    assert len(shop.items(flood)) == 10_000
    plain = shop.crawl("--spider", "rogue", "--param", "what=nothing")
    assert [list(item) for item in shop.items(plain)] == [["url", "title"]]


def test_a_spider_reads_stored_pages_again_with_what_each_was_asked_for_with(shop: Shop) -> None:
    crawled = shop.crawl("--spider", "books", "--param", f"shelf={CATEGORIES[0]}")
    job, first, asked = crawled.json["job"], shop.items(crawled), len(shop.site.hits)
    again = shop.shoal.run("extract", job, "--spider", "books", "--param", f"shelf={CATEGORIES[0]}", "--json", "-q")
    assert again.code == 0, again.err
    assert (again.json["failed"], again.json["items"]) == (0, len(first))
    assert sorted(map(str, shop.shoal.run("results", job, "--version", "v2").records)) == sorted(map(str, first))
    failing = shop.shoal.run("extract", job, "--spider", "rogue", "--param", "what=raise", "--json", "-q")
    assert failing.json["reasons"] == {"spider_failed": crawled.json["pages"]}
    unknown = shop.shoal.run("extract", job, "--spider", "nobody", "--workers", "0", "--detach")
    assert unknown.code == 2
    assert "there is no spider 'nobody': registered: books, rogue" in unknown.err
    assert len(shop.site.hits) == asked, "nothing was fetched"


def test_a_job_can_only_name_a_spider_that_is_registered(shop: Shop) -> None:
    done = shop.crawl("--spider", "os.system")
    assert done.code == 2
    assert "there is no spider 'os.system': registered: books, rogue" in done.err
    lost = shop.crawl("--param", "a=1")
    assert lost.code == 2
    assert "params: this is for a spider" in lost.err


def test_the_command_lists_the_spiders_and_says_what_could_not_be_imported(shop: Shop, tmp_path: Path) -> None:
    listed = shop.shoal.run("spiders", "--json")
    assert [each["name"] for each in json.loads(listed.out)] == ["books", "rogue"]
    assert "parse, shelf, start" in shop.shoal.run("spiders").out
    broken = tmp_path / "broken.py"
    broken.write_text("import shoal\n1 / 0\n", encoding="utf-8")
    done = replace(shop.shoal, extra=(("SHOAL_SPIDERS", f"{EXAMPLE},{broken},no.such.module"),)).run(
        "spiders", "--json"
    )
    assert done.code == 1
    assert [each["name"] for each in json.loads(done.out)] == ["books"], (
        "one that is broken keeps nobody from the others"
    )
    assert "ZeroDivisionError: division by zero (broken.py, line 2)" in done.err
    assert "no.such.module cannot be imported" in done.err
