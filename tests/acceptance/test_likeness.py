"""A site that says the same under several URLs."""

from __future__ import annotations

from tests.command import Shoal
from tests.site.generated import StatusSite
from tests.site.reply import Reply, page
from tests.site.server import serve

FAST = ("--rate", "unlimited", "--workers", "1", "--no-robots", "--json")
STORY = " ".join(f"The {number}th sentence of the story is about number {number * 7}." for number in range(80))


def _site() -> StatusSite:
    def story(text: str, *links: str) -> tuple[Reply, ...]:
        menu = "".join(f"<a href='{link}'>{link}</a> " for link in links)
        return (page(f"<title>A story</title><nav>{menu}</nav><main><h1>A story</h1><p>{text}</p></main>"),)

    return StatusSite(
        {
            "/": story(
                "Welcome to a site of stories, with more words than one needs to say hello to somebody. " * 3, "/a"
            ),
            "/a": story(STORY, "/b", "/c"),
            "/b": story(STORY.replace("3th", "third", 1), "/only-from-b"),
            "/c": story(STORY[::-1], "/d"),
            "/d": story(STORY[::-1] + " Again.", "/c"),
            "/only-from-b": story(
                "This page is reached through a duplicate only, and through nothing else at all. " * 3
            ),
        }
    )


def test_pages_that_say_the_same_are_marked_and_their_links_are_left_alone(shoal: Shoal) -> None:
    with serve(_site()) as site:
        done = shoal.run("crawl", site.url, *FAST, "--duplicates", "skip")
        assert done.code == 0, done.err
        job = done.json["job"]
        rows = {row["url"]: row for row in shoal.run("results", job, "--pages").records}
        marked = {url: row["duplicate_of"] for url, row in rows.items() if row["duplicate_of"]}
        names = {row["fingerprint"]: url for url, row in rows.items()}
        assert {url: names[earlier] for url, earlier in marked.items()} == {
            site.link("/b"): site.link("/a"),
            site.link("/d"): site.link("/c"),
        }
        assert site.link("/only-from-b") not in rows
        assert shoal.status(job)["reasons"]["done:duplicate"] == 2


def test_nobody_looks_for_them_unless_a_job_asks(shoal: Shoal) -> None:
    with serve(_site()) as site:
        done = shoal.run("crawl", site.url, *FAST)
        rows = shoal.run("results", done.json["job"], "--pages").records
        assert {row["duplicate_of"] for row in rows} == {None}
        assert len(rows) == 6


def test_the_next_page_of_a_list_is_fetched_although_the_list_says_the_same(shoal: Shoal) -> None:
    blurb = "All that we have, page by page, with the same friendly words above each of our many lists. " * 3

    def shelf(number: int, more: str) -> tuple[Reply, ...]:
        links = f"<a href='/aside-{number}'>aside</a>{more}"
        return (page(f"<title>Shelf</title><nav>{links}</nav><main><h1>Shelf</h1><p>{blurb}</p></main>"),)

    pages = {f"/{n}": shelf(n, f"<a class=next href='/{n + 1}'>next</a>" if n < 4 else "") for n in range(1, 5)}
    with serve(StatusSite(pages)) as site:
        done = shoal.run("crawl", site.link("/1"), *FAST, "--duplicates", "skip", "--next", "a.next")
        rows = {row["url"]: row for row in shoal.run("results", done.json["job"], "--pages").records}
        assert {site.link(path) for path in pages} <= rows.keys()
        assert shoal.status(done.json["job"])["reasons"]["done:duplicate"] == 3
        assert site.count("/aside-2") == 0, "other links of a duplicate are left alone"
