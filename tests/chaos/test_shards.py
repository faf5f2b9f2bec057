"""Crawls by real processes over three shards, which fall, lose their last writes, and are retired meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from tests.command import Shoal, end
from tests.shards import CONTROL, Servers, running_shards
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

SOON = timedelta(seconds=60)
HOSTS = [f"127.0.0.{n}" for n in range(1, 13)]
PAGES = 40
RATE = 12
STORM_S = 90


@dataclass(frozen=True, slots=True)
class Crawl:
    """One that is under way."""

    shoal: Shoal
    shards: Servers
    site: Server
    urls: list[str]
    process: Popen[str]

    def goes_on(self, pages: int) -> None:
        """So many more are asked for."""
        before = len(self.site.hits)
        wait_until(lambda: len(self.site.hits) > before + pages or self.process.poll() is not None, within=SOON)

    def finish(self, within_s: int = 150) -> dict[str, Any]:
        """The job's last status: every page is stored, and counted once."""
        _, said = self.process.communicate(timeout=within_s)
        assert self.process.returncode == 0, said
        (job,) = json.loads(self.shoal.run("jobs", "--json").out)
        status = json.loads(self.shoal.run("status", job["job"], "--json").out)
        pages = self.shoal.run("results", job["job"], "--pages").records
        assert sorted(page["url"] for page in pages) == sorted(self.urls)
        assert status["counters"]["done"] == status["counters"]["admitted"] == len(self.urls)
        return status


@contextmanager
def crawling(tmp_path: Path, rate: int = RATE) -> Generator[Crawl]:
    """All pages of all hosts are named: what is lost is not found by another way."""
    with running_shards("a", "b", "c") as shards, serve(LinkedSite(PAGES, 5, 1_000), HOSTS) as site:
        urls = [site.link(f"/p/{n}", host) for host in HOSTS for n in range(PAGES)]
        shoal = Shoal(
            tmp_path / "home",
            (("SHOAL_REDIS_URL", shards.control), ("SHOAL_SHARDS", shards.named), ("SHOAL_LEASE_SECONDS", "3")),
        )
        (tmp_path / "urls").write_text("\n".join(urls))
        options = ("--rate", str(rate), "--no-robots", "--workers", "2", "-o", str(tmp_path / "out.jsonl"))
        process = shoal.start("scrape", "-f", str(tmp_path / "urls"), *options)
        try:
            wait_until(lambda: len(site.hits) > len(urls) // 10, within=SOON)
            yield Crawl(shoal, shards, site, urls, process)
        finally:
            end(process)


def test_nothing_is_lost_when_a_shard_is_away_and_another_is_retired(tmp_path: Path) -> None:
    with crawling(tmp_path) as crawl:
        with crawl.shards.away("b"):
            crawl.goes_on(len(crawl.urls) // 10)  # the others
        moved = crawl.shoal.run("frontier", "rebalance", "--retire", "c", "--json")
        assert moved.code == 0, moved.err
        assert {move["from"] for move in json.loads(moved.out)} == {"c"}
        crawl.finish()
        table = {row["shard"]: row for row in json.loads(crawl.shoal.run("frontier", "shards", "--json").out)}
        assert {name: len(row["slots"]) for name, row in table.items()} == {"a": 8, "b": 8, "c": 0}
        per_host = Counter(hit.host_header for hit in crawl.site.hits)
    assert max(per_host.values()) <= 2 * PAGES  # those that were under way when their shard went may be asked again


def test_nothing_is_lost_when_shards_and_their_control_fall(tmp_path: Path) -> None:
    """One loses its last second, the next all that it had, then the control Redis its last second."""
    with crawling(tmp_path) as crawl:
        crawl.shards.save()
        crawl.goes_on(20)
        crawl.shards.mortals["b"].restart()
        crawl.goes_on(40)
        crawl.shards.mortals["c"].empty()
        crawl.goes_on(40)
        crawl.shards.save()
        crawl.shards.mortals[CONTROL].restart()
        crawl.finish()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_in_a_long_storm(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with crawling(tmp_path, rate=2) as crawl:
        deadline = time.monotonic() + STORM_S
        while time.monotonic() < deadline and crawl.process.poll() is None:
            name = dice.choice(["a", "b", "c", CONTROL])
            mortal = crawl.shards.mortals[name]
            match dice.choice(["restart", "empty", "away", "frozen", "move", "save"]):
                case "restart":
                    mortal.restart()
                case "empty":
                    mortal.empty()
                case "away":
                    with crawl.shards.away(name):
                        time.sleep(dice.uniform(0.5, 5))
                case "frozen":
                    with mortal.frozen():
                        time.sleep(dice.uniform(0.5, 6))
                case "move":
                    crawl.shoal.run("frontier", "rebalance", "--retire", dice.choice("abc"))
                case _:
                    crawl.shards.save()
            time.sleep(dice.uniform(0.5, 4))
        crawl.finish(within_s=400)
