"""Who gets how much of what two want: jobs by their weight, tenants alike however many jobs they have.

What counts are the requests from the moment when both have begun until the first of them has no more work.
"""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.politeness.ground import FREE, PLAIN, Ground, a_ground
from benchmarks.politeness.target import Hit, Manner, addresses
from benchmarks.result import Row

RATE, RATE_QUICK = 40, 200
PROCESSES = 2
WEIGHTS = {"light": 1, "heavy": 3}
SIZES = {"of one size": (400, 400), "1:20": (100, 2_000), "20:1": (2_000, 100)}
JOBS, JOBS_QUICK = 100, 20
HOSTS = 20
DONE_S = 180.0
MAX_OFF_PERCENT = 10.0
MIN_SHARE_PERCENT = 45.0


def measure(quick: bool) -> list[Row]:
    """Weights on one host, then tenants on one host and on many; in haste one of each."""
    if quick:
        return [_weights("of one size", (60, 60), quick), _tenants_on_one_host(quick)]
    rows = [_weights(title, sizes, quick) for title, sizes in SIZES.items()]
    return [*rows, _tenants_on_one_host(quick), _tenants_on_many(quick)]


def _weights(title: str, sizes: tuple[int, int], quick: bool) -> Row:
    (host,) = addresses(1)
    polite = _polite(quick)
    with a_ground(f"shares-{title.replace(' ', '-').replace(':', '-')}", {host: Manner(delay=0.02)}) as ground:
        wanted = dict(zip(WEIGHTS, sizes, strict=True))
        for name, count in wanted.items():
            ground.submit(ground.target.urls(host, count, name), weight=WEIGHTS[name], **polite)
        got = _while_both_have_work(ground, wanted)
    ratio = got["heavy"] / max(1, got["light"])
    note = f"{got['heavy']} and {got['light']} requests: {ratio:.2f}"
    print(f"shares, {title}: {note}", file=sys.stderr, flush=True)
    return Row(
        f"jobs of weight 3 and 1 on one host, sizes {title}: off by",
        abs(ratio / 3 - 1) * 100,
        "%",
        note,
        at_most=MAX_OFF_PERCENT,
    )


def _tenants_on_one_host(quick: bool) -> Row:
    (host,) = addresses(1)
    jobs, size = (JOBS_QUICK, 100) if quick else (JOBS, 200)
    polite = _polite(quick)
    with a_ground("tenants-one-host", {host: Manner(delay=0.02)}) as ground:
        for number in range(jobs):
            ground.submit(ground.target.urls(host, size // 10, f"crowd/{number}"), "crowd", **polite)
        ground.submit(ground.target.urls(host, size, "lone"), "lone", **polite)
        got = _while_both_have_work(ground, {"crowd": jobs * size // 10, "lone": size})
    return _share(f"one job against {jobs} of another tenant, on one host", got)


def _tenants_on_many(quick: bool) -> Row:
    hosts = addresses(HOSTS)
    jobs, size, lone = (JOBS_QUICK, 40, 500) if quick else (JOBS, 200, 4_000)
    with a_ground("tenants-many-hosts", {host: Manner() for host in hosts}) as ground:
        for number in range(jobs):
            ground.submit(_spread(ground, hosts, size, f"crowd/{number}"), "crowd", **FREE)
        ground.submit(_spread(ground, hosts, lone, "lone"), "lone", **FREE)
        got = _while_both_have_work(ground, {"crowd": jobs * size, "lone": lone})
    return _share(f"one job against {jobs} of another tenant, on {HOSTS} hosts without a limit", got)


def _polite(quick: bool) -> dict[str, Any]:
    return {**PLAIN, "rate": RATE_QUICK if quick else RATE, "parallel": 20, "robots": False}


def _spread(ground: Ground, hosts: list[str], count: int, path: str) -> list[str]:
    return [url for host in hosts for url in ground.target.urls(host, count // len(hosts), path)]


def _share(name: str, got: Counter[str]) -> Row:
    share = got["lone"] / max(1, got.total()) * 100
    note = f"{got['lone']} of {got.total()} requests while it had work"
    print(f"{name}: {share:.1f} %, {note}", file=sys.stderr, flush=True)
    return Row(f"{name}: its share", share, "%", note, at_least=MIN_SHARE_PERCENT)


def _while_both_have_work(ground: Ground, wanted: dict[str, int]) -> Counter[str]:
    """Requests by the first part of their path, from the time when all have begun until one has all it wanted."""
    with ground.workers(PROCESSES):
        hits = ground.target.wait_for(_somebody_has_all(wanted), within_s=DONE_S)
    got, so_far, begun = Counter[str](), Counter[str](), set[str]()
    for hit in hits:
        who = _who(hit)
        begun.add(who)
        so_far[who] += 1
        if len(begun) == len(wanted):
            got[who] += 1
        if so_far[who] >= wanted[who]:
            break
    return got


def _somebody_has_all(wanted: dict[str, int]) -> Callable[[list[Hit]], bool]:
    def enough(hits: list[Hit]) -> bool:
        so_far = Counter(map(_who, hits))
        return any(so_far[who] >= count for who, count in wanted.items())

    return enough


def _who(hit: Hit) -> str:
    return hit.target.split("/")[1]
