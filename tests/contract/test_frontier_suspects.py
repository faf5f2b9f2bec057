"""Requests that were lost with a worker: whoever kills workers is found out, and takes no neighbour along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
import redis

from shoal.core.model import ALL_QUEUES, Lease, Outcome, Request
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier
from tests.contract.frontier_calls import (
    MINUTE,
    counters,
    lease,
    lease_soon,
    pages,
    prove,
    reap_soon,
    settle,
    start,
    targets,
)

COMPANY = 16
EXPIRED = timedelta()


def lose(frontier: Frontier, count: int) -> tuple[Lease, ...]:
    """A worker dies with so many requests in its hands."""
    lost = lease(frontier, count, EXPIRED)
    assert len(lost) == count
    assert reap_soon(frontier)[0] == count
    return lost


def losses(leases: Sequence[Lease]) -> Counter[int]:
    return Counter(each.request.losses for each in leases)


def test_a_process_has_few_requests_that_were_lost_before_and_any_number_of_others(frontier: Frontier) -> None:
    prove(frontier, "a.test")
    start(frontier, "job", pages("a.test", 100))
    lose(frontier, 40)
    first = lease(frontier, 100)
    assert losses(first) == {1: COMPANY, 0: 60}
    assert targets(first) == [f"/{n}" for n in (*range(COMPANY), *range(40, 100))]
    assert lease(frontier) == ()
    settle(frontier, first[:6])
    second = lease_soon(frontier)
    assert targets(second) == [f"/{n}" for n in range(COMPANY, COMPANY + 6)]
    assert losses(second) == {1: 6}


def test_the_last_chance_is_taken_with_no_other_suspect_beside_it(frontier: Frontier) -> None:
    prove(frontier, "a.test", "b.test")
    start(frontier, "job", pages("a.test", 3) + pages("b.test", 3))
    lose(frontier, 6)
    assert reap_soon_after(frontier, lease(frontier, 6, EXPIRED)) == 6
    fresh = pages("c.test", 2)
    frontier.admit("job", fresh)
    first = lease(frontier)
    assert losses(first) == {2: 1, 0: 2}
    for _ in range(5):
        assert losses(lease(frontier)) == {}
        settle(frontier, first)
        first = lease_soon(frontier)
        assert losses(first) == {2: 1}
    settle(frontier, first)
    assert (counters(frontier, "job").done, counters(frontier, "job").lost) == (8, 12)


def reap_soon_after(frontier: Frontier, lost: Sequence[Lease]) -> int:
    assert lost
    return reap_soon(frontier)[0]


def test_each_process_has_suspects_of_its_own(client: redis.Redis, prefix: str) -> None:
    one, other = Frontier(client, prefix), Frontier(client, prefix)
    prove(one, "a.test")
    start(one, "job", pages("a.test", 40))
    lose(one, 40)
    assert losses(lease(one)) == losses(lease_soon(other)) == {1: COMPANY}
    assert losses(lease_soon(Frontier(client, prefix))) == {1: 8}


def test_a_dead_process_does_not_keep_others_from_its_requests(client: redis.Redis, prefix: str) -> None:
    one = Frontier(client, prefix)
    prove(one, "a.test")
    start(one, "job", pages("a.test", 30))
    lose(one, 30)
    assert reap_soon_after(one, lease(one, 30, EXPIRED)) == COMPANY
    assert losses(lease_soon(Frontier(client, prefix))) == {2: 1}
    assert losses(lease_soon(Frontier(client, prefix))) == {2: 1}


def test_what_was_lost_too_often_is_handed_out_to_be_given_up(frontier: Frontier) -> None:
    request = replace(pages("a.test", 1)[0], losses=3)
    start(frontier, "job", [request, *[replace(page, losses=3) for page in pages("b.test", 20)]])
    assert losses(lease(frontier)) == {3: 21}


def test_a_rival_that_has_only_suspects_holds_up_nobody(frontier: Frontier) -> None:
    prove(frontier, "a.test")
    start(frontier, "job", pages("a.test", 20))
    lose(frontier, 20)
    held = lease(frontier)
    assert losses(held) == {1: COMPANY}
    start(frontier, "rival", pages("a.test", 50, first=100))
    assert losses(lease_soon(frontier)) == {0: 50}


def test_a_url_with_commas_is_not_a_suspect(frontier: Frontier) -> None:
    prove(frontier, "a.test")
    odd = [replace(page, depth=12, attempt=1) for page in pages("a.test", 60)]
    odd += [Request(Url("https", "b.test", f"/,1,1,1/{n}")) for n in range(40)]
    start(frontier, "job", odd)
    assert losses(lease(frontier)) == {0: 100}


@pytest.mark.parametrize("guilty", ["/0", "/7", "/15", "/32"])
def test_a_page_that_kills_its_worker_is_found_out_and_its_neighbours_live(
    client: redis.Redis, prefix: str, guilty: str
) -> None:
    """Processes with forty sockets die with all that they have as soon as the page is among it."""
    frontier, deaths = Frontier(client, prefix), 0
    start(frontier, "job", [page for host in ("a.test", "b.test", "c.test") for page in pages(host, 33)])
    done: dict[str, int] = {}
    buried: list[str] = []
    while counters(frontier, "job").done + len(buried) < 99:
        batch = frontier.lease(queues=ALL_QUEUES, limit=40, lease_for=MINUTE)
        last = [each for each in batch.leases if each.request.losses >= 3]
        settle(frontier, last, Outcome.DEAD, reason="worker_lost")
        buried += targets(last)
        fetched = [each for each in batch.leases if each not in last]
        if any(str(each.request.url) == f"https://a.test{guilty}" for each in fetched):
            deaths += 1
            frontier.renew({each.group for each in fetched}, EXPIRED)
            frontier.reap()
            frontier = Frontier(client, prefix)
        else:
            settle(frontier, fetched)
            done.update((str(each.request.url), each.request.losses) for each in fetched)
    assert (buried, deaths) == ([guilty], 3)
    assert max(done.values()) == 2
