"""What times of arrival say about a rate: the window in which most came, against what a token bucket lets through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from shoal.core.frozen import frozen
from shoal.drill.site import Hit

BURST_S = 0.1
"""A bucket holds one request, and what the rate gives in this time."""


@frozen
class Window:
    """From one arrival to another at one host."""

    origin: str
    excess: float
    """Requests in it above burst + rate · length; not above 0 when the rate was kept."""
    start: float
    end: float

    def describe(self) -> str:
        """`+1.20 requests at http://127.0.0.2:8000 within 0.45 s`"""
        return f"{self.excess:+.2f} requests at {self.origin} within {self.end - self.start:.2f} s"


def worst_windows(hits: Iterable[Hit], rate: float) -> list[Window]:
    """The worst window of each host, the worst of all first."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for hit in hits:
        times[hit.origin].append(hit.at)
    windows = [_worst(origin, sorted(at), rate) for origin, at in times.items()]
    return sorted(windows, key=lambda window: -window.excess)


def _worst(origin: str, times: Sequence[float], rate: float) -> Window:
    """A window from arrival i to arrival j has j - i + 1 of them; (j - rate · t_j) - (i - rate · t_i) is largest when
    the second part is the smallest so far: one pass finds the worst of all windows.
    """
    burst = 1 + rate * BURST_S
    worst = Window(origin, 1 - burst, times[0], times[0])
    least, since = float("inf"), times[0]
    for number, at in enumerate(times):
        ahead = number - rate * at
        if ahead < least:
            least, since = ahead, at
        if ahead - least + 1 - burst > worst.excess:
            worst = Window(origin, ahead - least + 1 - burst, since, at)
    return worst
