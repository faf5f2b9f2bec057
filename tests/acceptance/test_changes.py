"""A site that changes between two crawls: the command says what has, and the dashboard shows it."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator
from io import StringIO
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.test_dashboard import EVIL
from tests.acceptance.test_up import ask, running_up
from tests.browsers import browser_path
from tests.command import Shoal
from tests.site.reply import NOT_FOUND, Reply, page, plain
from tests.site.server import Server, serve
from tests.waiting import wait_until
from tests.windows import a_window

__all__ = ["browser_path"]

FAST = ("--rate", "unlimited", "--workers", "1", "--name", "shop", "--json", "-q")
TAKE = ("--each", "li", "--field", "sku=b", "--field", "price=i")


class Shop:
    """Ten shelves; later one is gone, one is new, one has another text, and all say another time."""

    later = False

    def respond(self, target: str, hits: int) -> Reply:
        del hits
        if target == "/robots.txt":
            return plain("User-agent: *\nDisallow:\n")
        shelves = [*range(9), 10] if self.later else [*range(10)]
        if target == "/":
            links = "".join(f'<a href="/shelf/{shelf}">shelf</a> ' for shelf in range(11) if shelf in shelves)
            return page(f"<h1>Shop</h1><nav>{links}</nav>")
        shelf = int(target.removeprefix("/shelf/"))
        return page(self._shelf(shelf)) if shelf in shelves else NOT_FOUND

    def _shelf(self, shelf: int) -> str:
        time = "12 March 2026" if self.later else "3 minutes ago"
        price = "9.99" if self.later and shelf == 4 else "1.50"
        evil = EVIL.replace("<", "&lt;")
        advert = f"<p class=ad>advert {'b' if self.later else 'a'}</p>"
        return f"<h1>{evil}</h1><p>{time}</p>{advert}<ul><li><b>s{shelf}</b> <i>{price}</i></li></ul>"


@pytest.fixture
def shop() -> Generator[tuple[Server, Shop]]:
    site = Shop()
    with serve(site) as server:
        yield server, site


def _crawl(shoal: Shoal, server: Server) -> str:
    done = shoal.run("crawl", server.url, *FAST, *TAKE, "--ignore", ".ad")
    assert done.code == 0, done.err
    return done.json["job"]


def test_the_command_says_what_has_changed_between_two_crawls(
    shoal: Shoal, shop: tuple[Server, Shop], tmp_path: Path
) -> None:
    server, site = shop
    earlier = _crawl(shoal, server)
    alone = shoal.run("changes", earlier)
    assert (alone.code, "no finished run of 'shop'" in alone.err) == (1, True)
    site.later = True
    run = _crawl(shoal, server)
    shown = shoal.run("changes", run, "--exit-code")
    assert shown.code == 1
    assert f"{earlier} → {run}: 12 pages: 1 new, 1 changed, 1 gone, 9 unchanged, 0 unknown" in shown.out
    *changes, last = shoal.run("changes", run, "--since", earlier, "--json").records
    assert {(row["kind"], row["url"].removeprefix(server.url), row["why"]) for row in changes} == {
        ("new", "shelf/10", ""),
        ("changed", "shelf/4", "content"),
        ("gone", "shelf/9", "not_linked"),
    }
    assert (last["since"], last["summary"]["unchanged"]) == (earlier, 9)
    one = shoal.run("changes", run, "--url", server.link("/shelf/4"))
    assert "-s4 1.50" in one.out
    assert "+s4 9.99" in one.out
    assert "[date]" in one.out

    table = tmp_path / "pages.csv"
    assert shoal.run("changes", run, "--kind", "changed", "--diff", "-o", str(table)).code == 0
    (row,) = csv.DictReader(StringIO(table.read_text(encoding="utf-8")))
    assert (row["kind"], row["status_after"], "+s4 9.99" in row["diff"]) == ("changed", "200", True)
    parquet = tmp_path / "items.parquet"
    assert shoal.run("changes", run, "--items", "--key", "sku", "-o", str(parquet)).code == 0
    assert parquet.read_bytes()[:4] == b"PAR1"
    *items, last = shoal.run("changes", run, "--items", "--key", "sku", "--json").records
    assert {(row["kind"], row["key"]) for row in items} == {("new", "s10"), ("changed", "s4"), ("gone", "s9")}
    assert last["summary"]["fields"] == {"price": 1}
    assert shoal.run("changes", run, "--kind", "chnged").code == 2
    assert shoal.run("changes", run, "--since", run).code == 2
    assert shoal.run("changes", run, "--diff", "--items").code == 2
    _compare_older_runs(shoal, server, site)


def _compare_older_runs(shoal: Shoal, server: Server, site: Shop) -> None:
    """Without digests, and under other rules, from what is in the archive."""
    site.later = False
    bare = shoal.run("crawl", server.url, *FAST).json["job"]
    site.later = True
    strict = shoal.run("crawl", server.url, *FAST, "--changes").json["job"]
    *_, last = shoal.run("changes", strict, "--since", bare, "--json").records
    assert json.dumps(last["summary"]["why"]["changed"]) == '{"content": 9}'


def test_the_dashboard_shows_changes_and_differences(
    shoal: Shoal, shop: tuple[Server, Shop], browser_path: str
) -> None:
    server, site = shop
    spec = {"urls": [server.url], "name": "shop", "rate": "unlimited", "changes": {"ignore": [".ad"]}}
    with running_up(shoal, "--workers", "1") as (_, url), a_window(browser_path, url) as shown:
        jobs: list[str] = []
        for later in (False, True):
            site.later = later
            jobs.append(ask(f"{url}/api/v1/jobs", spec)["id"])
            wait_until(lambda: ask(f"{url}/api/v1/jobs/{jobs[-1]}")["state"] == "finished")
        shown.goto(f"/#/jobs/{jobs[1]}")
        shown.get_by_role("link", name="Changes").click()
        expect(shown.locator(".tile", has_text="Unchanged").locator("dd")).to_have_text("9")
        expect(shown.locator("tbody tr")).to_have_count(3)
        row = shown.locator("tbody tr", has_text="/shelf/4")
        expect(row).to_contain_text("changed")
        row.get_by_role("button", name="Look").click()
        expect(shown.locator(".diff ins")).to_have_text("+s4 9.99\n")
        expect(shown.locator(".diff del")).to_have_text("-s4 1.50\n")
        expect(shown.locator(".diff")).to_contain_text("window.hit=1")
        shown.get_by_label("Kind").select_option("gone")
        expect(shown.locator("tbody tr")).to_have_count(1)
        expect(shown.locator("tbody tr")).to_contain_text("not_linked")
        shown.goto(f"/#/jobs/{jobs[0]}/changes")
        expect(shown.get_by_text("no finished run of 'shop' before")).to_be_visible()
