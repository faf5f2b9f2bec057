"""One host that takes five seconds for each of its 10,000 pages, beside nineteen fast ones in the same job."""

import sys
from statistics import median

from benchmarks.politeness.ground import FREE, a_ground
from benchmarks.politeness.target import Hit, Manner, addresses
from benchmarks.result import Row

FAST_HOSTS = 19
PAGES, PAGES_QUICK = 1_000, 40
SLOW_URLS, SLOW_URLS_QUICK = 10_000, 300
SLOW_S, SLOW_QUICK_S = 5.0, 2.5
ROUNDS, ROUNDS_QUICK = 3, 1
PROCESSES = 2
DONE_S = 180.0
MAX_LATER_PERCENT = 10.0


def measure(quick: bool) -> list[Row]:
    """With and without the slow host, in turn."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    alone, beside = list[float](), list[float]()
    for number in range(rounds):
        for slow, found in ((False, alone), (True, beside)):
            found.append(_run(f"slow-{number}-{'with' if slow else 'without'}", slow=slow, quick=quick))
            print(f"slow {number + 1}: {found[-1]:.2f} s {'with' if slow else 'without'}", file=sys.stderr, flush=True)
    later = (median(longer / plain for plain, longer in zip(alone, beside, strict=True)) - 1) * 100
    note = f"{median(beside):.2f} s against {median(alone):.2f} s; the ratio is taken within a round, {rounds} rounds"
    name = f"{FAST_HOSTS} fast hosts beside one that takes {SLOW_S:g} s: later by"
    return [Row(name, later, "%", note, at_most=MAX_LATER_PERCENT)]


def _run(name: str, *, slow: bool, quick: bool) -> float:
    """Seconds from the first request to the last one of the fast hosts."""
    pages, urls_of_slow = (PAGES_QUICK, SLOW_URLS_QUICK) if quick else (PAGES, SLOW_URLS)
    *fast, lame = addresses(FAST_HOSTS + 1)
    plan = {host: Manner() for host in fast} | {lame: Manner(delay=SLOW_QUICK_S if quick else SLOW_S)}
    with a_ground(name, plan) as ground:
        quick_ones = {ground.target.host(host) for host in fast}
        urls = [url for host in fast for url in ground.target.urls(host, pages)]
        job = ground.submit([*(ground.target.urls(lame, urls_of_slow) if slow else []), *urls], **FREE)
        with ground.workers(PROCESSES):
            hits = ground.target.wait_for(lambda hits: _count(hits, quick_ones) >= len(urls), within_s=DONE_S)
            ground.platform.control.cancel(job)
        return _last(hits, quick_ones) - hits[0].at_monotonic


def _count(hits: list[Hit], hosts: set[str]) -> int:
    return sum(hit.host_header in hosts for hit in hits)


def _last(hits: list[Hit], hosts: set[str]) -> float:
    return max(hit.at_monotonic for hit in hits if hit.host_header in hosts)
