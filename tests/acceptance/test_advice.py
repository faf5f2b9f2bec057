"""How many workers would be useful, with one that works: not more than a host allows, more when many hosts wait."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from tests.command import Shoal
from tests.site.generated import SlowSite, page_target
from tests.site.server import serve
from tests.waiting import wait_until

SOON = timedelta(seconds=40)
HOSTS = [f"127.0.1.{number}" for number in range(1, 201)]
QUEUE = "http.batch"


def _advice(shoal: Shoal) -> dict[str, Any]:
    (row,) = shoal.run("workers", "advise", "--queues", QUEUE, "--json").json["queues"]
    return row


def _submit(shoal: Shoal, urls: list[str], *options: str) -> str:
    done = shoal.run("scrape", "-f", "-", "--no-robots", "--detach", *options, stdin="\n".join(urls))
    assert done.code == 0, done.err
    return done.out.strip()


def test_advice_follows_what_the_hosts_allow(shoal: Shoal) -> None:
    small = Shoal(shoal.home, (("SHOAL_SOCKETS", "4"), ("SHOAL_GRACE_SECONDS", "1")))
    serving = ("worker", "--queues", "http.high,http.batch,http.slow")
    with serve(SlowSite(delay=0.5, pages=3001), HOSTS) as site, small.running(*serving):
        one = [site.link(page_target(n), HOSTS[0]) for n in range(1, 3001)]
        polite = _submit(shoal, one, "--rate", "2")
        wait_until(lambda: len(site.hits) >= 8, within=SOON)
        for seen in (8, 14, 20):  # it stays so
            wait_until(lambda seen=seen: len(site.hits) >= seen, within=SOON)
            advice = _advice(shoal)
            assert advice["useful"] == advice["processes"] == 1, advice
            assert "hosts at their limits give 2 pages a second" in advice["why"]
        shoal.run("cancel", polite)

        many = [site.link(page_target(n), host) for host in HOSTS for n in range(1, 16)]
        free = _submit(shoal, many, "--rate", "unlimited", "--parallel", "unlimited")
        wait_until(lambda: _advice(shoal)["useful"] > 1, within=SOON)
        wait_until(lambda: "a process does" in _advice(shoal)["why"], within=SOON)
        assert (
            3 <= _advice(shoal)["useful"] <= 16
        )  # 50 pages a second are wanted, and four sockets do eight at the best
        shown = shoal.run("workers", "advise").out
        assert "what waits is done within a minute at" in shown
        assert "all http" in shown
        (worker,) = json.loads(shoal.run("workers", "list", "--json").out)
        assert (worker["sockets"], worker["active"]) == (4, 1)
        assert 0 < worker["pace"] <= 10

        shoal.run("cancel", free)
        wait_until(lambda: _advice(shoal)["useful"] == 0, within=SOON)
        assert _advice(shoal)["why"] == "nothing waits"


def test_what_is_no_queue_is_named(shoal: Shoal) -> None:
    done = shoal.run("workers", "advise", "--queues", "http.batch,control")
    assert done.code == 2
    assert "--queues: nothing is fetched from control; there are http.high" in done.err
    assert shoal.run("workers", "list").err.strip() == "no worker lives; start one with: shoal worker"
