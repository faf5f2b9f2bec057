"""Browsers under pages that behave badly and workers that are killed: bounded memory, nothing lost, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from tests.browsers import browser_path
from tests.chaos.fleet import SOON, Fleet
from tests.chaos.leaking_browser import PAGE_BYTES as LEAK
from tests.chaos.leaking_browser import script_around
from tests.command import Shoal, end, wait_for_nobody
from tests.long import LONG
from tests.site.directory import FILLED, Directory, copies
from tests.site.reply import page
from tests.site.server import serve
from tests.site.shop import pages
from tests.stored import log_events, page_rows
from tests.trees import BROWSER, RENDERER, alive, command_of, watched
from tests.waiting import wait_until

__all__ = ["browser_path"]

pytestmark = pytest.mark.usefixtures("browser_path")

FAST = ("--rate", "unlimited", "--no-robots")
QUEUES = ("--queues", "browser.high,browser.batch,browser.slow")
MB = 1_000_000
LEAKY_PAGES = 500 if LONG else 60
BROWSER_MB = 600
"""The budget of all browsers of the worker process."""
TOLERANCE_MB = 60
"""What pages can fill between two looks."""
PAGE_MB = 150
"""A page that takes more is given up; those that leak on purpose take 40, and what every page takes."""
PYTHON_MB = 300
"""The command, the supervisor, the Celery process and the one that renders."""
A_PAGE = page(FILLED)


def _with(shoal: Shoal, **variables: str) -> Shoal:
    return Shoal(shoal.home, (*shoal.extra, *variables.items()))


def test_a_site_that_leaks_on_purpose_costs_no_more_than_the_budget(
    shoal: Shoal, browser_path: str, tmp_path: Path
) -> None:
    """Each page keeps 40 MB until it ends, and leaves 8 MB in its browser, which only the end of that gives back."""
    small = _with(
        shoal,
        SHOAL_BROWSER=str(script_around(browser_path, tmp_path)),
        SHOAL_BROWSER_MEGABYTES=str(BROWSER_MB),
        SHOAL_BROWSER_PAGE_MEGABYTES=str(PAGE_MB),
        SHOAL_BROWSER_RECYCLE_PAGES="500",
    )
    site = Directory(copies(page(pages.LEAKS), LEAKY_PAGES))
    with serve(site) as server:
        crawl = small.start("crawl", server.url, "--browser", *FAST, "--workers", "1", "--json", "--quiet")
        try:
            with watched(crawl.pid) as tree:
                out, err = crawl.communicate(timeout=1_200)
        finally:
            end(crawl)
        asked = Counter(hit.target for hit in server.hits)
    assert crawl.returncode == 0, err
    assert not tree.browsers
    wait_for_nobody(small)
    why = Counter(line["why"] for line in log_events(small, "browser_replaced"))
    put_off = len(log_events(small, "page_put_off"))
    figures = f"browsers {tree.peak_below / MB:.0f} MB at most, with Python {tree.peak / MB:.0f} MB; {dict(why)}"
    print(f"{site.size} pages: {figures}; {put_off} pages put off")
    done = json.loads(out.splitlines()[-1])
    assert (done["pages"], done["reconciles"]) == (site.size, True)
    assert sum(asked.values()) - len(asked) <= put_off
    assert why["memory"] >= LEAKY_PAGES * LEAK // (BROWSER_MB * MB)
    assert tree.samples > 10
    assert 0 < tree.peak_below < (BROWSER_MB + TOLERANCE_MB) * MB, figures
    assert tree.peak < (BROWSER_MB + TOLERANCE_MB + PYTHON_MB) * MB, figures


def _family(worker: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(worker.pid).children(recursive=True)


def _renders(worker: subprocess.Popen[str]) -> bool:
    words = [word for process in _family(worker) for word in command_of(process)]
    return RENDERER in words and any(word.startswith(BROWSER) for word in words)


@pytest.mark.parametrize(
    "whole",
    [pytest.param(True, id="the-whole-worker", marks=pytest.mark.long), pytest.param(False, id="the-celery-process")],
)
def test_kill_9_leaves_no_browser_and_others_do_its_pages(fleet: Fleet, *, whole: bool) -> None:
    shoal = fleet.shoal()
    site = Directory(copies(page(FILLED, delay=0.7), 10))
    with serve(site) as server:
        job = shoal.run("crawl", server.url, "--browser", *FAST, "--detach").out.strip()
        with shoal.running("worker", *QUEUES) as worker:
            wait_until(lambda: len(server.hits) >= 4 and _renders(worker), within=SOON)
            family = _family(worker)
            (celery,) = [process for process in family if process.ppid() == worker.pid]
            if whole:
                worker.kill()
                os.killpg(celery.pid, signal.SIGKILL)
                worker.communicate(timeout=30)
            else:
                celery.kill()
            wait_until(lambda: not alive(family), within=timedelta(seconds=10))
            with shoal.running("worker", *QUEUES) if whole else nullcontext():  # else its supervisor starts another
                wait_until(lambda: {hit.target for hit in server.hits} >= site.targets, within=SOON)
                wait_until(lambda: shoal.status(job)["state"] == "finished", within=SOON)
    status = shoal.status(job)
    assert (status["pages"], status["counters"]["dead"]) == (site.size, 0)


def test_pages_that_spin_or_eat_end_by_themselves_and_their_neighbours_are_done(shoal: Shoal) -> None:
    good = copies(A_PAGE, 20)
    bad = {"/spins": page(pages.SPINS_LATER), "/eats": page(pages.EATS)}
    halves = list(good.items())
    site = Directory({**dict(halves[:5]), **bad, **dict(halves[5:])})
    small = _with(shoal, SHOAL_BROWSER_PAGE_MEGABYTES="200")
    with serve(site) as server:
        limits = ("--timeout", "4", "--retries", "0", "--wait", "1s")
        done = small.run("crawl", server.url, "--browser", *limits, *FAST, "--workers", "1", "--json")
        rows = page_rows(small, done.json["job"])
    assert {row.url for row in rows} == {server.link(target) for target in ("/", *good)}
    ends = {letter["url"]: letter["reason"] for letter in small.run("dead", done.json["job"]).records}
    assert ends == {server.link("/spins"): "render_timeout", server.link("/eats"): "page_too_big"}


@pytest.mark.parametrize("pool", [pytest.param("prefork", marks=pytest.mark.long), "solo"])
def test_both_pools_replace_their_browsers_and_lose_no_page(shoal: Shoal, pool: str) -> None:
    site = Directory(copies(A_PAGE, 17))
    short = _with(shoal, SHOAL_POOL=pool, SHOAL_BROWSER_RECYCLE_PAGES="5")
    with serve(site) as server:
        done = short.run("crawl", server.url, "--browser", *FAST, "--workers", "1", "--json")
        asked = Counter(hit.target for hit in server.hits)
    assert done.code == 0, done.err
    assert (done.json["pages"], done.json["reconciles"]) == (site.size, True)
    assert set(asked.values()) == {1}
    replaced = [line for line in log_events(short, "browser_replaced") if line["why"] == "pages"]
    assert [line["pages"] for line in replaced] == [5, 5, 5]


def test_a_process_without_a_pool_that_has_grown_is_replaced_after_its_slice(shoal: Shoal) -> None:
    """64 megabytes are less than any worker takes."""
    site = Directory(copies(page(FILLED, delay=0.5), 14))
    small = _with(shoal, SHOAL_POOL="solo", SHOAL_RECYCLE_MEGABYTES="64", SHOAL_SLICE_SECONDS="2")
    with serve(site) as server:
        done = small.run("crawl", server.url, "--browser", *FAST, "--workers", "1", "--json")
        asked = Counter(hit.target for hit in server.hits)
    assert done.code == 0, done.err
    assert (done.json["pages"], done.json["reconciles"]) == (site.size, True)
    assert set(asked.values()) == {1}
    assert log_events(small, "worker_recycled")
    assert not log_events(small, "worker_died")
