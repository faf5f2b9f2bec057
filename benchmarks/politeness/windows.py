"""What the times of arrival say about a limit."""

from collections.abc import Sequence

BURST_S = 0.1
"""A bucket holds one request, and what the rate gives in this time."""


def burst_of(rate: float) -> float:
    """How many requests may come at once."""
    return 1 + rate * BURST_S


def excess(times: Sequence[float], rate: float) -> float:
    """By how many requests the worst of all windows from one arrival to another is above burst + rate · length.

    A window from arrival i to arrival j has j - i + 1 of them; (j - rate · t_j) - (i - rate · t_i) is largest when the
    second part is the smallest so far: one pass finds the worst of all windows.
    """
    worst, least = float("-inf"), float("inf")
    for number, at in enumerate(sorted(times)):
        ahead = number - rate * at
        least = min(least, ahead)
        worst = max(worst, ahead - least + 1)
    return worst - burst_of(rate)


def share_used(times: Sequence[float], rate: float, until: float) -> float:
    """The part of the rate that was used from the first arrival on, while there was work until some moment.

    Where the next request was not due yet at that moment, the last arrival ends the time.
    """
    first, last = min(times), max(times)
    end = last if until - last <= 1 / rate else until
    return (len(times) - 1) / (rate * (end - first)) if end > first else 0.0
