"""Killing parts of a running crawl: every page is stored once, and the sums reconcile."""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import timedelta

import pytest

from tests.chaos.pool import kill_whole, pool_processes
from tests.command import Shoal, embedded_redis
from tests.long import LONG
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES = 5_000 if LONG else 1_000
MOMENTS = (0.25, 0.5, 0.75) if LONG else (0.4,)
RATE = "400"
IN_FLIGHT = 128


def _crawl(site: Server, *options: str) -> tuple[str, ...]:
    return ("crawl", site.url, "--rate", RATE, "--parallel", "64", "--no-robots", "--json", "--quiet", *options)


def _finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def _check_exactly_once(shoal: Shoal, site: Server, out: str, most_repeats: int) -> None:
    done = shoal.status(out.split('"job":"', 1)[1].split('"')[0])
    assert done["state"] == "finished"
    assert done["reconciles"]
    assert done["pages"] == PAGES
    urls = [row["url"] for row in shoal.run("results", done["job"], "--pages").records]
    assert len(urls) == len(set(urls)) == PAGES
    asked = Counter(hit.target for hit in site.hits)
    assert len(asked) == PAGES
    assert sum(asked.values()) - PAGES <= most_repeats


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_a_pool_process_loses_and_doubles_nothing(shoal: Shoal, moment: float) -> None:
    with serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site:
        with shoal.running(*_crawl(site, "--workers", "2")) as process:
            wait_until(lambda: len(site.hits) > PAGES * moment, within=timedelta(seconds=60))
            pool_processes(shoal)[0].kill()
            out = _finish(process)
        _check_exactly_once(shoal, site, out, most_repeats=2 * IN_FLIGHT)


@pytest.mark.long  # the short drill kills workers too
@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_a_whole_worker_leaves_its_work_to_another(shoal: Shoal, moment: float) -> None:
    with serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site:
        with shoal.running("worker") as victim, shoal.running(*_crawl(site, "--workers", "1")) as process:
            wait_until(lambda: len(site.hits) > PAGES * moment, within=timedelta(seconds=60))
            kill_whole(victim)
            out = _finish(process)
        _check_exactly_once(shoal, site, out, most_repeats=2 * IN_FLIGHT)


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_redis_pauses_the_crawl_and_loses_nothing(shoal: Shoal, moment: float) -> None:
    with serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site:
        with shoal.running(*_crawl(site, "--workers", "1")) as process:
            wait_until(lambda: len(site.hits) > PAGES * moment, within=timedelta(seconds=60))
            embedded_redis(shoal).kill()
            out = _finish(process)
        _check_exactly_once(shoal, site, out, most_repeats=2 * IN_FLIGHT)
