"""Every job in `examples` does what it says, on sites of our own."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.command import Shoal
from tests.site.bookshop import Bookshop
from tests.site.gazette import RECENT, Gazette
from tests.site.server import Server, serve
from tests.site.shop.goods import ON_A_PAGE, name_of
from tests.site.shop.shop import Shop

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = ("--workers", "1", "--rate", "unlimited", "-o", "-")


@contextmanager
def an_example(name: str, folder: Path, site: Any, address: str) -> Generator[tuple[Path, Server]]:
    """The job file, with the address of a real site in place of the one that it names."""
    with serve(site) as server:
        job = folder / name
        job.write_text((EXAMPLES / name).read_text().replace(address, server.url))
        yield job, server


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.yaml") if f'"{path.name}"' not in text] == []


def test_a_shop_gives_books_with_prices_and_can_be_read_again(shoal: Shoal, tmp_path: Path) -> None:
    with an_example("shop.yaml", tmp_path, Bookshop(slow_seconds=0.1), "https://books.example/") as (job, site):
        done = shoal.run("crawl", "-j", str(job), "--pages", "60", *QUICK)
        assert done.code == 0, done.err
        assert done.records
        assert all(record["price"]["currency"] == "GBP" and record["title"] for record in done.records)
        name: str = json.loads(shoal.run("jobs", "--json").out)[0]["job"]
        before = len(site.hits)
        again = shoal.run("extract", name, "--spec", str(EXAMPLES / "again.yaml"), "--as", "v2", "--workers", "1")
        assert again.code == 0, again.err
        rows = shoal.run("results", name, "--version", "v2").records
        assert {row["title"] for row in rows} == {record["title"] for record in done.records}
        assert all(isinstance(row["stock"], int) for row in rows)
        changed = shoal.run("diff", name, "v1", "v2", "--json")
        assert changed.code == 0, changed.err
        assert len(site.hits) == before


def test_a_newspaper_gives_its_recent_stories_as_markdown(shoal: Shoal, tmp_path: Path) -> None:
    with an_example("news.yaml", tmp_path, Gazette(), "https://news.example/") as (job, site):
        done = shoal.run("crawl", "-j", str(job), *QUICK)
        assert done.code == 0, done.err
        titles = {record["title"] for record in done.records}
        assert {*RECENT[:9], "/rss/1", "/rss/2", "/rss/3"} <= titles
        assert not [title for title in titles if title.startswith(("/2024/", "/2025/", "/rss/4"))]
        assert all(record["metadata"] for record in done.records)
        assert max(site.count(target) for target in RECENT) <= 1


def test_an_api_gives_an_item_for_each_product(shoal: Shoal, tmp_path: Path) -> None:
    with an_example("json_api.yaml", tmp_path, Shop(), "https://shop.example/") as (job, _):
        done = shoal.run("crawl", "-j", str(job), *QUICK)
        assert done.code == 0, done.err
        names = {record["name"] for record in done.records}
        assert names == {name_of(number) for number in range(1, 3 * ON_A_PAGE + 1)}
