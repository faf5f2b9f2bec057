"""Faults in the middle of a recrawl: every page is there once, with its items and its bytes, carried over or not."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

from tests.chaos.pool import pool_processes
from tests.chaos.test_lost_frontier import KillableServer
from tests.chaos.test_lost_frontier import fleet as fleet
from tests.chaos.test_lost_frontier import redis as redis
from tests.command import Shoal
from tests.site.dated import DatedSite
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES = 600
RATE = "400"
IN_FLIGHT = 128


def _crawl(site: Server, *options: str) -> tuple[str, ...]:
    polite = ("--rate", RATE, "--parallel", "64", "--no-robots", "--workers", "2")
    return (
        "crawl",
        site.url,
        *polite,
        "--field",
        "title=h1",
        "--name",
        "runs",
        "--previous",
        "last",
        "--json",
        *options,
    )


def _first(shoal: Shoal, site: Server) -> str:
    done = shoal.run(*_crawl(site, "--quiet"))
    assert done.code == 0, done.err
    return done.json["job"]


def _check(shoal: Shoal, site: Server, first: str, second: str) -> None:
    """Each page once; those whose worker was lost may have been asked for twice, and only these."""
    done = shoal.status(second)
    assert done["state"] == "finished"
    assert done["reconciles"]
    assert done["pages"] == PAGES
    assert done["carried"] == {"not_modified": PAGES}
    items = [json.dumps(item, sort_keys=True) for item in shoal.run("results", second).records]
    assert len(items) == len(set(items)) == PAGES
    assert sorted(items) == sorted(json.dumps(item, sort_keys=True) for item in shoal.run("results", first).records)
    asked = Counter(hit.target for hit in site.hits)
    assert len(asked) == PAGES
    assert sum(asked.values()) - 2 * PAGES <= 2 * IN_FLIGHT
    body = shoal.run("page", second, site.link("/p/7"))
    assert "<h1>Page 7</h1>" in body.out


def test_kill_9_in_a_recrawl_loses_and_doubles_nothing(shoal: Shoal) -> None:
    with serve(DatedSite(LinkedSite(pages=PAGES, links=30, size=2_000))) as site:
        first = _first(shoal, site)
        with shoal.running(*_crawl(site, "--quiet")) as process:
            wait_until(lambda: len(site.hits) > PAGES * 1.4, within=timedelta(seconds=60))
            pool_processes(shoal)[0].kill()
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
        _check(shoal, site, first, json.loads(out.splitlines()[-1])["job"])


def test_flushall_in_a_recrawl_costs_no_page(fleet: Shoal, redis: KillableServer) -> None:
    with serve(DatedSite(LinkedSite(pages=PAGES, links=30, size=2_000))) as site:
        first = _first(fleet, site)
        with fleet.running(*_crawl(site, "--quiet")) as process:
            wait_until(lambda: len(site.hits) > PAGES * 1.5, within=timedelta(seconds=60))
            redis.flush()
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
        _check(fleet, site, first, json.loads(out.splitlines()[-1])["job"])
