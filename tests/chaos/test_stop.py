"""A worker that is told to stop with many fetches under way: what can end ends, the rest is others' at once."""

from __future__ import annotations

import subprocess
import time
from datetime import timedelta

import psutil

from tests.chaos.fleet import SOON, Fleet
from tests.chaos.test_frozen import frozen
from tests.site.generated import page_number, page_target
from tests.site.reply import NOT_FOUND, Reply, page, redirect
from tests.site.server import Server, serve
from tests.waiting import wait_until

FETCHES = 200
GRACE_S = 15
"""The default."""
SHORT_S, LONG_S = 10.0, 120.0
HOSTS = tuple(f"127.0.1.{number}" for number in range(1, 21))
BUSY = "busy.test"
SLACK_S = 1.0
"""On a machine that does other things as well."""


class Waits:
    """`/` answers at once; every other page after ten seconds, or not within any patience."""

    def respond(self, path_and_query: str, hits: int) -> Reply:
        number = page_number(path_and_query, FETCHES + 1)
        if number is None:
            return NOT_FOUND
        if number:
            return page(f"<title>{number}</title>", delay=SHORT_S if number % 2 else LONG_S)
        links = "".join(f'<a href="{page_target(n)}">{n}</a>' for n in range(1, FETCHES + 1))
        return page(f"<title>Start</title>{links}")


def test_fetches_under_way_end_or_go_to_others_at_once(fleet: Fleet) -> None:
    leaving = fleet.shoal(SHOAL_LEASE_SECONDS="60")
    # It was asked for ten seconds and did not answer: the host is slow by then, which is not what this is about.
    staying = fleet.shoal(SHOAL_LEASE_SECONDS="60", SHOAL_GRACE_SECONDS="1", SHOAL_SLOW_SHARE="1")
    with serve(Waits()) as site, leaving.running("worker", "--concurrency", "2") as worker:
        fleet.wait_for_worker()
        options = ("--rate", "unlimited", "--parallel", "unlimited", "--no-robots", "--timeout", "180", "--detach")
        job = leaving.run("crawl", site.url, *options).out.strip()
        wait_until(lambda: len(site.hits) > FETCHES, within=SOON)
        with staying.running("worker", "--concurrency", "2"):
            fleet.wait_for_worker(2)
            asked = time.monotonic()
            worker.terminate()
            wait_until(lambda: worker.poll() is not None, within=SOON)
            exit_s = time.monotonic() - asked
            wait_until(lambda: len(site.hits) > FETCHES + FETCHES // 2, within=SOON)
            counters = staying.status(job)["counters"]
            given_back = _last_line(worker, "slice_done")
        finished, interrupted = _sorted_by_delay(site)
        taken = [hit.at_monotonic - asked for hit in site.hits[FETCHES + 1 :]]
    print(f"\nexit {exit_s:.1f} s after SIGTERM; others went on with {len(taken)} interrupted requests")
    print(f"between {taken[0]:.2f} and {taken[-1]:.2f} s after it; {given_back}")
    assert worker.returncode == 0
    assert exit_s <= GRACE_S + SLACK_S
    assert taken[-1] - taken[0] <= 1 + SLACK_S
    assert taken[-1] <= exit_s + SLACK_S  # they were given back before the exit
    assert counters["done"] == 1 + FETCHES // 2
    assert finished == {1}  # nothing that could end was fetched twice
    assert interrupted == {2}
    assert counters["lost"] == counters["retries"] == 0


class Elsewhere:
    """Its robots.txt is on a host that nobody may ask for a while."""

    def respond(self, path_and_query: str, hits: int) -> Reply:
        return redirect(f"http://{BUSY}/", 302) if path_and_query == "/robots.txt" else page("1")


def test_others_go_on_with_unstarted_leases_within_a_second_of_sigterm(fleet: Fleet) -> None:
    """They wait for their turn on another host: nothing of theirs is under way."""
    shoal = fleet.shoal(SHOAL_LEASE_SECONDS="60")
    with (
        serve(Elsewhere(), HOSTS) as site,
        shoal.running("worker", "--concurrency", "1") as leaving,
        shoal.running("worker", "--concurrency", "1") as staying,
    ):
        fleet.wait_for_worker(2)
        fleet.take_turns(BUSY, timedelta(minutes=5))
        with frozen(_family(staying)):
            urls = "\n".join(f"http://{host}:{site.port}/" for host in HOSTS)
            shoal.run("scrape", "-f", "-", "--rate", "unlimited", "--detach", stdin=urls)
            wait_until(lambda: len(site.hits) == len(HOSTS), within=SOON)
        asked = time.monotonic()
        leaving.terminate()
        wait_until(lambda: len(site.hits) == 2 * len(HOSTS), within=SOON)
        leaving.communicate(timeout=60)
        taken = [hit.at_monotonic - asked for hit in site.hits[len(HOSTS) :]]
    print(f"\nothers went on with {len(taken)} unstarted requests {taken[0]:.2f} to {taken[-1]:.2f} s after SIGTERM")
    assert leaving.returncode == 0
    assert taken[-1] <= 1 + SLACK_S


def _family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    first = psutil.Process(process.pid)
    return [first, *first.children(recursive=True)]


def _last_line(worker: subprocess.Popen[str], event: str) -> str:
    _, err = worker.communicate()
    return [line for line in err.splitlines() if f'"{event}"' in line][-1]


def _sorted_by_delay(site: Server) -> tuple[set[int], set[int]]:
    """How often the short pages, and the long ones, were asked for."""
    short = {site.count(page_target(number)) for number in range(1, FETCHES + 1, 2)}
    return short, {site.count(page_target(number)) for number in range(2, FETCHES + 1, 2)}
