"""The hostile web: one worker, hosts that lie, stall, loop and explode, and what becomes of every request to them."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from shoal.core.job_status import JobStatus
from shoal.wiring import Platform, open_platform
from tests.command import Shoal, a_home
from tests.site.generated import LinkedSite, page_target
from tests.site.hostile import bombs, charsets, framing, slowness, tls, traps
from tests.site.hostile.case import PAGE, REDIRECT, Case
from tests.site.hostile.cases import PLAN
from tests.site.hostile.process import HostileSite, hostile_site
from tests.site.server import Server, serve
from tests.waiting import wait_until

PATIENCE = timedelta(seconds=60)
CASES = (*slowness.CASES, *framing.CASES, *bombs.CASES, *tls.CASES, *charsets.CASES, *traps.REDIRECTS)
SLOW = tuple(case for case in CASES if any(reason.startswith("timeout_") for reason in case.fate))
QUICK = tuple(case for case in CASES if case not in SLOW)
ROBOTS = tuple(case for case in slowness.ROBOTS_CASES if case.name != "robots-slow")  # that one takes its 15 seconds
LISTS = ("robots", "slow", "quick")
CROWD = 50
THRONG: Mapping[str, str] = {
    f"127.67.{part}.{number + 1}": name
    for part, name in enumerate(("slow-headers", "slow-body", "robots-silent", "robots-slow"))
    for number in range(CROWD // 2)
}
"""Fifty hosts from which bytes drip, and fifty whose robots.txt never comes."""
LIVE = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
LIVE_PAGES = 25
DEPTH, BUDGET = 5, 20


@dataclass(frozen=True, slots=True)
class Row:
    """A page or a dead letter."""

    url: str
    end: str


@dataclass(frozen=True, slots=True)
class Crawls:
    """What was crawled, and the rows that came of it."""

    site: HostileSite
    shoal: Shoal
    platform: Platform
    folder: Path
    jobs: dict[str, str] = field(default_factory=dict[str, str])
    rows: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    """Job → its pages and dead letters."""

    def submit(self, command: str, name: str, urls: list[str], **spec: Any) -> str:
        """The job's id."""
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"urls": urls, "rate": "unlimited", "retries": 0, **spec}))
        done = self.shoal.run(command, "-j", str(file), "--detach", "--json")
        assert done.code == 0, done.err
        self.jobs[name] = done.json["job"]
        return self.jobs[name]

    def status(self, name: str) -> JobStatus:
        return self.platform.control.status(self.jobs[name])

    def finish(self, name: str) -> None:
        """Wait for the end of a job, and read what came of it."""
        wait_until(lambda: self.status(name).state.ended, within=PATIENCE)
        dead = self.shoal.run("dead", self.jobs[name], "--format", "jsonl").records
        pages = self.shoal.run("results", self.jobs[name], "--pages", "--format", "jsonl").records
        self.rows[name] = [Row(row["url"], row["reason"]) for row in dead]
        self.rows[name] += [Row(row["url"], REDIRECT if row["redirect"] else PAGE) for row in pages]

    def ends(self, case: Case) -> list[str]:
        """How the requests to the host of a case have ended."""
        host = self.site.host(case.name)
        rows = (row for name in LISTS for row in self.rows[name])
        return [row.end for row in rows if urlsplit(row.url).netloc == host]


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Generator[Crawls]:
    """One worker for all of these: it is part of the test that it outlives them."""
    folder = tmp_path_factory.mktemp("hostile")
    with hostile_site(folder, {**PLAN, **THRONG}) as site, a_home(folder) as home:
        # Our own authority is trusted, so that each certificate fails for what is wrong with it.
        variables = {
            "SSL_CERT_FILE": str(site.authority),
            "SHOAL_EGRESS_ALLOW": "127.0.0.0/8",
            "SHOAL_GRACE_SECONDS": "1",
        }
        shoal = Shoal(home.home, tuple(variables.items()))
        with (
            shoal.running("worker", "--concurrency", "2"),
            open_platform(shoal.settings) as platform,
        ):
            made = Crawls(site, shoal, platform, folder)
            _submit_all(made)
            for name in made.jobs:
                made.finish(name)
            yield made


def _submit_all(crawls: Crawls) -> None:
    link = crawls.site.link
    crawls.submit("scrape", "robots", [link(case.name) for case in ROBOTS])
    crawls.submit("scrape", "slow", [link(case.name) for case in SLOW], timeout=2, robots=False)
    fields = {"heading": "h1"}
    crawls.submit("scrape", "quick", [link(case.name) for case in QUICK], timeout=60, robots=False, fields=fields)
    crawls.submit("crawl", "depth", [link("calendar")], depth=DEPTH)
    # A job of its own for each trap, and another address, so that its hits can be told from others.
    for name in ("calendar", "endless-depth", "session-ids"):
        crawls.submit("crawl", name, [link(name, "/start")], pages=BUDGET, robots=False)


# --- the table -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*CASES, *ROBOTS], ids=lambda case: case.name)
def test_a_hostile_host_gets_one_end_and_the_right_one(crawls: Crawls, case: Case) -> None:
    ends = crawls.ends(case)
    if case.fate == (REDIRECT,):
        assert set(ends) == {REDIRECT}
    else:
        (last,) = [end for end in ends if end != REDIRECT]
        assert last in case.fate


def test_every_url_has_one_row_and_the_sums_agree(crawls: Crawls) -> None:
    for name in LISTS:
        counters, rows = crawls.status(name).counters, crawls.rows[name]
        assert set(Counter(row.url for row in rows).values()) == {1}
        assert len(rows) == counters.admitted == counters.done + counters.dead


def test_no_worker_died_and_nothing_was_a_fault_of_ours(crawls: Crawls) -> None:
    for name in LISTS:
        assert crawls.status(name).counters.lost == 0
        assert not {"internal_error", "worker_lost"} & {row.end for row in crawls.rows[name]}


def test_a_loop_of_redirects_is_walked_once(crawls: Crawls) -> None:
    for name, length in (("redirect-loop-of-2", 2), ("redirect-loop-of-3", 3)):
        asked = Counter(hit.target for hit in crawls.site.hits if hit.host_header == crawls.site.host(name))
        assert asked == Counter({"/": 1, **{f"/hop/{step}": 1 for step in range(length)}})


# --- traps ---------------------------------------------------------------------------------------------------------


def test_a_calendar_without_end_stops_at_the_depth(crawls: Crawls) -> None:
    months = {f"/calendar/{month}{view}" for month in range(1, DEPTH + 1) for view in ("", "?view=week")}
    wanted = [Row(crawls.site.link("calendar", target), PAGE) for target in {"/", *months}]
    assert set(crawls.rows["depth"]) == set(wanted)


@pytest.mark.parametrize("name", ["calendar", "endless-depth", "session-ids"])
def test_a_site_without_end_stops_at_the_number_of_pages(crawls: Crawls, name: str) -> None:
    counters = crawls.status(name).counters
    assert (counters.admitted, counters.done, len(crawls.rows[name])) == (BUDGET, BUDGET, BUDGET)
    if name != "calendar":  # two jobs go there
        assert sum(hit.host_header == crawls.site.host(name) for hit in crawls.site.hits) == BUDGET


# --- charsets ------------------------------------------------------------------------------------------------------


def test_what_is_no_text_is_stored_and_exported_as_valid_utf_8(crawls: Crawls) -> None:
    wanted = {crawls.site.link(page.case.name): page.heading for page in charsets.PAGES}
    shown = _exported(crawls, "jsonl")
    assert b"\0" not in shown
    lines = shown.decode("utf-8").splitlines()
    found = {row["url"]: row["heading"] for row in map(json.loads, lines) if row["url"] in wanted}
    assert found == wanted


def test_a_table_of_them_is_valid_too(crawls: Crawls) -> None:
    """But for a sign before what a spreadsheet would run."""
    wanted = {crawls.site.link(page.case.name): page.heading for page in charsets.PAGES}
    rows = csv.DictReader(io.StringIO(_exported(crawls, "csv").decode("utf-8-sig"), newline=""))
    found = {row["url"]: row["heading"] for row in rows if row["url"] in wanted}
    assert found.keys() == wanted.keys()
    assert all(text.endswith(wanted[url]) and len(text) <= len(wanted[url]) + 1 for url, text in found.items())


def _exported(crawls: Crawls, kind: str) -> bytes:
    file = crawls.folder / f"items.{kind}"
    done = crawls.shoal.run("results", crawls.jobs["quick"], "-o", str(file))
    assert done.code == 0, done.err
    return file.read_bytes()


# --- hosts that hang -----------------------------------------------------------------------------------------------


def test_a_hundred_hosts_that_hang_hold_up_nobody_else(crawls: Crawls) -> None:
    """They have requests for most of the sockets of the worker, each of them for longer than we wait."""
    with serve(LinkedSite(LIVE_PAGES, links=5, size=1_000), LIVE) as live:
        hanging = [f"http://{address}:{crawls.site.port}/p/{number}" for address in THRONG for number in range(8)]
        wanted = _live_urls(live)
        job = crawls.submit("scrape", "throng", [*hanging, *wanted], timeout=600, retries=20, parallel=2)
        wait_until(lambda: len(live.hits) == len(wanted) + len(LIVE), within=PATIENCE)
        wait_until(lambda: crawls.status("throng").counters.done == len(wanted), within=PATIENCE)
        counters = crawls.status("throng").counters
        assert crawls.shoal.run("cancel", job).code == 0
    assert counters.dead == 0
    assert counters.leased > 0
    asked = {hit.host_header for hit in crawls.site.hits} & {f"{address}:{crawls.site.port}" for address in THRONG}
    assert len(asked) > CROWD


def _live_urls(live: Server) -> list[str]:
    return [live.link(page_target(number), host) for host in LIVE for number in range(LIVE_PAGES)]
