"""What a page and a new URL cost while frontiers grow: ten thousand URLs or a million, one host or ten thousand.

Every size has a server of its own, and all are measured in turn, round after round: each round lets as many URLs in as
it takes out, so that the size stays what it is. Time is processor time of the whole server, not of the clock: others
may use the machine. Figures are medians over the rounds, and so is growth, which is taken within a round first.
"""

import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from statistics import median

from benchmarks import valkey
from benchmarks.api.stage import BenchError
from benchmarks.result import Row
from shoal.core.model import ALL_QUEUES, Lease, Outcome, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier

QUEUED, QUEUED_QUICK = (10_000, 100_000, 1_000_000), (1_000, 4_000)
HOSTS, HOSTS_QUICK = (1, 100, 10_000), (1, 100)
USUAL_HOSTS = 100
PAGES, PAGES_QUICK = 4_096, 512
"""Of one size in a round."""
ROUNDS, ROUNDS_QUICK = 15, 2
LEASE, SETTLE, ADMIT = 128, 64, 2_000
"""In one call, as workers do."""
WORKERS = 4
"""So many batches are leased before they are settled."""
LEASE_FOR = timedelta(seconds=60)
LATENCY, BODY = timedelta(milliseconds=40), 20_000
PATIENCE_S = 10.0
MOST_GROWTH = 10.0
"""Percent."""
JOB = "growing"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one round; microseconds."""

    page: float
    """Of Redis, leased and settled."""
    url: float
    """Of Redis, let in."""
    worker: float
    """Of whoever leases and settles, a page."""
    commands: float
    """That the scripts run for a page."""


@dataclass(frozen=True, slots=True)
class Size:
    """So many URLs wait, on so many hosts."""

    queued: int
    hosts: int

    def __str__(self) -> str:
        return f"{self.queued:,} queued, {self.hosts:,} {'host' if self.hosts == 1 else 'hosts'}"


@dataclass(slots=True)
class Ground:
    """A frontier of one size, and what its rounds cost."""

    size: Size
    server: valkey.Server
    frontier: Frontier
    numbers: Iterator[int]
    costs: list[Cost] = field(default_factory=list[Cost])

    def fill(self) -> None:
        self.frontier.create(JOB, JobSpec(rate="unlimited"), self.size.queued)
        self._admit(self.size.queued)
        self._work(min(PAGES_QUICK, self.size.queued))  # hosts that have answered are not spared any more

    def play(self, pages: int) -> None:
        """One round."""
        meter, commands = valkey.Meter(self.server.processor_us), valkey.Meter(self._commands)
        self._admit(pages)
        url = meter.lap() / pages
        commands.lap()
        meter.lap()
        started = time.process_time()
        done = self._work(pages)
        worker = 1e6 * (time.process_time() - started) / done
        self.costs.append(Cost(meter.lap() / done, url, worker, commands.lap() / done))

    def _commands(self) -> float:
        return float(self.server.info("stats")["total_commands_processed"])

    def _admit(self, urls: int) -> None:
        for start in range(0, urls, ADMIT):
            report = self.frontier.admit_submitted(JOB, [self._url() for _ in range(min(ADMIT, urls - start))])
            if report.duplicates:
                raise BenchError("a new URL was taken for a known one")

    def _url(self) -> Url:
        """Neighbours are of different hosts, as in a crawl."""
        n = next(self.numbers)
        return Url("https", f"shop-{n % self.size.hosts:05d}.example", f"/catalogue/item-{n:08d}.html?page={n % 9}")

    def _work(self, pages: int) -> int:
        done, deadline = 0, time.monotonic() + PATIENCE_S
        while done < pages:
            leases = [lease for _ in range(WORKERS) for lease in self._lease()]
            for start in range(0, len(leases), SETTLE):
                self.frontier.settle([_fetched(lease) for lease in leases[start : start + SETTLE]])
            done += len(leases)
            if time.monotonic() > deadline:
                raise BenchError(f"{self.size}: {done} of {pages} pages could be leased in {PATIENCE_S:g} s")
        return done

    def _lease(self) -> Sequence[Lease]:
        return self.frontier.lease(queues=ALL_QUEUES, limit=LEASE, lease_for=LEASE_FOR).leases


def measure(quick: bool) -> list[Row]:
    """Sizes of the queue at one number of hosts, and numbers of hosts at one size of the queue."""
    queued, hosts = (QUEUED_QUICK, HOSTS_QUICK) if quick else (QUEUED, HOSTS)
    by_queued = [Size(each, USUAL_HOSTS) for each in queued]
    by_hosts = [Size(queued[-1], each) for each in hosts]
    pages, rounds = (PAGES_QUICK, ROUNDS_QUICK) if quick else (PAGES, ROUNDS)
    sizes = [*dict.fromkeys((*by_queued, *by_hosts))]
    grounds = _play(sizes, pages, rounds)
    return [
        *(row for size in sizes for row in _rows(grounds[size])),
        *_growth(f"{queued[0]:,} to {queued[-1]:,} queued", [grounds[size] for size in by_queued]),
        *_growth(f"{hosts[0]:,} to {hosts[-1]:,} hosts", [grounds[size] for size in by_hosts]),
    ]


def _play(sizes: Sequence[Size], pages: int, rounds: int) -> dict[Size, Ground]:
    with ExitStack() as stack:
        grounds = [stack.enter_context(_ground(size)) for size in sizes]
        for ground in grounds:
            ground.fill()
            print(f"growth: {ground.size}: filled", file=sys.stderr, flush=True)
        for number in range(rounds):
            by = number % len(grounds)
            for ground in (*grounds[by:], *grounds[:by]):
                ground.play(pages)
    return {ground.size: ground for ground in grounds}


@contextmanager
def _ground(size: Size) -> Generator[Ground]:
    with valkey.serve(durable=False) as server:
        frontier = Frontier.at(f"{server.url}/2")
        yield Ground(size, server, frontier, count())
        frontier.close_connections()


def _fetched(lease: Lease) -> Settlement:
    return Settlement(lease, Outcome.DONE, latency=LATENCY, received=BODY)


def _rows(ground: Ground) -> list[Row]:
    costs = ground.costs
    page = _median(costs, lambda cost: cost.page)
    commands, worker = _median(costs, lambda cost: cost.commands), _median(costs, lambda cost: cost.worker)
    note = f"{commands:.2f} commands; worker {worker:.1f} µs; {len(costs)} rounds"
    return [
        Row(f"Redis processor time of a page, leased and settled: {ground.size}", page, "µs", note),
        Row(f"Redis processor time of a new URL: {ground.size}", _median(costs, lambda cost: cost.url), "µs"),
    ]


def _growth(what: str, grounds: Sequence[Ground]) -> Iterator[Row]:
    """By how much the dearest size costs more than the smallest."""
    parts: dict[str, Callable[[Cost], float]] = {
        "a page of Redis": lambda cost: cost.page,
        "a new URL of Redis": lambda cost: cost.url,
        "a page of the worker": lambda cost: cost.worker,
    }
    for name, part in parts.items():
        grown = [_growth_between(grounds[0].costs, other.costs, part) for other in grounds[1:]]
        note = ", ".join(f"{percent:+.1f} % at {other.size}" for percent, other in zip(grown, grounds[1:], strict=True))
        yield Row(f"{name}, from {what}: dearer by", max(grown), "%", note, at_most=MOST_GROWTH)


def _growth_between(small: Sequence[Cost], large: Sequence[Cost], part: Callable[[Cost], float]) -> float:
    return 100 * (median(part(b) / part(a) for a, b in zip(small, large, strict=True)) - 1)


def _median(costs: Sequence[Cost], part: Callable[[Cost], float]) -> float:
    return median(part(cost) for cost in costs)
