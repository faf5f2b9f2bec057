"""A whole crawl of the sample site, checked against what the site knows about itself."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, Shoal, a_home, wait_for_nobody
from tests.site.bookshop import Bookshop
from tests.site.generated import StatusSite
from tests.site.reply import page
from tests.site.server import Server, serve

FIELDS = ("--field", "title=h1", "--field", "price=.price", "--field", "image=img@src", "--field", "tags[]=.tag")
FAST = ("--rate", "unlimited", "--drop-tracking", "--nofollow", "--retries", "1")


@dataclass(frozen=True, slots=True)
class Crawled:
    """One crawl and its witnesses."""

    shoal: Shoal
    site: Server
    done: Done
    output: Path

    @property
    def job(self) -> str:
        return self.done.json["job"]

    @property
    def pages(self) -> list[dict[str, Any]]:
        return self.shoal.run("results", self.job, "--pages").records

    def target(self, url: str) -> str:
        return url.removeprefix(self.site.url.rstrip("/"))


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Generator[Crawled]:
    """One crawl for all tests of this module."""
    folder = tmp_path_factory.mktemp("crawl")
    with a_home(folder) as shoal, serve(Bookshop(slow_seconds=0.2)) as site:
        output = folder / "books.jsonl"
        done = shoal.run("crawl", site.url, *FAST, *FIELDS, "-o", str(output), "--json", "--workers", "2")
        assert done.code == 0, done.err
        yield Crawled(shoal, site, done, output)


def test_a_crawl_finds_exactly_what_the_site_has(crawled: Crawled) -> None:
    facts = Bookshop(slow_seconds=0.2).facts()
    pages = crawled.pages
    found = {crawled.target(page["url"]): page for page in pages}
    assert len(found) == len(pages)
    assert {t for t, page in found.items() if page["status"] == 200} == facts.pages | set(facts.files)
    moved = {t for t, page in found.items() if page["redirect"]}
    assert moved == set(facts.redirects) | facts.loops | set(facts.leaving)
    _check_given_up(crawled)
    _check_asked_for(crawled)
    _check_sums(crawled)


def _check_given_up(crawled: Crawled) -> None:
    facts = Bookshop(slow_seconds=0.2).facts()
    letters = crawled.shoal.run("dead", crawled.job).records
    reasons = {crawled.target(letter["url"]): letter["reason"] for letter in letters}
    expected = {t: "connection_lost" if why == "dropped" else f"http_{why}" for t, why in facts.dead.items()}
    assert reasons == expected | dict.fromkeys(facts.blocked, "robots_disallowed")


def _check_asked_for(crawled: Crawled) -> None:
    """Nothing was asked for that should not have been, and nothing twice but what failed at first."""
    facts = Bookshop(slow_seconds=0.2).facts()
    asked = Counter(hit.target for hit in crawled.site.hits)
    assert asked.pop("/robots.txt") <= 2
    assert set(asked) == facts.requests
    repeated = {target for target, count in asked.items() if count > 1}
    assert repeated <= facts.flaky | set(facts.dead)


def _check_sums(crawled: Crawled) -> None:
    facts = Bookshop(slow_seconds=0.2).facts()
    summary = crawled.done.json
    counters = summary["counters"]
    assert summary["state"] == "finished"
    assert summary["reconciles"]
    assert counters["done"] == len(crawled.pages)
    assert counters["dead"] == len(facts.dead)
    assert counters["dropped"] == len(facts.blocked)
    assert counters["admitted"] == counters["done"] + counters["dead"] + counters["dropped"]
    assert counters["queued"] == counters["delayed"] == counters["leased"] == 0


def test_items_are_written_with_their_fields(crawled: Crawled) -> None:
    shop = Bookshop(slow_seconds=0.2)
    items = [json.loads(line) for line in crawled.output.read_text().splitlines()]
    by_target = {crawled.target(item["url"]): item for item in items}
    assert len(by_target) == len(items)
    for book in shop.books:
        item = by_target[book.path]
        assert (item["title"], item["price"], item["tags"]) == (book.title, book.price, list(book.tags))
        assert crawled.target(item["image"]) == book.cover
    headings = {target: item["title"] for target, item in by_target.items()}
    assert headings == dict(shop.facts().headings)


def test_results_come_again_as_csv(crawled: Crawled) -> None:
    shown = crawled.shoal.run("results", crawled.job, "--format", "csv").out
    rows = list(csv.DictReader(StringIO(shown)))
    assert [list(row) for row in rows[:1]] == [["url", "title", "price", "image", "tags"]]
    assert len(rows) == len(crawled.output.read_text().splitlines())


def test_a_stored_page_can_be_printed(crawled: Crawled) -> None:
    book = Bookshop().books[0]
    shown = crawled.shoal.run("page", crawled.job, crawled.site.link(book.path))
    assert shown.code == 0
    assert f"<h1>{escape(book.title)}</h1>" in shown.out
    missing = crawled.shoal.run("page", crawled.job, crawled.site.link("/never"))
    assert missing.code == 1
    assert "has no page" in missing.err


def test_jobs_and_status_know_the_crawl_after_its_end(crawled: Crawled) -> None:
    (row,) = json.loads(crawled.shoal.run("jobs", "--json").out)
    assert row["job"] == crawled.job
    assert row["state"] == "finished"
    status = crawled.shoal.status(crawled.job[:4])
    assert status["counters"] == crawled.done.json["counters"]
    text = crawled.shoal.run("status", crawled.job).out
    assert f"{status['pages']} pages" in text
    assert "http_404" in text


def test_a_second_crawl_in_the_same_home_has_the_figures_of_the_first(shoal: Shoal) -> None:
    with serve(StatusSite({"/": [page('<a href="/b">b</a>')], "/b": [page("b")]})) as site:
        first = shoal.run("crawl", site.url, "--no-robots", "--json")
        wait_for_nobody(shoal)  # the embedded Redis as well: the second crawl starts it anew
        second = shoal.run("crawl", site.url, "--no-robots", "--json")
    assert (first.code, second.code) == (0, 0), second.err
    assert first.json["counters"]["duplicates"] == 0
    assert second.json["counters"] == first.json["counters"]
    assert "found 2 links: 2 taken, 0 seen before" in second.err


def test_a_page_that_could_not_be_read_is_in_the_summary(shoal: Shoal) -> None:
    with serve(StatusSite({"/": [page("<div>" * 100_000)]})) as site:
        done = shoal.run("crawl", site.url, "--no-robots", "--json")
    assert done.code == 0, done.err
    assert done.json["reasons"] == {"done:too_complex": 1}
    assert "finished: 1 page, " in done.err
    assert "not read in full, so that links or fields of them are missing: too_complex 1" in done.err
