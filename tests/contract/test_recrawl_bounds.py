"""A run with other bounds than the run before it: nothing beyond them is carried over, or called gone."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.databases import a_sqlite
from tests.contract.recrawling import Ground, a_ground
from tests.site.dated import DatedSite
from tests.site.generated import StatusSite
from tests.site.reply import Reply, page
from tests.site.server import serve

TEXT = "words of a page that is long enough to be held against the words of others " * 20


@pytest.fixture
def ground(valkey_url: str, tmp_path: Path) -> Generator[Ground]:
    with a_ground(valkey_url, tmp_path, a_sqlite(tmp_path)) as ground:
        yield ground


def linking(*targets: str, title: str = "a list", text: str = "") -> Reply:
    links = "".join(f'<a href="{target}">more</a>' for target in targets)
    return page(f"<h1>{title}</h1><p>{text}</p>{links}")


def a_site(pages: dict[str, Reply]) -> DatedSite:
    return DatedSite(StatusSite({path: [reply] for path, reply in pages.items()}))


def chain() -> DatedSite:
    return a_site({"/": linking("/a"), "/a": linking("/b"), "/b": linking("/c"), "/c": linking()})


def verdicts(ground: Ground, job: str, since: str) -> dict[str, tuple[str, str]]:
    """Path → (what became of it, and why that is not known)."""
    found = ground.platform.changes.pages(ground.platform.control.job(job), ground.platform.control.job(since))
    return {"/" + each.page.url.split("/", 3)[3]: (each.kind.value, each.detail) for each in found}


@pytest.mark.parametrize("way", [{"previous": True}, {"max_age": "1d"}])
@pytest.mark.parametrize(
    ("bounds", "paths"),
    [({"follow": False}, ["/"]), ({"depth": 0}, ["/"]), ({"depth": 2}, ["/", "/a", "/b"])],
)
def test_links_that_were_written_down_are_followed_only_as_far_as_the_job_goes(
    ground: Ground, way: dict[str, Any], bounds: dict[str, Any], paths: list[str]
) -> None:
    with serve(chain()) as server:
        first = ground.crawl(server.url, recrawl=True)
        settings: dict[str, Any] = {"previous": first} if "previous" in way else way
        second = ground.crawl(server.url, **settings, **bounds)
        third = ground.crawl(server.url, previous=second)
    assert sorted(ground.pages(second)) == paths
    assert None not in ground.reused(second).values()
    assert sorted(ground.pages(third)) == ["/", "/a", "/b", "/c"], "what lies beyond is still known"


@pytest.mark.parametrize(
    ("bounds", "why"), [({"follow": False}, "not_followed"), ({"depth": 1}, "too_deep"), ({"depth": 0}, "too_deep")]
)
def test_what_lies_beyond_the_bounds_of_a_run_is_neither_gone_nor_new(
    ground: Ground, bounds: dict[str, Any], why: str
) -> None:
    with serve(chain()) as server:
        whole = ground.crawl(server.url, recrawl=True)
        part = ground.crawl(server.url, **bounds)
        assert verdicts(ground, part, whole)["/b"] == ("unknown", why)
        assert verdicts(ground, part, whole)["/c"] == ("unknown", why)
        assert verdicts(ground, whole, part)["/c"] == ("unknown", why)
    assert "gone" not in {kind for kind, _ in verdicts(ground, part, whole).values()}


def test_what_a_page_led_to_that_has_moved_to_the_deepest_level_is_not_gone(ground: Ground) -> None:
    pages = {"/": linking("/hub", "/x"), "/x": linking("/hub"), "/hub": linking("/p"), "/p": linking()}
    site = a_site(pages)
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True, depth=2)
        site.change("/", linking("/x"))
        second = ground.crawl(server.url, previous=first, depth=2)
    assert sorted(ground.pages(second)) == ["/", "/hub", "/x"]
    assert verdicts(ground, second, first)["/p"] == ("unknown", "too_deep")


def test_what_a_page_led_to_that_is_skipped_as_a_duplicate_now_is_not_gone(ground: Ground) -> None:
    pages = {"/": linking("/a", "/hub"), "/a": linking(text=TEXT), "/hub": linking("/p", title="hub"), "/p": linking()}
    site = a_site(pages)
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True, duplicates="skip")
        site.change("/hub", linking("/p", text=TEXT))
        second = ground.crawl(server.url, previous=first, duplicates="skip")
    assert ground.pages(second)["/hub"].duplicate_of is not None
    assert verdicts(ground, second, first)["/p"] == ("unknown", "duplicate")


def test_a_duplicate_whose_items_were_left_out_has_them_when_it_is_none_any_more(ground: Ground) -> None:
    site = a_site({"/": linking("/a", "/b"), "/a": linking(text=TEXT), "/b": linking(text=TEXT)})
    settings: dict[str, Any] = {"duplicates": {"items": False}}
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True, **settings)
        copy = next(path for path, row in ground.pages(first).items() if row.duplicate_of is not None)
        assert len(ground.items(first)) == 2
        site.change("/", linking(copy))
        second = ground.crawl(server.url, previous=first, **settings)
    assert ground.reused(second) == {"/": None, copy: "not_modified"}
    assert [url.split("/", 3)[3] for url, _, _ in ground.items(second)] == ["", copy[1:]]


SPIDER = """
import shoal

@shoal.spider("shaky")
def parse(page):
    if "broken" in page.css("h1").text:
        raise ValueError("what is this?")
    yield {"title": page.css("h1").text}
    for link in page.css("a"):
        yield shoal.Follow(link.attr("href"))
"""
MENDED = SPIDER.replace('"broken" in', '"never" in')


def test_a_page_on_which_a_spider_failed_is_read_again_and_what_it_led_to_is_not_gone(
    valkey_url: str, tmp_path: Path
) -> None:
    code = tmp_path / "spider.py"
    code.write_text(SPIDER)
    site = a_site({"/": linking("/hub"), "/hub": linking("/p"), "/p": linking()})
    settings: dict[str, Any] = {"spider": "shaky", "fields": {}, "name": "shaky", "previous": "last"}
    with serve(site) as server:
        with a_ground(valkey_url, tmp_path, a_sqlite(tmp_path), spiders=str(code)) as ground:
            first = ground.crawl(server.url, **settings)
            assert len(ground.items(first)) == 3
            site.change("/hub", linking("/p", title="broken"))
            second = ground.crawl(server.url, **settings)
            assert verdicts(ground, second, first)["/p"] == ("unknown", "spider_failed")
        code.write_text(MENDED)
        with a_ground(valkey_url, tmp_path, a_sqlite(tmp_path), spiders=str(code)) as ground:
            third = ground.crawl(server.url, **settings)
            assert ground.reused(third) == {"/": "not_modified", "/hub": "not_modified", "/p": None}
            assert len(ground.items(third)) == 3
