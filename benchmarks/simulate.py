"""The real frontier on real Redis servers, with simulated fetches: what a page costs when millions wait.

    python -m benchmarks.simulate --urls 10000000 --hosts 100000 --workers 200 --shards 1
    python -m benchmarks.simulate --compare          1M and 10M URLs, then 1 shard and 4
    python -m benchmarks.simulate --quick            small, to see that it works

All URLs are queued first. Then virtual workers lease, "fetch" at once, and settle, a batch of 128 each, so that as many
requests are under way as in a fleet. Time is what the servers count themselves: the processor time of the whole server,
network included.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TypeVar

from benchmarks import machine, valkey
from shoal.core.model import ALL_QUEUES, Lease, Outcome, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier
from shoal.frontier.where import FrontierPlace

T = TypeVar("T")

JOB = "simulated"
BATCH, LEASES = 2_000, 128
SAMPLE = 500_000
"""Pages that are leased and settled; the rest only waits."""
KNOWN = 200_000
"""Links that lead to known pages."""
LATENCY, BODY = timedelta(milliseconds=150), 20_000
MOST_S = 1_800


@dataclass(frozen=True, slots=True)
class Size:
    """What is simulated."""

    urls: int
    hosts: int
    workers: int
    shards: int
    drivers: int
    """Processes that play the workers."""
    pages: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; times are microseconds of Redis."""

    size: Size
    bytes_url: float
    admit_us: float
    known_us: float
    """A link that leads to a known page."""
    page_us: float
    """Leased and settled, over all servers."""
    busiest_us: float
    """The share of the busiest server, per page of all."""
    pages_s: float
    """On this machine, with all processes on its cores."""
    driver_us: float
    """Processor time of the virtual workers, per page."""

    @property
    def capacity(self) -> float:
        """Pages a second that the servers could take if each had a core of its own."""
        return 1e6 / self.busiest_us


def simulate(size: Size) -> Figures:
    """One run on fresh servers."""
    with ExitStack() as stack:
        control = stack.enter_context(valkey.serve(durable=False))
        shards = {f"s{n}": stack.enter_context(valkey.serve(durable=False)) for n in range(size.shards)}
        spread = shards if size.shards > 1 else {}
        servers = [control, *spread.values()]
        place = FrontierPlace(f"{control.url}/2", "sim", {name: f"{server.url}/0" for name, server in spread.items()})
        frontier = place.frontier()
        frontier.create(JOB, JobSpec(rate=2, parallel=2), size.urls)
        drivers = stack.enter_context(ProcessPoolExecutor(size.drivers))
        meters, memory = [valkey.Meter(server.processor_us) for server in servers], _memory(servers)
        _each(drivers, _admit_all, place, size)
        admitted, grown = _laps(meters), _memory(servers) - memory
        _check(frontier, size.urls)
        _laps(meters)
        known = sum(_each(drivers, _admit_known, place, size))
        known_spent = _laps(meters)
        started = time.monotonic()
        played = _each(drivers, _play, place, size)
        elapsed, spent = time.monotonic() - started, _laps(meters)
        pages = sum(done for done, _ in played)
        frontier.close_connections()
    return Figures(
        size,
        grown / size.urls,
        sum(admitted) / size.urls,
        sum(known_spent) / known,
        sum(spent) / pages,
        max(spent) / pages,
        pages / elapsed,
        sum(cpu for _, cpu in played) * 1e6 / pages,
    )


def _check(frontier: Frontier, urls: int) -> None:
    status = frontier.status(JOB)
    assert status is not None
    assert status.counters.queued == status.counters.admitted == urls, status.counters


# --- what drivers do -------------------------------------------------------------------------------------------------


def _each(
    drivers: ProcessPoolExecutor, do: Callable[[FrontierPlace, Size, int], T], place: FrontierPlace, size: Size
) -> list[T]:
    tasks = [drivers.submit(do, place, size, number) for number in range(size.drivers)]
    return [task.result(timeout=MOST_S) for task in tasks]


def _admit_all(place: FrontierPlace, size: Size, number: int) -> None:
    frontier = place.frontier()
    for batch in _urls(size, number):
        frontier.admit_submitted(JOB, batch)
    frontier.close_connections()


def _admit_known(place: FrontierPlace, size: Size, number: int) -> int:
    frontier, told = place.frontier(), 0
    for batch in _urls(size, number):
        assert not frontier.admit_submitted(JOB, batch).admitted
        told += len(batch)
        if told >= min(KNOWN, size.urls) // size.drivers:
            break
    frontier.close_connections()
    return told


def _urls(size: Size, number: int) -> Iterator[list[Url]]:
    """The share of one driver, host after host, page after page."""
    hosts = [f"host-{n}.example" for n in range(number, size.hosts, size.drivers)]
    batch: list[Url] = []
    for n in range(-(-size.urls // size.hosts)):
        for host in hosts:
            target = f"/catalogue/category-{n % 97}/item-{n}.html"
            batch.append(Url("https", host, target))
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _play(place: FrontierPlace, size: Size, number: int) -> tuple[int, float]:
    """Virtual workers in turn: each settles what it has, and leases more. (pages, processor time)"""
    workers = [place.frontier(f"w{number}-{n}") for n in range(max(1, size.workers // size.drivers // 10))]
    hands: list[tuple[Lease, ...]] = [()] * max(1, size.workers // size.drivers)
    wanted, done, idle, started = size.pages // size.drivers, 0, 0, time.process_time()
    for turn in range(10**9):
        hand, frontier = turn % len(hands), workers[turn % len(workers)]
        if hands[hand]:
            frontier.settle([_fetched(lease) for lease in hands[hand]])
            done += len(hands[hand])
        if done >= wanted or idle > 10 * len(hands):
            break
        leases = frontier.lease(queues=ALL_QUEUES, limit=LEASES, lease_for=timedelta(minutes=5)).leases
        hands[hand] = leases
        idle = 0 if leases else idle + 1
        if not leases:
            time.sleep(0.001)
    for frontier in workers:
        frontier.close_connections()
    return done, time.process_time() - started


def _fetched(lease: Lease) -> Settlement:
    return Settlement(lease, Outcome.DONE, latency=LATENCY, received=BODY)


# --- what servers say ------------------------------------------------------------------------------------------------


def _laps(meters: list[valkey.Meter]) -> list[float]:
    return [meter.lap() for meter in meters]


def _memory(servers: list[valkey.Server]) -> int:
    return sum(int(server.info("memory")["used_memory"]) for server in servers)


# --- the command -----------------------------------------------------------------------------------------------------


def main() -> int:
    """Simulate, and print a table; with `--json` a line for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--drivers", type=int, default=1)
    parser.add_argument("--pages", type=int, default=SAMPLE)
    parser.add_argument("--compare", action="store_true", help="1M and 10M URLs on one server; 1M on one and on four")
    parser.add_argument("--quick", action="store_true", help="20,000 URLs, one shard and two")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for size in _sizes(options):
        figures = simulate(size)
        print(json.dumps(asdict(figures)) if options.json else _line(figures), flush=True)
    return 0


def _sizes(options: argparse.Namespace) -> list[Size]:
    if options.quick:
        return [Size(20_000, 2_000, 20, shards, 1, 10_000) for shards in (1, 2)]
    if options.compare:
        cases = ((1_000_000, 1, 1), (10_000_000, 1, 1), (1_000_000, 1, 2), (1_000_000, 4, 2))
        hosts, workers, pages = options.hosts, options.workers, options.pages
        return [Size(urls, hosts, workers, shards, drivers, pages) for urls, shards, drivers in cases]
    return [Size(options.urls, options.hosts, options.workers, options.shards, options.drivers, options.pages)]


def _line(figures: Figures) -> str:
    size = figures.size
    return (
        f"{size.urls:>11,} URLs  {size.hosts:>7,} hosts  {size.workers} workers  {size.shards} shards  "
        f"{size.drivers} drivers | {figures.bytes_url:5.1f} bytes a URL | admit {figures.admit_us:5.1f} µs, "
        f"known {figures.known_us:4.1f} µs, page {figures.page_us:5.1f} µs (busiest {figures.busiest_us:5.1f}) | "
        f"{figures.pages_s:7,.0f} pages/s here, {figures.capacity:7,.0f} with a core each | "
        f"workers {figures.driver_us:5.1f} µs"
    )


if __name__ == "__main__":
    print(machine.describe(), file=sys.stderr)
    sys.exit(main())
