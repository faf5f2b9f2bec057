"""A host that takes 20 requests a second, then only 5, then 20 again, and refuses the rest with 429.

It says nothing of how long to wait: Shoal has to find out by itself, in both directions.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.politeness.ground import PLAIN, WITNESSES, a_ground
from benchmarks.politeness.target import Hit, Manner, addresses
from benchmarks.result import Row

RATE, LESS = 20.0, 5.0
REFUSED = 429
PROCESSES = 2
START_S = 60.0
NEAR = 0.9
WIDTH = 60


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds since the first request: when the host takes less, when it takes all again, when the log ends."""

    less: int = 15
    again: int = 45
    end: int = 85
    adapt: int = 5
    """So long it may take, and over so long a mean is taken."""


def measure(quick: bool) -> list[Row]:
    """Crawl through all three, and read the log by seconds."""
    times = Times(2, 4, 6, 1) if quick else Times()
    (host,) = addresses(1)
    manner = Manner(delay=0.02, allows=((0, RATE), (times.less, LESS), (times.again, RATE)))
    with a_ground("refused", {host: manner}) as ground:
        urls = ground.target.urls(host, int(RATE * (times.end + 10)))
        ground.submit(urls, **PLAIN, rate=RATE, parallel=8, robots=False, retries=5)
        with ground.workers(PROCESSES):
            ground.target.wait_for(lambda hits: len(hits) > 0, within_s=START_S)
            time.sleep(times.end)
            hits = list(ground.target.hits())
        status = ground.platform.watch.host(ground.target.host(host))
    for decision in reversed(status.decisions if status else ()):
        print(f"{decision.what}: {decision.reason}", file=sys.stderr)
    seconds = Seconds(hits)
    picture = seconds.picture()
    print(picture, file=sys.stderr, flush=True)
    (WITNESSES / "refused.txt").write_text(picture + "\n")
    return _rows(seconds, times)


def _rows(seconds: "Seconds", times: Times) -> list[Row]:
    adapt, since = times.adapt, times.less + times.adapt
    span = f"seconds {since} to {times.again}"
    worst = max((seconds.mean(start, adapt) for start in range(since, times.again - adapt + 1)), default=0.0)
    found = next((s for s in range(times.again, times.end - adapt) if seconds.mean(s, adapt) >= RATE * NEAR), None)
    found = times.end if found is None else found
    held = seconds.mean(found, times.end - found) if found < times.end else 0.0
    return [
        Row(
            f"a host that takes {LESS:g}/s instead of {RATE:g}: requests a second, in the worst {adapt} s of {span}",
            worst,
            "/s",
            f"mean {seconds.mean(since, max(1, times.again - since)):.2f}/s",
            at_most=LESS * 1.1,
        ),
        Row(
            f"refused requests in {span}",
            seconds.refused(since, times.again) * 100,
            "%",
            f"{seconds.refused(times.less, since):.0%} in the {adapt} s before; {seconds.refusals} in all",
        ),
        Row(
            f"seconds after its recovery until {NEAR:.0%} of {RATE:g}/s is asked, over {adapt} s",
            found - times.again,
            "s",
            f"{held:.1f}/s from then on; not found" if found == times.end else f"{held:.1f}/s from then on",
        ),
        Row(
            "rate found again, over the rest of the time",
            held / RATE * 100,
            "%",
            "",
            at_least=NEAR * 100,
        ),
        Row(
            "most requests in any second",
            seconds.highest,
            "requests",
            f"the job's rate is {RATE:g}/s with a burst of {1 + RATE * 0.1:g}",
            at_most=RATE + 1 + RATE * 0.1,
        ),
    ]


class Seconds:
    """A log by seconds since its first request."""

    def __init__(self, hits: Sequence[Hit]) -> None:
        first = hits[0].at_monotonic
        self._all = Counter(int(hit.at_monotonic - first) for hit in hits)
        self._refused = Counter(int(hit.at_monotonic - first) for hit in hits if hit.status == REFUSED)

    @property
    def highest(self) -> int:
        return max(self._all.values())

    @property
    def refusals(self) -> int:
        return self._refused.total()

    def mean(self, start: int, length: int) -> float:
        """Requests a second over these seconds."""
        return sum(self._all[second] for second in range(start, start + length)) / length

    def refused(self, start: int, end: int) -> float:
        """The part of the requests that were refused."""
        asked = sum(self._all[second] for second in range(start, end))
        return sum(self._refused[second] for second in range(start, end)) / max(1, asked)

    def picture(self) -> str:
        """A line for each second: `#` for a request that was answered, `x` for one that was refused."""
        lines = [
            f"{second:3d} s  {'#' * (self._all[second] - self._refused[second])}{'x' * self._refused[second]}"[:WIDTH]
            for second in range(max(self._all) + 1)
        ]
        return "\n".join(lines)
