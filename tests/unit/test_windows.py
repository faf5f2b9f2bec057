"""The arithmetic by which a log of arrivals is held against a limit."""

from __future__ import annotations

from itertools import combinations_with_replacement

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.politeness.windows import burst_of, share_used, worst_window

TIMES = st.lists(st.floats(min_value=0, max_value=20), min_size=1, max_size=25)
RATES = st.floats(min_value=0.1, max_value=50)


@given(TIMES, RATES)
def test_the_worst_window_is_the_worst_of_all(times: list[float], rate: float) -> None:
    times = sorted(times)
    pairs = combinations_with_replacement(range(len(times)), 2)
    most = max(j - i + 1 - burst_of(rate) - rate * (times[j] - times[i]) for i, j in pairs)
    assert abs(worst_window(times, rate).excess - most) < 1e-6


def test_requests_at_exactly_their_rate_are_no_excess() -> None:
    assert worst_window([number / 5 for number in range(50)], 5).excess <= 0


def test_a_burst_too_many_is_found_where_it_is() -> None:
    times = [0.0, 1.5, 3.0, 3.01, 3.02, 4.5]
    worst = worst_window(times, 1)
    assert (worst.start, worst.end) == (3.0, 3.02)
    assert round(worst.excess, 2) == 1.88


def test_the_share_of_a_rate_counts_from_the_first_request_to_the_end() -> None:
    assert share_used([0.0, 1.0, 2.0], 1, until=2.5) == 1.0
    assert share_used([0.0, 1.0, 2.0], 1, until=4.0) == 0.5
