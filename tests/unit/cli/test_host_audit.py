"""Rates and times as people write them."""

from __future__ import annotations

import time

import pytest

from shoal.cli.host_audit import human_rate, read_period
from shoal.errors import InputError


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (0, "unlimited"),
        (4, "4/s"),
        (1, "1/s"),
        (2.5, "2.5/s"),
        (6075 / 3600, "1.69/s"),
        (1 / 60, "1/m"),
        (0.5, "30/m"),
        (100 / 3600, "100/h"),
        (1 / 3600, "1/h"),
        (0.0001, "0.36/h"),
        (1.2345678, "1.23/s"),
        (0.07, "4.2/m"),
        (12_345, "12300/s"),
        (100_000, "100000/s"),
    ],
)
def test_a_rate_is_shown_with_three_digits_in_the_unit_that_fits(rate: float, shown: str) -> None:
    assert human_rate(rate) == shown


def test_a_time_is_an_age_or_a_date() -> None:
    period = read_period("2h", None)
    assert period.since_ms is not None
    assert abs(period.since_ms - (time.time() - 7_200) * 1000) < 10_000
    assert read_period("2026-11-01T00:30+01:00", "2026-11-01").until_ms == 1_793_491_200_000
    assert read_period(None, None).since_ms is None
    assert read_period("9999999d", None).since_ms == 0


@pytest.mark.parametrize(("since", "until"), [("soon", None), ("2026-13-01", None), ("1h", "2h")])
def test_what_is_no_period_is_refused(since: str | None, until: str | None) -> None:
    with pytest.raises(InputError):
        read_period(since, until)
