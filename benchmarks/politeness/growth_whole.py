"""What a page costs as a whole while frontiers grow: leased, fetched, read, stored and settled by a real worker.

The job has ten thousand URLs waiting or a million, on one host or on ten thousand. Every page comes over a connection
of its own, so that many hosts connect as often as one. Time is processor time of the worker's processes and of Redis,
between two moments in mid-crawl: when as many pages are done as there can be hosts, and some thousand pages later.
Until then no fewer wait than the size says.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from statistics import median

import psutil
import redis

from benchmarks import server, valkey
from benchmarks.api.stage import BenchError, a_stage
from benchmarks.data.fields import FIELDS
from benchmarks.politeness.ground import FREE, settings_of
from benchmarks.politeness.growth import HOSTS, HOSTS_QUICK, MOST_GROWTH, QUEUED, QUEUED_QUICK, USUAL_HOSTS, Size
from benchmarks.process import Child
from benchmarks.result import Row
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.intake.intake import Origin
from shoal.wiring import Platform, open_platform

SITE, SITE_QUICK = 20_000, 100
"""Pages that the URLs lead to, each with a query of its own."""
PAGES, PAGES_QUICK = 6_000, 300
"""That are measured of one size in a round."""
WARM_UP, WARM_UP_QUICK = 11_000, 300
"""Pages before these: all hosts have been asked, of which there are ten thousand at the most."""
ROUNDS, ROUNDS_QUICK = 7, 1
ADMIT = 20_000
PATIENCE_S = 180.0
LOOK_S = 0.2
FETCHING = {"SHOAL_QUEUES": "http.high,http.batch,http.slow", "SHOAL_CONCURRENCY": "1"}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a page; microseconds."""

    worker: float
    redis: float

    @property
    def whole(self) -> float:
        return self.worker + self.redis


@dataclass(frozen=True, slots=True)
class Crawl:
    """One crawl under way."""

    platform: Platform
    job: str
    worker: Child
    redis: valkey.Server

    def cost_of(self, first: int, pages: int) -> Cost:
        """Of a page among so many, behind so many first ones."""
        self._wait(first)
        before, from_page = self._spent(), self._done
        self._wait(from_page + pages)
        after, done = self._spent(), self._done - from_page
        return Cost((after.worker - before.worker) / done, (after.redis - before.redis) / done)

    @property
    def _done(self) -> int:
        return self.platform.control.status(self.job).counters.done

    def _wait(self, pages: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self._done < pages:
            if time.monotonic() > deadline:
                raise BenchError(f"{self._done} of {pages} pages are done after {PATIENCE_S:g} s")
            time.sleep(LOOK_S)

    def _spent(self) -> Cost:
        """So far."""
        supervisor = psutil.Process(self.worker.pid)
        times = [process.cpu_times() for process in (supervisor, *supervisor.children(recursive=True))]
        return Cost(1e6 * sum(each.user + each.system for each in times), self.redis.processor_us())


def measure(quick: bool) -> list[Row]:
    """Sizes of the queue at one number of hosts, and numbers of hosts at one size of the queue; in turn."""
    queued, hosts = (QUEUED_QUICK, HOSTS_QUICK) if quick else (QUEUED, HOSTS)
    by_queued = [Size(each, USUAL_HOSTS) for each in queued]
    by_hosts = [Size(queued[-1], each) for each in hosts]
    sizes = [*dict.fromkeys((*by_queued, *by_hosts))]
    costs: dict[Size, list[Cost]] = {size: [] for size in sizes}
    site = SITE_QUICK if quick else SITE
    with server.serve_everywhere(site) as port:
        if port is None:
            print("growth-whole: left out; only nginx can play ten thousand hosts", file=sys.stderr)
            return []
        for number in range(ROUNDS_QUICK if quick else ROUNDS):
            by = number % len(sizes)
            for size in (*sizes[by:], *sizes[:by]):
                cost = _crawl(size, port, site, *((WARM_UP_QUICK, PAGES_QUICK) if quick else (WARM_UP, PAGES)))
                costs[size].append(cost)
                said = f"{cost.whole:.0f} µs a page, {cost.redis:.1f} of them Redis'"
                print(f"growth-whole {number + 1}: {size}: {said}", file=sys.stderr, flush=True)
    return [
        *(_row(size, costs[size]) for size in sizes),
        _growth(f"{queued[0]:,} to {queued[-1]:,} queued", by_queued, costs),
        _growth(f"{hosts[0]:,} to {hosts[-1]:,} hosts", by_hosts, costs),
    ]


def _crawl(size: Size, port: str, site: int, first: int, pages: int) -> Cost:
    with (
        a_stage() as stage,
        open_platform(settings_of(stage)) as platform,
        redis.Redis.from_url(stage.redis.frontier) as client,  # pyright: ignore[reportUnknownMemberType]
    ):
        job = _fill(platform, size.queued + first + pages, _urls(size.hosts, port, site))
        with stage.process("shoal.worker", "worker", **FETCHING) as worker:
            crawl = Crawl(platform, job, worker, valkey.Server(0, client))
            cost = crawl.cost_of(first, pages)
            platform.control.cancel(job)
            return cost


def _fill(platform: Platform, size: int, urls: Iterator[Url]) -> str:
    """Most URLs go straight into the frontier: how they are submitted is another benchmark's business."""
    spec = JobSpec.model_validate({"urls": [str(next(urls))], **FREE, "fields": FIELDS})
    job = platform.intake.submit(spec, Origin("default", "bench")).job
    for start in range(1, size, ADMIT):
        platform.frontier.admit_submitted(job, list(islice(urls, min(ADMIT, size - start))))
    return job


def _urls(hosts: int, port: str, site: int) -> Iterator[Url]:
    """Without end; neighbours are of different hosts."""
    for number in count():
        host = number % hosts
        address = f"127.1.{host // 250}.{host % 250 + 1}"
        yield Url("http", f"{address}:{port}", f"/p/{number % (site - 1) + 1}.html?v={number}")


def _row(size: Size, costs: Sequence[Cost]) -> Row:
    note = f"Redis {median(cost.redis for cost in costs):.1f} µs of them; {len(costs)} rounds"
    return Row(f"a page as a whole: {size}", median(cost.whole for cost in costs), "µs", note)


def _growth(what: str, sizes: Sequence[Size], costs: dict[Size, list[Cost]]) -> Row:
    """By how much the dearest size costs more than the smallest."""
    small, *others = sizes
    grown = [
        100 * (median(b.whole / a.whole for a, b in zip(costs[small], costs[other], strict=True)) - 1)
        for other in others
    ]
    note = ", ".join(f"{percent:+.1f} % at {other}" for percent, other in zip(grown, others, strict=True))
    return Row(f"a page as a whole, from {what}: dearer by", max(grown), "%", note, at_most=MOST_GROWTH)
