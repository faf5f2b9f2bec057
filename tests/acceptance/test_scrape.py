"""Fetching just the URLs that were given."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.command import Shoal
from tests.site.server import Server

FAST = ("--rate", "unlimited", "--workers", "1")


def test_scrape_fetches_the_urls_and_nothing_else(shoal: Shoal, bookshop: Server) -> None:
    targets = ["/", "/about", "/category/poetry"]
    done = shoal.run("scrape", *map(bookshop.link, targets), *FAST, "--no-robots", "-o", "-")
    assert done.code == 0, done.err
    assert sorted(record["url"] for record in done.records) == sorted(map(bookshop.link, targets))
    assert Counter(hit.target for hit in bookshop.hits) == Counter(targets)


def test_urls_come_from_a_file_with_comments(shoal: Shoal, bookshop: Server, tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text(
        f"# two pages\n{bookshop.link('/')}\n\n  {bookshop.link('/about')}  \n{bookshop.link('/#again')}\n"
    )
    done = shoal.run("scrape", "-f", str(listed), *FAST, "--json")
    assert done.code == 0, done.err
    assert done.json["counters"]["admitted"] == 2
    assert done.json["counters"]["duplicates"] == 1


def test_urls_come_from_standard_input_and_fields_are_taken(shoal: Shoal, bookshop: Server) -> None:
    done = shoal.run("scrape", "-f", "-", *FAST, "--field", "title=h1", "-o", "-", stdin=bookshop.link("/about"))
    assert done.code == 0, done.err
    assert done.records == [{"url": bookshop.link("/about"), "title": "About us"}]


def test_a_redirect_is_followed_and_its_page_is_found_under_the_old_address(shoal: Shoal, bookshop: Server) -> None:
    done = shoal.run("scrape", bookshop.link("/about/"), *FAST, "--json")
    assert done.code == 0, done.err
    assert (done.json["pages"], done.json["redirects"]) == (1, 1)
    body = shoal.run("page", done.json["job"], bookshop.link("/about/")).out
    assert "<h1>About us</h1>" in body


def test_a_job_file_does_what_flags_do_and_flags_win(shoal: Shoal, bookshop: Server, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        f"urls: ['{bookshop.url}']\nname: from a file\npages: 500\nrate: unlimited\nallow: ['/category/']\n"
        "fields:\n  title: h1\n  'tags[]': .tag\n"
    )
    done = shoal.run("crawl", "-j", str(job), "--pages", "5", "-o", "-", "--workers", "1")
    assert done.code == 0, done.err
    assert len(done.records) == 5
    assert all("/category/" in record["url"] for record in done.records[1:])
    assert "from a file" in shoal.run("jobs").out
