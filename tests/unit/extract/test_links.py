"""From hrefs to candidates, each told to the frontier once by one process."""

from __future__ import annotations

import tracemalloc

import pytest

from shoal.core.model import Level, Rejected, Request
from shoal.core.scope import Scope
from shoal.core.url import MAX_URL_CHARS, Base, Url, parse
from shoal.extract import links as links_module
from shoal.extract.links import STEP, Links
from shoal.extract.page import MAX_JOINED_CHARS, MAX_LINKS


def make(allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> Links:
    return Links(Scope.of(["h.example"], allow, deny))


class Seen:
    """What one page's links came to."""

    def __init__(self, links: Links, page: str, *hrefs: str, depth: int = 1, base: str | None = None) -> None:
        start = Base(page)
        self.candidates, self.duplicates, self.cut = links.sort_out(
            parse(page), start.rebase(base) if base else start, hrefs, depth, rebased=base is not None
        )
        self.targets = [candidate.url.target for candidate in self.candidates]


def url(text: str) -> Url:
    return parse(text)


def test_links_become_requests_of_the_given_depth_that_know_their_page() -> None:
    seen = Seen(make(), "http://h.example/a/b", "c", "/d?e=1#f", "//www.h.example/g", depth=3)
    page = url("http://h.example/a/b").fingerprint
    assert seen.candidates == [
        Request(url("http://h.example/a/c"), 3, found_on=page),
        Request(url("http://h.example/d?e=1"), 3, found_on=page),
        Request(url("http://www.h.example/g"), 3, found_on=page),
    ]
    assert seen.duplicates == 0


def test_links_out_of_scope_are_rejected_with_the_rule() -> None:
    seen = Seen(
        make(allow=("/b/",), deny=("/b/no",)), "http://h.example/", "http://o.example/", "/b/no", "/c", "/b/yes"
    )
    assert seen.candidates == [
        Rejected(url("http://o.example/"), "other_host"),
        Rejected(url("http://h.example/b/no"), "denied"),
        Rejected(url("http://h.example/c"), "not_allowed"),
        Request(url("http://h.example/b/yes"), 1, found_on=url("http://h.example/").fingerprint),
    ]


def test_what_cannot_be_fetched_is_no_candidate() -> None:
    seen = Seen(make(), "http://h.example/", "mailto:x@y", "javascript:void(0)", "http://[", "http://u:p@h.example/")
    assert (seen.candidates, seen.duplicates) == ([], 0)


def test_fragments_of_the_page_count_as_seen_before() -> None:
    seen = Seen(make(), "http://h.example/", "#", "#top", "/a")
    assert (seen.targets, seen.duplicates) == (["/a"], 2)


@pytest.mark.parametrize(
    "href", ["/c", "http://h.example/c", "https://h.example/c", "//h.example/c", "http://o.example/"]
)
def test_a_rooted_link_is_known_on_the_whole_origin(href: str) -> None:
    links = make()
    assert len(Seen(links, "http://h.example/a/b", href).candidates) == 1
    again = Seen(links, "http://h.example/x/y/z?q", href)
    assert (again.candidates, again.duplicates) == ([], 1)


def test_a_rooted_link_is_another_one_on_another_origin() -> None:
    links = make()
    for page in ("http://h.example/", "https://h.example/", "http://www.h.example/"):
        seen = Seen(links, page, "/c")
        assert [str(candidate.url) for candidate in seen.candidates] == [page + "c"]


@pytest.mark.parametrize("href", ["c", "./c", "../c", "c?d", " c", "HTTP://h.example/c"])
def test_a_relative_link_is_known_in_its_folder_only(href: str) -> None:
    links = make()
    assert len(Seen(links, "http://h.example/a/b", href).candidates) == 1
    for page in ("http://h.example/a/other", "http://h.example/a/", "http://h.example/a/b?page=/x/2"):
        assert Seen(links, page, href).duplicates == 1
    assert len(Seen(links, "http://h.example/a/b/c", href).candidates) == 1
    assert len(Seen(links, "http://h.example/a", href).candidates) == 1


@pytest.mark.parametrize("href", ["?page=2", " ?page=2", "\n\t?page=2"])
def test_a_link_to_another_query_means_another_page_on_each_page(href: str) -> None:
    links = make()
    for page in ("/list/a", "/list/b", "/list/", "/list/a"):
        assert Seen(links, "http://h.example" + page, href).targets == [page + "?page=2"]


def test_a_page_with_a_base_of_its_own_neither_uses_nor_fills_the_memory() -> None:
    links = make()
    Seen(links, "http://h.example/a/b", "c", "/d")
    moved = Seen(links, "http://h.example/a/b", "c", "/d", base="http://www.h.example/z/")
    assert [str(candidate.url) for candidate in moved.candidates] == [
        "http://www.h.example/z/c",
        "http://www.h.example/d",
    ]
    Seen(links, "http://h.example/x/y", "e", "/f", base="/z/")
    assert Seen(links, "http://h.example/x/y", "e", "/f").targets == ["/x/e", "/f"]


def test_rejected_and_useless_links_are_remembered_too() -> None:
    links = make()
    hrefs = ("http://o.example/", "mailto:x@y")
    assert Seen(links, "http://h.example/", *hrefs).duplicates == 0
    assert Seen(links, "http://h.example/", *hrefs).duplicates == 2


def test_what_was_forgotten_is_told_again() -> None:
    links = make()
    Seen(links, "http://h.example/", "/a")
    links.forget()
    assert Seen(links, "http://h.example/", "/a").targets == ["/a"]
    assert Seen(links, "http://h.example/", "/a").duplicates == 1


def test_a_full_memory_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "MEMORY_BYTES", 600)
    links = make()
    Seen(links, "http://h.example/", "/1", "/2", "/3")
    assert Seen(links, "http://h.example/", "/1", "/4").duplicates == 1
    assert Seen(links, "http://h.example/", "/1").targets == ["/1"]


def _held(links: Links) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(2_000):
            hrefs = [f"/{number}/{each}/{'x' * 900}" for each in range(10)]
            Seen(links, f"http://h.example/{number}/{'y' * 900}/", *hrefs, "z")
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_what_the_memory_takes_is_counted_in_bytes_with_folders_and_long_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "MEMORY_BYTES", 2_000_000)
    assert _held(make()) < 2_500_000


def test_a_folder_of_which_nothing_is_remembered_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "MEMORY_BYTES", 1_000)
    links = make()
    Seen(links, "http://h.example/a/", "/1")
    for number in range(100):
        Seen(links, f"http://h.example/{number}/", "/1", "?next")
    assert Seen(links, "http://h.example/", "/1").duplicates == 1


def test_short_links_that_mean_long_urls_are_taken_up_to_a_number_of_characters() -> None:
    page = f"http://h.example/{'x' * 1_900}/"
    hrefs = [str(number) for number in range(MAX_LINKS)]
    links = make()
    seen = Seen(links, page, *hrefs)
    assert seen.cut
    assert sum(candidate.url.chars for candidate in seen.candidates) - MAX_JOINED_CHARS in range(STEP * MAX_URL_CHARS)
    assert seen.duplicates == 0
    more = Seen(links, page, *hrefs)
    assert more.duplicates == len(seen.candidates)
    assert more.candidates[0].url != seen.candidates[0].url
    assert not Seen(make(), "http://h.example/", *hrefs).cut


def test_a_redirect_keeps_depth_and_level_and_counts_its_hop() -> None:
    request = Request(url("http://h.example/a"), 2, Level.FIRST, attempt=3, hops=4, losses=1)
    assert make().follow(url("http://h.example/b"), request) == Request(
        url("http://h.example/b"), 2, Level.FIRST, attempt=0, hops=5, losses=0, found_on=request.url.fingerprint
    )


def test_a_redirect_out_of_scope_says_so() -> None:
    links = make(deny=("/no",))
    request = Request(url("http://h.example/a"))
    assert links.follow(url("http://o.example/"), request) == Rejected(url("http://o.example/"), "redirect_other_host")
    assert links.follow(url("http://h.example/no"), request) == Rejected(url("http://h.example/no"), "redirect_denied")


def test_links_are_sent_again_when_the_server_was_started_anew() -> None:
    links = Links(Scope.of(()))
    page, base = parse("http://shop.example/"), Base("http://shop.example/")
    links.leased_from("one run")
    assert len(links.sort_out(page, base, ["/a", "/b"], 1, rebased=False)[0]) == 2
    links.leased_from("one run")
    assert links.sort_out(page, base, ["/a", "/b"], 1, rebased=False) == ([], 2, False)
    links.leased_from("another run")
    assert len(links.sort_out(page, base, ["/a", "/b"], 1, rebased=False)[0]) == 2


def test_a_redirect_takes_along_what_a_spider_sent_with_the_request() -> None:
    links = Links(Scope.of((), (), ()))
    sent = Request(parse("http://a/x"), 2, Level.LAST, attempt=1, hops=1, losses=1, callback="detail", meta='{"n": 1}')
    followed = links.follow(parse("http://a/y"), sent)
    came_from = sent.url.fingerprint
    assert followed == Request(
        parse("http://a/y"), 2, Level.LAST, hops=2, callback="detail", meta='{"n": 1}', found_on=came_from
    )
