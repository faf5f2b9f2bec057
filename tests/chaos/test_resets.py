"""Connections to Redis that are reset at random: nothing is lost, and every worker takes work afterwards."""

from __future__ import annotations

import time
from datetime import timedelta
from random import Random

from tests.chaos.fleet import SOON, Fleet
from tests.fault_proxy import fault_proxy
from tests.long import LONG
from tests.site.generated import LinkedSite, SlowSite
from tests.site.server import serve
from tests.waiting import wait_until

RESETS, SECONDS = (100, 60.0) if LONG else (20, 10.0)
RATE = 40
SEED = 17


def test_every_worker_takes_work_after_many_resets_and_nothing_is_lost(fleet: Fleet) -> None:
    pages, random = int(SECONDS * RATE), Random(SEED)
    direct = fleet.shoal()
    options = ("--rate", str(RATE), "--parallel", "32", "--no-robots", "--detach")
    with serve(LinkedSite(pages=pages, links=20, size=500)) as site, fault_proxy(fleet.url) as proxy:
        shaken = fleet.shoal(SHOAL_REDIS_URL=f"redis://127.0.0.1:{proxy.port}/9", SHOAL_SOCKETS="32")
        with shaken.running("worker"), shaken.running("worker"):
            fleet.wait_for_worker(2)
            job = direct.run("crawl", site.url, *options).out.strip()
            wait_until(lambda: len(site.hits) > 1, within=SOON)
            while proxy.resets < RESETS:
                time.sleep(random.uniform(0, 2 * SECONDS / RESETS))
                proxy.reset_one(random)
            wait_until(lambda: direct.status(job)["state"] == "finished", within=timedelta(seconds=90))
            _all_take_work(fleet)
    done = direct.status(job)
    assert (done["pages"], done["reconciles"]) == (pages, True)
    assert len({hit.target for hit in site.hits}) == pages
    urls = [row["url"] for row in direct.run("results", job, "--pages").records]
    assert len(urls) == len(set(urls)) == pages


def _all_take_work(fleet: Fleet) -> None:
    """A job that is more than enough for one: it lasts until all have come."""
    before = {beat.name: beat.slices for beat in fleet.watch.workers()}
    assert len(before) == 2
    with serve(SlowSite(delay=2, pages=2_000)) as site:
        job = fleet.shoal().run("crawl", site.url, "--rate", "unlimited", "--no-robots", "--detach").out.strip()
        wait_until(
            lambda: all(beat.slices > before[beat.name] for beat in fleet.watch.workers()) and len(site.hits) > 64,
            within=SOON,
        )
        fleet.shoal().run("cancel", job)
