"""What a page takes of Redis: the time of `lease` and `settle`, read off the server's own account of its scripts.

No worker and no web: the frontier is asked by this process, in batches as workers send them.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from benchmarks import valkey
from benchmarks.api.stage import BenchError
from benchmarks.result import Row
from shoal.core.model import Lease, Outcome, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier

URLS, URLS_QUICK = 1_000_000, 20_000
HOSTS, HOSTS_QUICK = 100_000, 5_000
FEW = 20
PAGES, PAGES_QUICK = 100_000, 5_000
ADMIT, LEASE, SETTLE = 5_000, 128, 64
WORKERS = 4
"""So many batches are leased before they are settled."""
LEASE_FOR = timedelta(seconds=60)
LATENCY = timedelta(milliseconds=40)
BODY = 20_000
QUEUES = ("http.high", "http.batch", "http.slow")
FAST_ENOUGH = 20_000
"""A rate that holds 20 hosts back in the books, but not in fact: requests a second."""
PATIENCE_S = 10.0
MAX_US = 50.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of Redis."""

    admit: float
    """A URL."""
    lease: float
    """A page, as is the next."""
    settle: float


def measure(quick: bool) -> list[Row]:
    """Many hosts and few, with a rate and without."""
    hosts = HOSTS_QUICK if quick else HOSTS
    few = {"rate": FAST_ENOUGH, "parallel": 2_000}
    cases = (
        (hosts, "default limits", JobSpec()),
        (hosts, "no limits", JobSpec(rate="unlimited")),
        (FEW, f"{FAST_ENOUGH:,}/s each", JobSpec.model_validate(few)),
        (FEW, "no limits", JobSpec(rate="unlimited")),
    )
    return [row for count, title, spec in cases for row in _case(count, title, spec, quick)]


def _case(hosts: int, title: str, spec: JobSpec, quick: bool) -> list[Row]:
    urls, pages = (URLS_QUICK, PAGES_QUICK) if quick else (URLS, PAGES)
    cost = _cost(hosts, urls, pages, spec)
    where = f"{hosts:,} hosts, {urls:,} queued, {title}"
    both = cost.lease + cost.settle
    note = f"lease {cost.lease:.1f}, settle {cost.settle:.1f}; {pages:,} pages"
    print(f"{where}: {both:.1f} µs; {note}; admit {cost.admit:.1f}", file=sys.stderr, flush=True)
    return [
        Row(f"Redis time of lease and settle a page: {where}", both, "µs", note, at_most=MAX_US),
        Row(f"Redis time of admission a URL: {where}", cost.admit, "µs"),
    ]


def _cost(hosts: int, urls: int, pages: int, spec: JobSpec) -> Cost:
    with valkey.serve(durable=False) as server:
        frontier, meter = Frontier.at(f"{server.url}/2"), valkey.Meter(server.script_us)
        frontier.create("job", spec, urls)
        for batch in _urls(hosts, urls):
            frontier.admit_submitted("job", batch)
        admit = meter.lap()
        lease, settle, done = 0.0, 0.0, 0
        while done < pages:
            leases = _lease(frontier)
            lease += meter.lap()
            _settle(frontier, leases)
            settle += meter.lap()
            done += len(leases)
        frontier.close_connections()
    return Cost(admit / urls, lease / done, settle / done)


def _urls(hosts: int, count: int) -> Iterator[list[Url]]:
    """In the order of a crawl: neighbours are seldom of one host."""
    for start in range(0, count, ADMIT):
        numbers = range(start, min(start + ADMIT, count))
        yield [Url("https", f"shop-{n % hosts:06d}.example", f"/catalogue/item-{n}.html?page={n % 9}") for n in numbers]


def _lease(frontier: Frontier) -> list[Lease]:
    leases: list[Lease] = []
    deadline = time.monotonic() + PATIENCE_S
    while not leases:
        for _ in range(WORKERS):
            leases += frontier.lease(queues=QUEUES, limit=LEASE, lease_for=LEASE_FOR).leases
        if time.monotonic() > deadline:
            raise BenchError("nothing could be leased")
    return leases


def _settle(frontier: Frontier, leases: list[Lease]) -> None:
    for start in range(0, len(leases), SETTLE):
        batch = leases[start : start + SETTLE]
        frontier.settle([Settlement(lease, Outcome.DONE, latency=LATENCY, received=BODY) for lease in batch])
