"""Crawls by sitemaps, feeds and lists, with real processes; the site's log says what was asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from tests.command import Shoal
from tests.site.gazette import LAST_YEARS, LISTED, LISTS, MAPS, OLD, RECENT, STORIES, UNDATED, Gazette
from tests.site.reply import NOT_FOUND, Reply, page
from tests.site.server import Server, serve
from tests.waiting import wait_until

QUICK = ("--rate", "unlimited", "--workers", "1")
_XML = (("Content-Type", "application/xml"),)
ALLOWED = RECENT[:-1]
"""robots.txt is against the last one."""


@pytest.fixture
def gazette() -> Generator[Server]:
    with serve(Gazette()) as server:
        yield server


def asked(site: Server) -> Counter[str]:
    return Counter(hit.target for hit in site.hits)


def once(*parts: tuple[str, ...]) -> Counter[str]:
    return Counter(target for part in parts for target in part)


def test_a_crawl_by_sitemaps_asks_for_each_recent_page_once(shoal: Shoal, gazette: Server) -> None:
    done = shoal.run("crawl", gazette.url, "--sitemaps", "--since", "2026-01-01", "--depth", "1", "--json", *QUICK)
    assert done.code == 0, done.err
    assert asked(gazette) == once(("/robots.txt", "/", "/list"), MAPS, ALLOWED, UNDATED)
    reasons = done.json["reasons"]
    assert (reasons["filtered:not_since"], reasons["filtered:sitemaps_asked"]) == (len(LAST_YEARS) + 1, 1)
    assert not any(name.startswith("dead:") for name in reasons)


def test_without_links_just_the_pages_of_the_sitemap_are_fetched(shoal: Shoal, gazette: Server, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(f"urls: [{gazette.url}]\nsitemaps: true\nfollow: false\nsince: 2025-01-01\n")
    assert shoal.run("crawl", "-j", str(job), *QUICK).code == 0
    assert asked(gazette) == once(("/robots.txt", "/"), MAPS, ALLOWED, LAST_YEARS, UNDATED)


@pytest.mark.parametrize("guess", ["", "html", "sitemap"])
def test_a_sitemap_that_nobody_announced_is_looked_for_and_may_be_missing(shoal: Shoal, guess: str) -> None:
    with serve(Gazette(announces=False, guess=guess)) as site:
        done = shoal.run("crawl", site.url, "--sitemaps", "--depth", "1", "--json", *QUICK)
        assert done.code == 0
        found = once(("/robots.txt", "/", "/list", "/sitemap.xml"), ALLOWED if guess == "sitemap" else ())
        assert asked(site) == found
    job = done.json["job"]
    assert {row["reason"] for row in shoal.run("dead", job, "--json").records} <= {"robots_disallowed"}
    assert (done.json["reasons"].get("filtered:no_sitemap") == 1) is (guess != "sitemap")


def test_named_sitemaps_and_feeds_need_no_other_url(shoal: Shoal, gazette: Server) -> None:
    feeds = ("--sitemap", gazette.link("/feed.rss"), "--sitemap", gazette.link("/feed.atom"))
    assert shoal.run("crawl", *feeds, "--since", "2026-01-01", "--depth", "1", *QUICK).code == 0
    assert asked(gazette) == once(("/robots.txt", "/feed.rss", "/feed.atom"), STORIES["rss"][:3], STORIES["atom"])


def test_a_start_url_may_be_a_sitemap(shoal: Shoal, gazette: Server) -> None:
    done = shoal.run("crawl", gazette.link("/maps/old.xml"), gazette.link("/maps/plain.txt"), "--depth", "1", *QUICK)
    assert done.code == 0
    assert asked(gazette).keys() >= {*OLD, "/plain/1", "/plain/5"}


def test_lists_are_walked_to_their_end_without_following_links(shoal: Shoal, gazette: Server) -> None:
    done = shoal.run("scrape", gazette.link("/list"), "--next", "a.next", "--field", "title=h1", "-o", "-", *QUICK)
    assert done.code == 0
    assert sorted(record["title"] for record in done.records) == sorted(f"List {n}" for n in range(1, LISTS + 1))
    assert not any(target.startswith("/listed/") for target in asked(gazette))


def test_the_next_page_is_no_deeper_and_pages_bound_the_walk(shoal: Shoal, gazette: Server) -> None:
    xpath = "//a[@rel='next']/@href"
    assert shoal.run("crawl", gazette.link("/list"), "--next", xpath, "--depth", "1", *QUICK).code == 0
    assert asked(gazette).keys() >= {target for part in LISTED.values() for target in part}
    before = len(gazette.hits)
    bounded = shoal.run("scrape", gazette.link("/list"), "--next", "a.next", "--pages", "4", "--no-robots", *QUICK)
    assert bounded.code == 0
    assert len(gazette.hits) - before == 4


def test_a_template_stands_for_its_pages(shoal: Shoal, gazette: Server) -> None:
    done = shoal.run("scrape", gazette.link("/list?page={2..5}"), gazette.link("/{rss,atom}/{1..2}"), *QUICK)
    assert done.code == 0
    lists = tuple(f"/list?page={number}" for number in range(2, 6))
    assert asked(gazette) == once(("/robots.txt",), lists, ("/rss/1", "/rss/2", "/atom/1", "/atom/2"))
    wrong = shoal.run("scrape", gazette.link("/list?page={1..}"))
    assert wrong.code != 0
    assert "{1..} is no range of numbers" in wrong.err


@pytest.mark.embedded
def test_an_emptied_redis_costs_no_page_of_a_sitemap(shoal: Shoal) -> None:
    with serve(Gazette(delay=0.2)) as site:
        options = ("--sitemaps", "--next", "a.next", "--depth", "1", "--rate", "unlimited", "--parallel", "2")
        with shoal.running(
            "crawl", site.url, *options, "--workers", "1", "-o", str(shoal.home.parent / "o.jsonl")
        ) as run:
            wait_until(lambda: len(site.hits) > 12, within=timedelta(seconds=60))
            socket = next(shoal.home.rglob("*.sock"))
            redis.Redis(unix_socket_path=str(socket)).flushall()  # pyright: ignore[reportUnknownMemberType]
            assert run.wait(timeout=90) == 0
        counts = asked(site)
        assert counts.keys() >= {*MAPS, *ALLOWED, *LAST_YEARS, *UNDATED, *OLD}
        (row,) = json.loads(shoal.run("jobs", "--json").out)
        pages = [record["url"] for record in shoal.run("results", row["job"], "--pages").records]
        assert len(pages) == len(set(pages))


def test_a_map_lists_every_url_once_with_where_it_was_found(shoal: Shoal, gazette: Server) -> None:
    done = shoal.run("map", gazette.url, "--json", *QUICK)
    assert done.code == 0, done.err
    found = {record["url"].removeprefix(gazette.url[:-1]): record for record in done.records}
    assert len(found) == len(done.records)
    assert found.keys() >= {"/", "/list", *LISTED[1], *RECENT, *LAST_YEARS, *UNDATED, *OLD}
    assert {found["/2026/1"]["source"], found["/list"]["source"], found["/"]["source"]} == {"sitemap", "link", "start"}
    assert (found["/2026/1"]["lastmod"], found["/undated/1"]["lastmod"]) == ("2026-02-03", None)
    assert max(asked(gazette).values()) == 1
    assert len(gazette.hits) <= 51


def test_a_map_can_be_narrowed_and_cut_short(shoal: Shoal, gazette: Server) -> None:
    done = shoal.run("map", gazette.url, "--search", "/2025/", "--limit", "4", "--pages", "6", *QUICK)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [gazette.link(target) for target in LAST_YEARS[:4]]
    assert "stopped by --limit: 4 URLs" in done.err
    recent = shoal.run("map", gazette.url, "--since", "2026-01-01", "--pages", "8", "--no-robots", *QUICK)
    assert {gazette.link(target) for target in (*RECENT, *UNDATED)} <= set(recent.out.splitlines())
    assert gazette.link(LAST_YEARS[0]) not in recent.out


PARTS = 20


class Large:
    """An index of many parts with a page each; it is told where it stands."""

    origin = ""

    def respond(self, target: str, _hits: int) -> Reply:
        if target == "/index.xml":
            parts = "".join(f"<sitemap><loc>{self.origin}part-{number}.xml</loc></sitemap>" for number in range(PARTS))
            return Reply(200, _XML, f"<sitemapindex>{parts}</sitemapindex>".encode())
        if target.startswith("/part-"):
            return Reply(200, _XML, f"<urlset><url><loc>{self.origin}page{target[5:-4]}</loc></url></urlset>".encode())
        return page("<h1>A page</h1>") if target.startswith("/page-") else NOT_FOUND


@pytest.mark.parametrize(("budget", "parts"), [(3, 1), (10, 7), (100, PARTS)])
def test_a_small_budget_is_not_used_up_by_the_parts_of_an_index(shoal: Shoal, budget: int, parts: int) -> None:
    large = Large()
    with serve(large) as site:
        large.origin = site.url
        asking = ("--sitemap", site.link("/index.xml"), "--pages", str(budget), "--no-robots", "--json", *QUICK)
        done = shoal.run("crawl", *asking)
        assert done.code == 0, done.err
        pages = [target for target in asked(site) if target.startswith("/page-")]
        assert sum(target.startswith("/part-") for target in asked(site)) == parts
        assert len(pages) == min(parts, budget - 1 - parts)
        assert done.json["reasons"].get("filtered:over_budget", 0) >= PARTS - parts
