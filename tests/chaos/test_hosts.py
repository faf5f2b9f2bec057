"""A crawl over several hosts, of which one is cut off and joins again, one comes later, and one is lost for good."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.politeness.windows import Window, worst_window
from tests.chaos.machines import NEWCOMER, WORKERS, Machines, machines
from tests.chaos.target import is_slow, site_map
from tests.long import LONG
from tests.site.hits import Hit
from tests.waiting import wait_until

PAGES, NAMES, RATE = (5_000, 40, 4.0) if LONG else (800, 20, 2.0)
CUT_AT, COME_AT, LOSE_AT = (0.25, 0.5, 0.75) if LONG else (0.15, 0.15, 0.75)
"""Shares of the pages. A worker takes seconds to start, of which the short crawl has not many."""
SUBMITTED = PAGES // 4
PARALLEL = 2
SOCKETS = 32 if LONG else 8
"""Of a worker: one alone would not do, or it might take everything, and the others have nothing to lose."""
LEASE_S = 4.0
JITTER_S = 1.0
"""A request may arrive so much later than it was let go: the first ones of a worker on a busy machine do."""
PATIENCE = timedelta(seconds=120)
POLL_S = 0.02
MAP = site_map(NAMES, PAGES, SUBMITTED)
URLS = MAP.urls
CUT_OFF, LOST, STEADY = WORKERS


@dataclass(slots=True)
class Crawl:
    """A crawl, and what was done to it when: on the clock of the site's log."""

    fleet: Machines
    job: str
    cut_at: float = 0.0
    joined_at: float = 0.0
    lost_at: float = 0.0
    reaped_at_loss: int = 0

    def wait(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, within=PATIENCE, poll_s=POLL_S)

    def reach(self, share: float) -> None:
        """So many of the pages have been asked for."""
        self.wait(lambda: len(self.fleet.site.hits()) >= share * PAGES)

    def see_busy(self, worker: str) -> None:
        """It has just asked a host that takes its time, and so has a lease for a while."""
        before = len(self.hits_of(worker))
        self.wait(lambda: any(is_slow(hit.host_header) for hit in self.hits_of(worker)[before:]))

    def hits_of(self, worker: str) -> list[Hit]:
        return [hit for hit in self.fleet.site.hits() if f"(+{worker})" in hit.agent]

    def stat(self, name: str) -> int:
        return self.fleet.platform.watch.stats().get(name, 0)

    # --- what is done to it -----------------------------------------------------------------------------------------

    def cut_one_off(self) -> None:
        self.see_busy(CUT_OFF)
        self.fleet.hosts[CUT_OFF].cut_off()
        self.cut_at = time.monotonic()

    def join_it_again(self) -> None:
        """When its leases have run out long since, and others have taken its work over."""
        self.wait(lambda: self.stat("reaped") > 0 and time.monotonic() - self.cut_at > 1.5 * LEASE_S)
        self.joined_at = time.monotonic()
        self.fleet.hosts[CUT_OFF].join()

    def lose_one(self) -> None:
        self.see_busy(LOST)
        self.reaped_at_loss = self.stat("reaped")
        self.fleet.hosts[LOST].lose()
        self.lost_at = time.monotonic()

    def finish(self) -> None:
        self.wait(lambda: self.fleet.ask(f"/api/v1/jobs/{self.job}").body["state"] != "running")

    # --- what came of it --------------------------------------------------------------------------------------------

    def visits(self) -> dict[str, list[Hit]]:
        """URL → how often it was asked for, and by whom."""
        found: defaultdict[str, list[Hit]] = defaultdict(list)
        for hit in self.fleet.site.hits():
            found[f"http://{hit.host_header}{hit.target}"].append(hit)
        return found

    def belated(self) -> list[Hit]:
        """What the one that was cut off had sent into the void arrives when it is back, whoever has done it since."""
        after = [hit for hit in self.hits_of(CUT_OFF) if hit.at_monotonic > self.joined_at]
        visits = self.visits()
        return [hit for hit in after if visits[f"http://{hit.host_header}{hit.target}"][0] != hit]

    def asked_again(self) -> dict[str, list[Hit]]:
        """Pages that were asked for more than once."""
        return {url: hits for url, hits in self.visits().items() if url in URLS and len(hits) > 1}

    def worst_windows(self) -> dict[str, Window]:
        """Of each host of the site."""
        belated = set(self.belated())
        timely = _by_host(hit for hit in self.fleet.site.hits() if hit not in belated)
        return {name: worst_window([hit.at_monotonic for hit in hits], RATE) for name, hits in timely.items()}

    def figures(self) -> dict[str, float]:
        """What is worth telling."""
        times = [hit.at_monotonic for hit in self.fleet.site.hits()]
        return {
            "seconds": round(max(times) - min(times), 1),
            "cut off for": round(self.joined_at - self.cut_at, 1),
            "asked again": len(self.asked_again()),
            "belated": len(self.belated()),
            "leases reaped": self.stat("reaped"),
            "refused settlements": self.stat("late"),
            "highest excess": round(max(window.excess for window in self.worst_windows().values()), 2),
        }


def test_a_crawl_over_several_hosts_comes_through_a_partition_a_newcomer_and_a_loss(tmp_path: Path) -> None:
    with machines(tmp_path, LEASE_S, SOCKETS, hosts=NAMES, pages=PAGES, submitted=SUBMITTED) as fleet:
        made = fleet.ask("/api/v1/jobs", {"urls": MAP.starts, "rate": RATE, "parallel": PARALLEL})
        assert made.status == 202, made.body
        crawl = Crawl(fleet, made.body["id"])
        crawl.reach(CUT_AT)
        crawl.cut_one_off()
        crawl.reach(COME_AT)
        fleet.start_worker(NEWCOMER)
        crawl.join_it_again()
        crawl.see_busy(CUT_OFF)
        crawl.see_busy(NEWCOMER)
        crawl.reach(LOSE_AT)
        crawl.lose_one()
        _check_that_the_api_notices_that_redis_is_cut_off_from_it(crawl)
        crawl.finish()
        print(crawl.figures())
        _check_that_every_page_is_stored_once(crawl)
        _check_that_the_sums_of_all_hosts_agree(crawl)
        _check_that_only_pages_of_those_in_trouble_were_asked_for_again(crawl)
        _check_that_every_host_worked_while_it_was_there_and_only_then(crawl)
        _check_that_no_host_was_asked_above_its_limits(crawl)
        crawl.wait(lambda: crawl.stat("late") > 0)  # what the one that was cut off settled was refused


def _check_that_the_api_notices_that_redis_is_cut_off_from_it(crawl: Crawl) -> None:
    fleet = crawl.fleet
    with fleet.hosts["redis"].without(fleet.hosts["api"]):
        crawl.wait(lambda: not fleet.is_ready)
        told = fleet.ask("/readyz")
        assert fleet.ask("/healthz").status == 200
    assert told.status == 503
    assert [part for part, check in told.body["checks"].items() if not check["ok"]] == ["redis"]
    crawl.wait(lambda: fleet.is_ready)


def _check_that_every_page_is_stored_once(crawl: Crawl) -> None:
    rows = list(crawl.fleet.platform.pages.pages(crawl.job))
    urls = [row.url for row in rows]
    assert len(urls) == len(set(urls)) == PAGES
    assert set(urls) == URLS
    for row in rows:
        assert row.archive
        assert crawl.fleet.platform.archive.read(row.archive).url == row.url


def _check_that_the_sums_of_all_hosts_agree(crawl: Crawl) -> None:
    told = json.loads(crawl.fleet.run("status", crawl.job, "--json"))
    answered = crawl.fleet.ask(f"/api/v1/jobs/{crawl.job}").body
    assert told["counters"] == answered["counters"]
    assert (told["state"], told["reconciles"]) == (answered["state"], answered["reconciles"]) == ("finished", True)
    counters = answered["counters"]
    assert counters["admitted"] == counters["done"] + counters["dead"] + counters["dropped"] == PAGES
    assert counters["done"] == PAGES
    assert counters["lost"] == crawl.stat("reaped") > crawl.reaped_at_loss > 0


def _check_that_only_pages_of_those_in_trouble_were_asked_for_again(crawl: Crawl) -> None:
    again = crawl.asked_again()
    assert len(again) <= crawl.stat("reaped")
    belated = set(crawl.belated())
    for url, hits in again.items():
        timely = [hit for hit in hits if hit not in belated]
        assert len(timely) == 1 or _is_of(timely[0], CUT_OFF, LOST), url
        assert len(hits) <= 3, url


def _check_that_every_host_worked_while_it_was_there_and_only_then(crawl: Crawl) -> None:
    times = {worker: [hit.at_monotonic for hit in crawl.hits_of(worker)] for worker in (*WORKERS, NEWCOMER)}
    assert not [at for at in times[CUT_OFF] if crawl.cut_at + JITTER_S < at < crawl.joined_at]
    assert max(times[CUT_OFF]) > crawl.joined_at
    assert min(times[NEWCOMER]) > crawl.cut_at
    assert max(times[LOST]) < crawl.lost_at + JITTER_S
    assert [at for at in times[STEADY] if crawl.cut_at < at < crawl.joined_at]
    assert max(times[STEADY]) > crawl.lost_at
    for worker in (CUT_OFF, STEADY, NEWCOMER):
        assert crawl.fleet.workers[worker].poll() is None, f"{worker} has ended by itself"


def _check_that_no_host_was_asked_above_its_limits(crawl: Crawl) -> None:
    assert max(hit.in_flight for hit in crawl.fleet.site.hits()) == PARALLEL
    for name, late in _by_host(crawl.belated()).items():
        assert len(late) <= PARALLEL, name
    for name, worst in crawl.worst_windows().items():
        assert worst.excess <= RATE * JITTER_S, f"{name}: {worst.describe()}"


def _is_of(hit: Hit, *workers: str) -> bool:
    return any(f"(+{worker})" in hit.agent for worker in workers)


def _by_host(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    found: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        found[hit.host_header].append(hit)
    return found
