"""What is told of changes when pages were carried over: what was not fetched has not changed, whatever else holds."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from shoal.store.job_rows import JobRow
from tests.contract.databases import DATABASES, a_database
from tests.contract.recrawling import Ground, a_ground
from tests.site.dated import DatedSite
from tests.site.generated import StatusSite
from tests.site.reply import page
from tests.site.server import serve

DAY_MS = 86_400_000


@pytest.fixture(params=DATABASES)
def ground(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Ground]:
    with a_ground(valkey_url, tmp_path, a_database(request, tmp_path)) as ground:
        yield ground


def a_site() -> DatedSite:
    front = page('<h1>Front</h1><a href="/a">a</a><a href="/b">b</a><a href="/c">c</a>')
    return DatedSite(StatusSite({"/": [front], **{f"/{name}": [page(f"<h1>{name}</h1>")] for name in "abcn"}}))


def row(ground: Ground, job: str) -> JobRow:
    return ground.platform.control.job(job)


def kinds(ground: Ground, job: str, since: str | None = None) -> dict[str, str]:
    """Path → what became of it since the run that is compared with when nobody says."""
    run, changes = row(ground, job), ground.platform.changes
    found = changes.pages(run, row(ground, since or changes.earlier(run)))
    return {"/" + change.page.url.split("/", 3)[3]: change.kind.value for change in found}


def evolve(site: DatedSite) -> None:
    site.change("/", page('<h1>Front</h1><a href="/a">a</a><a href="/b">b</a><a href="/n">n</a>'))
    site.change("/a", page("<h1>Another</h1>"))


EVOLVED = {"/": "changed", "/a": "changed", "/b": "unchanged", "/c": "gone", "/n": "new"}


@pytest.mark.parametrize("settings", [{"changes": True}, {}], ids=["digests", "bodies"])
def test_each_page_has_its_kind_whether_it_was_fetched_or_carried_over(
    ground: Ground, settings: dict[str, Any]
) -> None:
    site = a_site()
    with serve(site) as server:
        first = ground.crawl(server.url, recrawl=True, **settings)
        evolve(site)
        second = ground.crawl(server.url, previous=first, **settings)
        third = ground.crawl(server.url, previous=second, **settings)
    assert ground.reused(second)["/b"] == "not_modified"
    assert kinds(ground, second) == EVOLVED
    assert kinds(ground, third) == dict.fromkeys(("/", "/a", "/b", "/n"), "unchanged")
    assert kinds(ground, third, first) == EVOLVED


def test_a_page_carried_over_is_unchanged_without_a_look_at_its_body(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True)
        second = ground.crawl(server.url, previous=first)
    shutil.rmtree(ground.folder(first))
    assert set(kinds(ground, second).values()) == {"unchanged"}


def test_a_run_with_other_rules_of_noise_has_digests_of_its_own(ground: Ground) -> None:
    with serve(a_site()) as server:
        first = ground.crawl(server.url, recrawl=True, changes=True)
        second = ground.crawl(server.url, previous=first, changes={"ignore": ["h1"]})
        whole = ground.crawl(server.url, changes={"ignore": ["h1"]})
    assert set(ground.reused(second).values()) == {"not_modified"}
    digests = {path: page.digest for path, page in ground.pages(second).items()}
    assert digests == {path: page.digest for path, page in ground.pages(whole).items()}
    assert digests["/a"] != ground.pages(first)["/a"].digest


def test_noise_does_not_bring_visits(ground: Ground) -> None:
    """A page that comes in full and says what it said before is visited less, whatever else is in it."""
    site = a_site()
    settings: dict[str, Any] = {"revisit": "1h..4d", "changes": {"ignore": [".ad"]}}
    with serve(site) as server:
        first = ground.crawl(server.url, **settings)
        ground.shift(first, DAY_MS)
        site.change("/a", page('<h1>a</h1><p class="ad">buy</p>'))
        site.change("/b", page("<h1>not b</h1>"))
        second = ground.crawl(server.url, previous=first, **settings)
    rows = ground.pages(second)
    assert (rows["/a"].reused, rows["/b"].reused) == (None, None)
    assert rows["/a"].interval_ms == pytest.approx(1.5 * DAY_MS, rel=0.01)
    assert rows["/b"].interval_ms == pytest.approx(0.5 * DAY_MS, rel=0.01)
