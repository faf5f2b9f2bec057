"""A page that kills whoever fetches it: it is given up, says so, and takes no neighbour along."""

from __future__ import annotations

import psutil

from tests.chaos.pool import pool_processes
from tests.command import Shoal
from tests.site.reply import NOT_FOUND, Reply, page
from tests.site.server import serve

NEIGHBOURS = 100
POISON = "/poison"


class Poisoned:
    """`/` links to slow pages, and in their middle to one that kills every worker process of a home."""

    def __init__(self, shoal: Shoal) -> None:
        self._shoal = shoal
        self.killed: list[int] = []

    def respond(self, path_and_query: str, hits: int) -> Reply:
        if path_and_query == "/":
            half = NEIGHBOURS // 2
            targets = [f"/n/{n}" for n in range(half)] + [POISON] + [f"/n/{n}" for n in range(half, NEIGHBOURS)]
            return page("<title>All</title>" + "".join(f'<a href="{target}">x</a>' for target in targets))
        if path_and_query == POISON:
            self._kill()
            return Reply(drop=True)
        return page("<title>Neighbour</title>", delay=0.3) if path_and_query.startswith("/n/") else NOT_FOUND

    def _kill(self) -> None:
        for process in pool_processes(self._shoal):
            self.killed.append(process.pid)
            process.kill()
            psutil.wait_procs([process], timeout=5)


def test_a_page_that_kills_its_worker_is_a_dead_letter_and_all_its_neighbours_complete(shoal: Shoal) -> None:
    poisoned = Poisoned(shoal)
    with serve(poisoned) as site:
        options = ("--rate", "unlimited", "--parallel", "64", "--no-robots", "--workers", "1", "--json", "--quiet")
        done = shoal.run("crawl", site.url, *options)
        assert done.code == 0, done.err
        assert site.count(POISON) == len(poisoned.killed) == 3
    status = shoal.status(done.json["job"])
    assert (status["state"], status["reconciles"]) == ("finished", True)
    assert (status["counters"]["done"], status["counters"]["dead"]) == (NEIGHBOURS + 1, 1)
    assert status["counters"]["lost"] > 3, "neighbours were lost with the worker, too"
    (letter,) = shoal.run("dead", done.json["job"], "--format", "jsonl").records
    assert letter["url"] == site.link(POISON)
    assert letter["reason"] == "worker_lost"
    assert letter["detail"] == "3 workers were lost while they fetched it"
