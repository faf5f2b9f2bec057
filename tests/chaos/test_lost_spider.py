"""Redis emptied in the middle of a spider's crawl: what was found again has its callback, and what was sent along."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.chaos.test_lost_frontier import KillableServer
from tests.chaos.test_lost_frontier import fleet as fleet
from tests.chaos.test_lost_frontier import redis as redis
from tests.command import REPOSITORY, Shoal
from tests.site.bookshop import Bookshop
from tests.site.catalogue import SHELF
from tests.site.server import serve
from tests.waiting import wait_until

SPIDER = REPOSITORY / "examples" / "books_spider.py"
OPTIONS = ("--spider", "books", "--drop-tracking", "--no-robots", "--rate", "80", "--parallel", "16", "--workers", "2")


@pytest.mark.parametrize("archive", ["--archive", "--no-archive"])
def test_a_spiders_crawl_survives_the_loss_of_redis(fleet: Shoal, redis: KillableServer, archive: str) -> None:
    shoal = replace(fleet, extra=(*fleet.extra, ("SHOAL_SPIDERS", str(SPIDER))))
    shop = Bookshop(slow_seconds=0.2)
    with serve(shop) as site:
        with shoal.running("crawl", site.url, *OPTIONS, archive, "--json", "--quiet") as process:
            wait_until(lambda: len(site.hits) > 100, within=timedelta(seconds=60))
            redis.flush()
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
        done = json.loads(out.splitlines()[-1])
        assert done["reconciles"]
        assert "done:spider_failed" not in done["reasons"]
        items = shoal.run("results", done["job"]).records
        shelves: dict[str, list[str]] = {}
        for book in shop.books:
            shelves.setdefault(book.category, []).append(book.title)
        assert len(items) == len(shop.books)
        assert {(item["title"], item["shelf"], item["found_on_page"]) for item in items} == {
            (title, shelf, number // SHELF + 1)
            for shelf, titles in shelves.items()
            for number, title in enumerate(titles)
        }
