"""What the times of arrival say about a limit."""

from collections.abc import Sequence
from dataclasses import dataclass

BURST_S = 0.1
"""A bucket holds one request, and what the rate gives in this time."""


def burst_of(rate: float) -> float:
    """How many requests may come at once."""
    return 1 + rate * BURST_S


@dataclass(frozen=True, slots=True)
class Window:
    """From one arrival to another, in seconds since the first of all."""

    excess: float
    """Requests in it above burst + rate · length."""
    start: float
    end: float

    def describe(self) -> str:
        """`+1.20 requests from 0.10 to 0.55 s`"""
        return f"{self.excess:+.2f} requests from {self.start:.2f} to {self.end:.2f} s"


def worst_window(times: Sequence[float], rate: float) -> Window:
    """The window in which most came, against burst and rate.

    A window from arrival i to arrival j has j - i + 1 of them; (j - rate · t_j) - (i - rate · t_i) is largest when the
    second part is the smallest so far: one pass finds the worst of all windows.
    """
    times = sorted(times)
    first, worst = times[0], Window(float("-inf"), 0.0, 0.0)
    least, since = float("inf"), first
    for number, at in enumerate(times):
        ahead = number - rate * at
        if ahead < least:
            least, since = ahead, at
        if ahead - least + 1 - burst_of(rate) > worst.excess:
            worst = Window(ahead - least + 1 - burst_of(rate), since - first, at - first)
    return worst


def share_used(times: Sequence[float], rate: float, until: float) -> float:
    """The part of the rate that was used from the first arrival on, while there was work until some moment.

    Where the next request was not due yet at that moment, the last arrival ends the time.
    """
    first, last = min(times), max(times)
    end = last if until - last <= 1 / rate else until
    return (len(times) - 1) / (rate * (end - first)) if end > first else 0.0
