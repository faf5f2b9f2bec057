"""Crawls by real processes whose pages lead from shard to shard, while shards are killed, are away and are retired.

Every page but the first is found by one link only, which is on another host: a link that is lost is a page that is
missing, with all behind it.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.test_shards import HOSTS, SOON, STORM_S, Crawl
from tests.command import Shoal, end
from tests.shards import CONTROL, running_shards
from tests.site.reply import HTML, NOT_FOUND, Reply
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 600
BRANCHES = 5
RATE = 6


def host_of(number: int) -> str:
    return HOSTS[number % len(HOSTS)]


class Tree:
    """Pages of several hosts; each leads to some that nothing else leads to."""

    def __init__(self) -> None:
        self.port = 0

    def url(self, number: int) -> str:
        return f"http://{host_of(number)}:{self.port}/n/{number}"

    def respond(self, path_and_query: str, hits: int) -> Reply:
        del hits
        digits = path_and_query.removeprefix("/n/")
        if not digits.isdigit() or int(digits) >= PAGES:
            return NOT_FOUND
        first = int(digits) * BRANCHES + 1
        links = "".join(f'<a href="{self.url(n)}">x</a>' for n in range(first, min(first + BRANCHES, PAGES)))
        return Reply(200, (("Content-Type", HTML),), f"<html><body>{digits}{links}</body></html>".encode())


@contextmanager
def crawling(tmp_path: Path, rate: int = RATE) -> Generator[Crawl]:
    tree = Tree()
    with running_shards("a", "b", "c") as shards, serve(tree, HOSTS) as site:
        tree.port = site.port
        shoal = Shoal(
            tmp_path / "home",
            (("SHOAL_REDIS_URL", shards.control), ("SHOAL_SHARDS", shards.named), ("SHOAL_LEASE_SECONDS", "3")),
        )
        options = ["--rate", str(rate), "--no-robots", "--workers", "2", "-o", str(tmp_path / "out.jsonl")]
        for host in HOSTS:
            options += ["--host", f"{host}:{site.port}"]
        process = shoal.start("crawl", tree.url(0), *options)
        try:
            wait_until(lambda: len(site.hits) > PAGES // 10, within=SOON)
            yield Crawl(shoal, shards, site, [tree.url(n) for n in range(PAGES)], process)
        finally:
            end(process)


def most_for_one(crawl: Crawl) -> int:
    """How often a page was asked for, at the most."""
    return max(Counter((hit.host_header, hit.target) for hit in crawl.site.hits).values())


def test_no_link_is_lost_when_shards_are_killed(tmp_path: Path) -> None:
    """Each with what it has written since its last save: links that others have settled the pages of."""
    with crawling(tmp_path) as crawl:
        for name in ("b", "c", "a"):
            crawl.shards.save()
            crawl.goes_on(30)
            crawl.shards.mortals[name].restart()
            crawl.goes_on(40)
        crawl.finish()
        assert most_for_one(crawl) <= 1 + 3  # a lease may be hit by each of the falls


def test_no_link_is_lost_that_leads_to_a_shard_which_is_away_and_comes_back_older(tmp_path: Path) -> None:
    """What is owed to it is paid, what it has lost is sent again; then it is retired."""
    with crawling(tmp_path) as crawl:
        crawl.shards.save()
        crawl.goes_on(30)
        with crawl.shards.away("b"):
            crawl.goes_on(60)
        crawl.shards.mortals["b"].restart()
        wait_until(lambda: crawl.shoal.run("frontier", "rebalance", "--retire", "b").code == 0, within=SOON)
        crawl.finish()
        table = {row["shard"]: row for row in json.loads(crawl.shoal.run("frontier", "shards", "--json").out)}
        assert table["b"]["slots"] == []
        assert most_for_one(crawl) <= 1 + 2


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_no_link_is_lost_in_a_long_storm(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with crawling(tmp_path, rate=1) as crawl:
        deadline = time.monotonic() + STORM_S
        while time.monotonic() < deadline and crawl.process.poll() is None:
            name = dice.choice(["a", "b", "c", CONTROL])
            match dice.choice(["restart", "restart", "empty", "away", "frozen", "move", "save", "save"]):
                case "restart":
                    crawl.shards.mortals[name].restart()
                case "empty":
                    crawl.shards.mortals[name].empty()
                case "away":
                    with crawl.shards.away(name):
                        time.sleep(dice.uniform(0.5, 5))
                case "frozen":
                    with crawl.shards.mortals[name].frozen():
                        time.sleep(dice.uniform(0.5, 6))
                case "move":
                    crawl.shoal.run("frontier", "rebalance", "--retire", dice.choice("abc"))
                case _:
                    crawl.shards.save()
            time.sleep(dice.uniform(0.5, 4))
        crawl.finish(within_s=400)
