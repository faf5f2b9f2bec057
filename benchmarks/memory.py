"""What a URL costs in Redis: seen, and queued. Read off the server's own count of its memory."""

import random
from collections.abc import Iterator

from benchmarks import valkey
from benchmarks.result import Row
from shoal.core.model import Request
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import Arg, Scripts, connect

SEEN, SEEN_QUICK = 10_000_000, 200_000
QUEUED, QUEUED_QUICK = 1_000_000, 50_000
HOSTS = 1_000
BATCH = 2_000
MAX_SEEN_BYTES = 12.0
MAX_QUEUED_BYTES = 60.0


def measure(quick: bool) -> list[Row]:
    """Both figures, on a fresh server each."""
    return [_seen(SEEN_QUICK if quick else SEEN), _queued(QUEUED_QUICK if quick else QUEUED)]


def _seen(count: int) -> Row:
    with valkey.serve(durable=False) as server:
        client = connect(f"{server.url}/2", timeout_s=60)
        frontier, scripts = Frontier(client), Scripts(client, "shoal")
        frontier.create("job", JobSpec())
        before = _used(server)
        for batch in _fingerprints(count):
            scripts.call("admit", batch)
        grown = _used(server) - before
        status = frontier.status("job")
        client.close()
    assert status is not None
    name = f"Redis bytes a seen URL, at {count:,}"
    return Row(name, grown / status.counters.seen, "bytes", "fingerprints only", MAX_SEEN_BYTES)


def _fingerprints(count: int) -> Iterator[list[Arg]]:
    """Arguments of `admit` for URLs that the scope refuses: they are remembered and not queued."""
    rng = random.Random(1)
    for start in range(0, count, BATCH):
        batch: list[Arg] = ["job", 0]
        for _ in range(min(BATCH, count - start)):
            batch += (rng.getrandbits(64) - 2**63, "", "other_host")
        yield batch


def _queued(count: int) -> Row:
    with valkey.serve(durable=False) as server:
        frontier = Frontier.at(f"{server.url}/2")
        frontier.create("job", JobSpec())
        before = _used(server)
        payload = 0
        for batch in _requests(count):
            payload += sum(len(request.url.target) for request in batch)
            frontier.admit("job", batch)
        grown = _used(server) - before
        frontier.close_connections()
    name = f"Redis bytes beyond path and query a queued URL, at {count:,} over {HOSTS:,} hosts"
    return Row(name, (grown - payload) / count, "bytes", "seen and queued", MAX_QUEUED_BYTES)


def _requests(count: int) -> Iterator[list[Request]]:
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        yield [Request(_url(number), depth=3) for number in numbers]


def _url(number: int) -> Url:
    target = f"/catalogue/category-{number % 97}/item-{number}.html?page={number % 13}&sort=price"
    return Url("https", f"shop-{number % HOSTS:04d}.example", target)


def _used(server: valkey.Server) -> int:
    return int(server.info("memory")["used_memory"])
