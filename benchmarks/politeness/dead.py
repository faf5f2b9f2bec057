"""Fifty hosts that cannot be reached, with 100 URLs each, beside twenty that can, in the same job.

A dead host refuses connections; a worse one, reported without a bar, lets nobody in and says nothing either.
"""

import socket
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from statistics import median

from benchmarks.politeness.ground import FREE, a_ground
from benchmarks.politeness.target import Manner, addresses
from benchmarks.process import free_port
from benchmarks.result import Row

LIVE, PAGES, PAGES_QUICK = 20, 1_000, 30
DEAD, DEAD_URLS, DEAD_URLS_QUICK = 50, 100, 10
ROUNDS, ROUNDS_QUICK = 3, 1
PROCESSES = 2
DONE_S = 180.0
MAX_COST_PERCENT = 5.0
FILLERS = 4
"""Connections that fill the queue of a host that never takes them."""


def measure(quick: bool) -> list[Row]:
    """Without and with dead hosts in turn, then once with silent ones."""
    rounds, pages, urls = (ROUNDS_QUICK, PAGES_QUICK, DEAD_URLS_QUICK) if quick else (ROUNDS, PAGES, DEAD_URLS)
    alone, beside = list[float](), list[float]()
    for number in range(rounds):
        alone.append(_run(f"dead-{number}-without", pages, []))
        port = free_port()
        dead = [f"{address}:{port}" for address in addresses(DEAD, LIVE + 1)]
        beside.append(_run(f"dead-{number}-with", pages, [_url(host, n) for host in dead for n in range(urls)]))
    before = median(alone)
    row = Row(
        f"{DEAD} hosts that refuse connections beside {LIVE} live ones: throughput lost",
        (1 - median(less / plain for plain, less in zip(alone, beside, strict=True))) * 100,
        "%",
        f"{before:,.0f} pages/s without, {median(beside):,.0f} with; the ratio within a round, {rounds} rounds",
        at_most=MAX_COST_PERCENT,
    )
    return [row] if quick else [row, _silent(before, pages, urls)]


def _silent(before: float, pages: int, urls: int) -> Row:
    with _silent_hosts() as hosts:
        rate = _run("dead-silent", pages, [_url(host, number) for host in hosts for number in range(urls)])
    name = f"{DEAD} hosts that leave connections unanswered beside {LIVE} live ones: throughput lost"
    return Row(name, (1 - rate / before) * 100, "%", f"{rate:,.0f} pages/s, once")


def _url(host: str, number: int) -> str:
    return f"http://{host}/p/{number}"


def _run(name: str, pages: int, dead: list[str]) -> float:
    """Pages a second of the live hosts, from the first request to the last."""
    live = addresses(LIVE)
    with a_ground(name, {host: Manner() for host in live}) as ground:
        urls = [url for host in live for url in ground.target.urls(host, pages)]
        job = ground.submit([*dead, *urls], **FREE)
        with ground.workers(PROCESSES):
            hits = ground.target.wait_for(lambda hits: len(hits) >= len(urls), within_s=DONE_S)
            ground.platform.control.cancel(job)
    rate = len(urls) / (hits[-1].at_monotonic - hits[0].at_monotonic)
    print(f"{name}: {rate:,.0f} pages/s", file=sys.stderr, flush=True)
    return rate


@contextmanager
def _silent_hosts() -> Generator[list[str]]:
    """Sockets that listen, whose queue is full, and from which nobody ever takes a connection."""
    with ExitStack() as stack:
        hosts: list[str] = []
        for address in addresses(DEAD, LIVE + 1):
            listening = stack.enter_context(socket.socket())
            listening.bind((address, 0))
            listening.listen(0)
            port = int(listening.getsockname()[1])
            for _ in range(FILLERS):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex((address, port))
            hosts.append(f"{address}:{port}")
        yield hosts
