"""Recrawls with all parts real: server, site, two databases, archive. The site's access log is the witness."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from shoal import leftovers
from shoal.core.reuse import MOST_UNVERIFIED
from shoal.errors import InputError
from shoal.store.folders import ArchiveFolders
from shoal.store.loans import Loans
from shoal.store.orphans import Orphans
from shoal.store.page_rows import ArchiveRef, Capture
from tests.contract.databases import DATABASES, a_database, a_sqlite
from tests.contract.recrawling import Ground, a_ground
from tests.site.dated import DatedSite
from tests.site.generated import LinkedSite, StatusSite
from tests.site.reply import page, plain, redirect
from tests.site.server import serve

PAGES = 40
DAY_MS = 86_400_000


def a_site(**manners: object) -> DatedSite:
    return DatedSite(LinkedSite(pages=PAGES, links=8, size=2_000), **manners)  # pyright: ignore[reportArgumentType]


@pytest.fixture(params=DATABASES)
def ground(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Ground]:
    """A platform on each database."""
    with a_ground(valkey_url, tmp_path, a_database(request, tmp_path)) as ground:
        yield ground


@pytest.fixture
def plain_ground(valkey_url: str, tmp_path: Path) -> Generator[Ground]:
    """A platform on SQLite."""
    with a_ground(valkey_url, tmp_path, a_sqlite(tmp_path)) as ground:
        yield ground


def test_pages_that_have_not_changed_cost_a_small_request_and_keep_everything(ground: Ground) -> None:
    site = a_site()
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        assert not site.conditional()
        site.asked.clear()
        second = ground.crawl(server.url, previous=first)
        assert [hit.status for hit in server.hits[PAGES:]] == [304] * PAGES
    assert len(site.conditional()) == PAGES
    assert set(ground.reused(second).values()) == {"not_modified"}
    assert ground.items(second) == ground.items(first)
    assert ground.bodies(second) == ground.bodies(first)
    status = ground.status(second)
    assert status.carried == {"not_modified": PAGES}
    assert status.counters.received == 0
    assert status.counters.saved == ground.status(first).counters.received
    assert ground.loans() == [(second, first)]
    assert not ground.folder(second).exists(), "no body is copied"
    rows = ground.pages(first)
    for path, row in ground.pages(second).items():
        assert (row.status, row.etag, row.fetched_ms) == (200, rows[path].etag, rows[path].fetched_ms)
        assert row.checked_ms is not None
        assert row.checked_ms > row.fetched_ms
        assert row.unverified == 1


def test_a_page_that_has_changed_is_fetched_and_read_anew(ground: Ground) -> None:
    site = a_site()
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        site.change("/p/3", page('<h1>Other</h1><a href="/p/new">new</a><a href="/p/4">old</a>'))
        site.change("/p/new", page("<h1>New</h1>"))
        second = ground.crawl(server.url, previous=first)
    reused = ground.reused(second)
    assert reused.pop("/p/3") is None
    assert reused.pop("/p/new") is None
    assert set(reused.values()) == {"not_modified"}
    titles = {url.split("/", 3)[3]: data for url, _, data in ground.items(second)}
    assert titles["p/3"] == '{"title": "Other"}'
    assert titles["p/new"] == '{"title": "New"}'
    assert len(titles) == PAGES + 1
    assert ground.bodies(second)["/p/3"].startswith(b"<h1>Other")


def test_a_page_that_only_an_unchanged_page_leads_to_is_found_although_another_one_had_named_it_first(
    plain_ground: Ground,
) -> None:
    """What the first run had sent to its frontier from each page is not all that each page leads to."""
    ground = plain_ground
    pages = {
        "/": [page('<a href="/a">a</a><a href="/x">x</a>')],
        "/a": [page('<h1>a</h1><a href="/x">x</a>')],
        "/x": [page("<h1>x</h1>")],
    }
    site = DatedSite(StatusSite(pages))
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        site.change("/", page('<a href="/a">a</a>'))
        second = ground.crawl(server.url, previous=first)
    assert ground.reused(second) == {"/": None, "/a": "not_modified", "/x": "not_modified"}


def test_without_a_word_in_the_first_run_its_stored_bodies_are_read(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url)
        second = ground.crawl(server.url, previous=first)
        third = ground.crawl(server.url, previous=second)
    for job in (second, third):
        assert set(ground.reused(job).values()) == {"not_modified"}
        assert ground.items(job) == ground.items(first)
    assert ground.loans() == sorted([(second, first), (third, first)])


def test_other_fields_are_taken_from_the_stored_body(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first, fields={"price": ".price"})
        whole = ground.crawl(server.url, fields={"price": ".price"})
    assert set(ground.reused(second).values()) == {"not_modified"}
    assert ground.items(second) == ground.items(whole)
    assert len(ground.items(second)) == PAGES


def test_quarantined_items_are_carried_over_with_their_reasons(ground: Ground) -> None:
    contract = {"schema": {"properties": {"title": {"pattern": "[02468]$"}}}}
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True, contract=contract)
        second = ground.crawl(server.url, previous=first, contract=contract)
    assert len(ground.quarantined(first)) == PAGES // 2
    assert ground.quarantined(second) == ground.quarantined(first)
    assert ground.items(second) == ground.items(first)


def test_a_chain_of_runs_borrows_from_the_first_alone(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True, name="shop")
        second = ground.crawl(server.url, previous="last", name="shop")
        third = ground.crawl(server.url, previous="last", name="shop")
        assert ground.platform.jobs.get(third).spec.previous == second  # pyright: ignore[reportOptionalMemberAccess]
        assert len(server.hits) == 3 * PAGES
    assert ground.loans() == sorted([(second, first), (third, first)])
    assert {row.unverified for row in ground.pages(third).values()} == {2}
    ground.delete(second)
    assert ground.loans() == [(third, first)]
    assert len(ground.bodies(third)) == PAGES


def test_a_lender_that_is_deleted_leaves_its_bodies_until_the_last_borrower_goes(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
        bodies = ground.bodies(first)
        ground.delete(first)
        assert not ground.pages(first)
        assert ground.folder(first).exists()
        assert ground.bodies(second) == bodies
        third = ground.crawl(server.url, previous=second)
        ground.delete(second)
        assert ground.bodies(third) == bodies
        again = ground.platform.again.start(ground.platform.control.job(third), {"fields": {"price": ".price"}}, "v2")
        assert again is not None
    ground.delete(third)
    assert not ground.folder(first).exists()
    assert not ground.loans()


def test_a_previous_run_that_is_deleted_in_the_middle_costs_only_requests(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.submit(server.url, previous=first)
        ground.platform.control.delete(first)
        ground.finish(second)
        assert set(ground.reused(second).values()) == {None}
        assert len(server.hits) == 2 * PAGES
    ground.keep_house()
    assert not ground.folder(first).exists()
    assert len(ground.bodies(second)) == PAGES
    assert not ground.loans()


def test_a_body_that_is_gone_is_fetched_plainly_and_once(ground: Ground) -> None:
    site = a_site()
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        for segment in ground.folder(first).iterdir():
            segment.unlink()
        site.asked.clear()
        second = ground.crawl(server.url, previous=first)
        assert len(site.asked) == PAGES
    assert not site.conditional()
    assert len(ground.bodies(second)) == PAGES


def test_a_body_that_turns_out_to_be_unreadable_is_fetched_without_a_condition(plain_ground: Ground) -> None:
    """Only who must read it finds out: the host was asked already, and is asked once more."""
    ground, site = plain_ground, a_site()
    with serve(site) as server:
        first = ground.crawl(server.url)
        for segment in ground.folder(first).iterdir():
            segment.write_bytes(b"x" * segment.stat().st_size)
        site.asked.clear()
        second = ground.crawl(server.url, previous=first)
        assert len(site.asked) == 2 * PAGES
    assert len(site.conditional()) == PAGES
    assert set(ground.reused(second).values()) == {None}
    assert len(ground.items(second)) == PAGES


def test_a_server_that_knows_only_one_answer_is_not_believed_for_ever(plain_ground: Ground) -> None:
    ground, site = plain_ground, DatedSite(LinkedSite(pages=1), tag='"always"', stubborn=True)
    with serve(site) as server:
        job = ground.crawl(server.url, recrawl=True)
        site.change("/", page("<h1>Other</h1>"))
        for _ in range(MOST_UNVERIFIED):
            job = ground.crawl(server.url, previous=job)
            assert ground.reused(job) == {"/": "not_modified"}
        job = ground.crawl(server.url, previous=job)
    assert ground.reused(job) == {"/": None}
    assert ground.items(job)[0][2] == '{"title": "Other"}'
    assert ground.pages(job)["/"].unverified == 0


@pytest.mark.parametrize("tag", ["*", '"' + "x" * 2_000 + '"', '"caf\u00e9"'])
def test_a_tag_that_cannot_be_sent_back_is_not_used(plain_ground: Ground, tag: str) -> None:
    ground, site = plain_ground, DatedSite(LinkedSite(pages=3), tag=tag)
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
    assert not site.conditional()
    assert set(ground.reused(second).values()) == {None}


@pytest.mark.parametrize(
    ("manners", "condition"),
    [({"weak": True}, "if-none-match"), ({"etags": False, "dates": True}, "if-modified-since")],
)
def test_weak_tags_and_dates_are_sent_back_as_they_came(
    plain_ground: Ground, manners: dict[str, bool], condition: str
) -> None:
    ground, site = plain_ground, a_site(**manners)
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        site.asked.clear()
        second = ground.crawl(server.url, previous=first)
    assert all(condition in headers for _, headers in site.asked)
    assert set(ground.reused(second).values()) == {"not_modified"}


def test_a_date_in_the_future_is_not_sent_back(plain_ground: Ground) -> None:
    ground, site = plain_ground, a_site(etags=False, dates=True, date="Fri, 01 Jan 2100 00:00:00 GMT")
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        ground.crawl(server.url, previous=first)
    assert not site.conditional()


def test_redirects_are_asked_for_like_pages(ground: Ground) -> None:
    site = DatedSite(StatusSite({"/": [redirect("/b")], "/b": [page("<h1>b</h1>")]}))
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
    assert ground.reused(second) == {"/": "not_modified", "/b": "not_modified"}
    status = ground.status(second)
    assert (status.redirects, status.carried) == (1, {"not_modified": 1})
    assert ground.pages(second)["/"].redirect == ground.pages(first)["/"].redirect


def test_dead_letters_are_tried_anew(plain_ground: Ground) -> None:
    ground = plain_ground
    site = DatedSite(StatusSite({"/": [page('<a href="/gone">x</a>')], "/gone": [page("no", status=404)]}))
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
        assert server.count("/gone") == 2
    assert ground.reused(second) == {"/": "not_modified"}
    assert ground.status(second).counters.dead == 1


def test_a_page_that_robots_txt_now_forbids_is_not_carried_over(plain_ground: Ground) -> None:
    ground, site = plain_ground, a_site()
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True)
        site.change("/robots.txt", plain("User-agent: *\nDisallow: /p/3\n"))
        second = ground.crawl(server.url, previous=first, robots=True, max_age="1d")
    assert "/p/3" in ground.pages(first)
    assert not any(path.startswith("/p/3") for path in ground.pages(second))
    assert set(ground.reused(second).values()) == {"fresh"}
    assert ground.status(second).totals.robots


def test_fresh_pages_of_any_job_are_used_without_a_request(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url)
        second = ground.crawl(server.url, max_age="1h")
        assert len(server.hits) == PAGES
        assert ground.status(second).carried == {"fresh": PAGES}
        assert ground.items(second) == ground.items(first)
        assert ground.bodies(second) == ground.bodies(first)
        ground.shift(first, 2 * 3_600_000)
        ground.shift(second, 2 * 3_600_000)
        third = ground.crawl(server.url, max_age="1h")
        assert len(server.hits) == 2 * PAGES
    assert set(ground.reused(third).values()) == {None}


@pytest.mark.parametrize(
    "other",
    [
        {"headers": {"Authorization": "Bearer two"}},
        {"headers": {"Accept-Language": "de"}},
        {"tenant": "other"},
    ],
)
def test_pages_of_another_manner_or_tenant_are_not_used(plain_ground: Ground, other: dict[str, Any]) -> None:
    ground = plain_ground
    given: dict[str, Any] = {"headers": {"Authorization": "Bearer one"}}
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True, **given)
        settings: dict[str, Any] = {**given, **other}
        fetched = ground.crawl(server.url, max_age="1h", **settings)
        assert set(ground.reused(fetched).values()) == {None}
        same = ground.crawl(server.url, max_age="1h", **given)
        assert set(ground.reused(same).values()) == {"fresh"}
        if "tenant" not in other:
            settings["previous"] = first
            again = ground.crawl(server.url, **settings)
            assert set(ground.reused(again).values()) == {None}


def test_pages_are_visited_as_often_as_they_change(ground: Ground) -> None:
    pages = {"/": [page('<a href="/live">l</a><a href="/still">s</a>')], "/still": [page("<h1>still</h1>")]}
    site = DatedSite(StatusSite({**pages, "/live": [page(f"<h1>{n}</h1>") for n in range(9)]}))
    with serve(site) as server:
        settings: dict[str, Any] = {"revisit": "1h..4d", "name": "often", "previous": "last"}
        first = ground.crawl(server.url, **settings)
        assert {row.interval_ms for row in ground.pages(first).values()} == {None}
        ground.shift(first, DAY_MS)
        second = ground.crawl(server.url, **settings)
        rows = ground.pages(second)
        assert ground.reused(second) == {"/": "not_modified", "/live": None, "/still": "not_modified"}
        assert rows["/live"].interval_ms == pytest.approx(DAY_MS / 2, rel=0.01)
        assert rows["/still"].interval_ms == pytest.approx(1.5 * DAY_MS, rel=0.01)
        ground.shift(second, DAY_MS)
        asked = len(server.hits)
        third = ground.crawl(server.url, **settings)
        assert [hit.target for hit in server.hits[asked:]] == ["/live"]
        assert ground.reused(third) == {"/": "not_due", "/live": None, "/still": "not_due"}
        rows = ground.pages(third)
        assert rows["/live"].interval_ms == pytest.approx(DAY_MS / 4, rel=0.01)
        assert rows["/still"].checked_ms == ground.pages(second)["/still"].checked_ms
        ground.shift(third, DAY_MS)
        fourth = ground.crawl(server.url, **settings)
    assert ground.reused(fourth) == {"/": "not_modified", "/live": None, "/still": "not_modified"}
    assert ground.pages(fourth)["/still"].interval_ms == pytest.approx(2.25 * DAY_MS, rel=0.01)


def test_a_page_that_comes_in_full_and_is_the_same_counts_as_unchanged(plain_ground: Ground) -> None:
    ground, site = plain_ground, a_site(etags=False)
    with serve(site) as server:
        first = ground.crawl(server.url, revisit=True)
        ground.shift(first, DAY_MS)
        second = ground.crawl(server.url, revisit=True, previous=first)
    assert {row.reused for row in ground.pages(second).values()} == {None}
    for row in ground.pages(second).values():
        assert row.interval_ms == pytest.approx(1.5 * DAY_MS, rel=0.01)


def test_pages_that_need_no_request_give_the_time_of_their_host_back(plain_ground: Ground) -> None:
    """At one request in ten minutes, a run with requests would take hours."""
    with serve(a_site()) as server:
        plain_ground.crawl(server.url)
        job = plain_ground.crawl(server.url, max_age="1h", rate="6/h")
        assert len(server.hits) == PAGES
    assert plain_ground.status(job).carried == {"fresh": PAGES}


def test_a_job_that_asks_for_nothing_looks_nothing_up(plain_ground: Ground) -> None:
    asked: list[str] = []
    event.listen(
        plain_ground.platform.engine, "before_cursor_execute", lambda *given: asked.append(str(given[2])), named=False
    )
    with serve(a_site()) as server:
        job = plain_ground.crawl(server.url)
    assert asked
    assert not any("outlinks" in statement or "borrowed" in statement for statement in asked)
    row = plain_ground.pages(job)["/"]
    assert (row.checked_ms, row.interval_ms, row.reused, row.body_hash) == (None, None, None, None)
    assert row.etag is not None


def test_what_cannot_be_a_previous_job_is_named(ground: Ground) -> None:
    url = "http://127.0.0.1:9/"
    running = ground.submit(url, open=True)
    for previous, said in (("nosuchjob", "there is no job"), (running, "is running"), ("last", "give this one a name")):
        with pytest.raises(InputError, match=said) as caught:
            ground.submit(url, previous=previous)
        assert caught.value.field == "previous"
    with pytest.raises(InputError, match="there is no job"):
        ground.submit(url, previous=running, tenant="other")
    first = ground.submit(url, previous="last", name="new")
    row = ground.platform.jobs.get(first)
    assert row is not None
    assert row.spec.previous is None
    assert row.spec.keeps_trail
    for job in (running, first):
        ground.platform.control.cancel(job)


def test_explain_tells_that_a_page_was_carried_over(plain_ground: Ground) -> None:
    ground = plain_ground
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
        found = ground.platform.explainer.explain(ground.platform.control.job(second), server.link("/p/2"))
    assert "has not changed (HTTP 304)" in found.summary
    step = next(step for step in found.steps if step.name == "carried_over")
    assert step.detail is not None
    assert step.detail["lender"] == first
    assert any(step.name == "asked" and "HTTP 304" in step.reason for step in found.steps)


def _for_long(_folders: ArchiveFolders) -> timedelta:
    return timedelta(days=9)


def test_segments_that_are_lent_are_no_leftovers(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "UNTOUCHED", timedelta())
    monkeypatch.setattr(leftovers, "SECOND_LOOK", timedelta())
    monkeypatch.setattr(ArchiveFolders, "owned", _for_long)
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
    ground.delete(first)
    for _ in range(3):
        ground.keep_house()
    assert len(ground.bodies(second)) == PAGES
    (ground.folder(first) / "nobody-0001.warc.gz").write_bytes(b"")
    for _ in range(3):
        ground.keep_house()
    assert not (ground.folder(first) / "nobody-0001.warc.gz").exists(), "what nobody points to goes"
    assert len(ground.bodies(second)) == PAGES


def test_a_segment_in_which_only_a_capture_lies_is_in_use(ground: Ground) -> None:
    """A picture may be the first of a new segment, and the page that it is of the last of the one before."""
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
    key = f"{first}/other-0002.warc.gz"
    capture = Capture("screenshot", "image/png", 9, ArchiveRef(key, 0, 9))
    rows = [replace(ground.pages(job)["/"], captures=(capture,)) for job in (first, second)]
    ground.platform.pages.write(rows, [], [])
    engine = ground.platform.engine
    assert key in Orphans(engine).segments_in_use(first)
    assert Loans(engine).segments_lent(first) == Orphans(engine).segments_in_use(first)
    assert not Loans(engine).segments_lent(second)


def test_a_recrawl_is_rebuilt_from_its_rows_when_redis_has_lost_it(ground: Ground) -> None:
    """What is stored is not asked for again, the sums are those of the rows, and borrowed bodies tell their links."""
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.submit(server.url, previous=first, open=True)
        ground.runtime.answer("http.batch")
        before = ground.status(second)
        assert before.carried == {"not_modified": PAGES}
        way = ground.platform.recovery.way
        assert way.begin(second, force=True)
        rebuilt = way.run(second)
        assert (rebuilt.recalled, rebuilt.missing) == (PAGES, 0)
        after = ground.status(second)
        assert (after.reasons, after.counters.saved, after.counters.received) == (
            before.reasons,
            before.counters.saved,
            0,
        )
        ground.platform.control.close(second)
        ground.finish(second)
        assert len(server.hits) == 2 * PAGES
    assert ground.items(second) == ground.items(first)


SPIDER = """
import shoal

@shoal.spider("recrawled")
def parse(page):
    yield {"title": page.css("h1").text, "met": page.meta.get("met", 0)}
    for link in page.css("a"):
        yield shoal.Follow(link.attr("href"), meta={"met": page.meta.get("met", 0) + 1})
"""


def test_what_a_spider_asked_for_is_followed_again_without_it(valkey_url: str, tmp_path: Path) -> None:
    (tmp_path / "spider.py").write_text(SPIDER)
    pages = {"/": [page('<h1>0</h1><a href="/a">a</a>')], "/a": [page('<h1>1</h1><a href="/b">b</a>')]}
    site = DatedSite(StatusSite({**pages, "/b": [page("<h1>2</h1>")]}))
    settings: dict[str, Any] = {"spider": "recrawled", "fields": {}, "name": "spiders", "previous": "last"}
    with (
        a_ground(valkey_url, tmp_path, a_sqlite(tmp_path), spiders=str(tmp_path / "spider.py")) as ground,
        serve(site) as server,
    ):
        first = ground.crawl(server.url, **settings)
        second = ground.crawl(server.url, **settings)
        assert len(ground.items(first)) == 3
        assert ground.items(second) == ground.items(first)
        assert ground.reused(second) == dict.fromkeys(("/", "/a", "/b"), "not_modified")
        assert {path: row.meta for path, row in ground.pages(second).items()} == {
            path: row.meta for path, row in ground.pages(first).items()
        }
        site.change("/", page('<h1>0</h1><a href="/b">b</a>'))
        third = ground.crawl(server.url, **settings)
        assert ground.reused(third) == {"/": None, "/b": "not_modified"}
        assert '"met": 1' in ground.items(third)[1][2], "it was read again, as it was met on another way"
