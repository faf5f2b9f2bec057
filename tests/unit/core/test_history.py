"""Charts add up to the sums they are made of, never show less than nothing, and show where nobody looked."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.history import (
    COARSEST,
    FINEST,
    MAX_REASONS,
    TIERS,
    Point,
    Sample,
    Tier,
    Window,
    chart,
    frequent,
    job_sample,
    tier_of,
)
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState

NOW = 1_700_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def _pages(at_ms: int, pages: int, *, end: bool = False, **reasons: int) -> Sample:
    return Sample(at_ms, {"pages": pages}, {"queued": pages * 2}, reasons, end)


def _every(step_ms: int, *pages: int, start: int = NOW) -> list[Sample]:
    return [_pages(start + place * step_ms, count) for place, count in enumerate(pages)]


def _shown(points: list[Point]) -> list[float | None]:
    return [None if point.rates is None else round(point.rates["pages"], 6) for point in points]


def _in_all(points: list[Point]) -> float:
    return sum(point.rates["pages"] * point.covered_ms / 1_000 for point in points if point.rates)


# --- windows ---------------------------------------------------------------------------------------------------------


@given(
    since=st.integers(0, NOW), length=st.integers(0, COARSEST.kept_ms), points=st.integers(min_value=2, max_value=1_000)
)
def test_a_window_holds_what_was_asked_for_in_so_many_points_at_most(since: int, length: int, points: int) -> None:
    window = Window.of(since, since + length, points)
    assert window.from_ms <= since
    assert window.to_ms >= since + length
    assert 1 <= window.size <= points
    assert window.from_ms % window.step_ms == window.to_ms % window.step_ms == 0


def test_the_steps_of_a_window_are_times_that_people_know() -> None:
    hour = Window.of(NOW - HOUR, NOW, 120)
    week = Window.of(NOW - 7 * DAY, NOW, 200)
    assert (hour.step_ms, week.step_ms) == (60_000, 3_600_000)


def test_a_chart_that_is_too_long_for_its_points_is_refused() -> None:
    with pytest.raises(ValueError, match="points"):
        Window.of(0, NOW, 2)


# --- charts ----------------------------------------------------------------------------------------------------------


@given(
    times=st.lists(st.integers(1, 80_000), min_size=1, max_size=60),
    grown=st.lists(st.integers(0, 10_000), min_size=60, max_size=60),
    points=st.integers(2, 500),
)
def test_a_chart_adds_up_to_the_sums_whatever_its_steps(times: list[int], grown: list[int], points: int) -> None:
    moments = [NOW, *accumulate(times, initial=NOW)][1:]
    sums = list(accumulate(grown[: len(moments)]))
    samples = [_pages(at, count) for at, count in zip(moments, sums, strict=True)]
    window = Window.of(moments[0], moments[-1] + 1, points)
    drawn = chart(samples, window, moments[-1])
    assert _in_all(drawn) == pytest.approx(sums[-1] - sums[0])
    assert sum(point.covered_ms for point in drawn) == pytest.approx(moments[-1] - moments[0], abs=window.size)
    assert all(rate >= 0 for point in drawn for rate in (point.rates or {}).values())
    assert drawn[-1].last == samples[-1]


@given(counts=st.lists(st.integers(0, 1_000), min_size=2, max_size=30))
def test_counters_that_fall_are_begun_anew_and_no_rate_is_below_nothing(counts: list[int]) -> None:
    samples = _every(5_000, *counts)
    drawn = chart(samples, Window.of(NOW, samples[-1].at_ms, 500), samples[-1].at_ms)
    assert all(rate is None or rate >= 0 for rate in _shown(drawn))
    rises = sum(max(0, after - before) for before, after in pairwise(counts))
    assert _in_all(drawn) == pytest.approx(rises)


def test_where_nobody_looked_a_chart_has_nothing() -> None:
    before, after = _every(5_000, 0, 10, 20), _every(5_000, 500, 510, start=NOW + 5 * MINUTE)
    drawn = chart([*before, *after], Window(NOW, NOW + 6 * MINUTE, 30_000), NOW + 6 * MINUTE)
    assert _shown(drawn) == [2.0, *[None] * 9, 2.0, None]
    assert [point.last is None for point in drawn] == [False, *[True] * 9, False, True]
    assert drawn[0].covered_ms == 10_000


def test_a_sample_that_did_not_come_leaves_no_hole() -> None:
    samples = [_pages(NOW, 0), _pages(NOW + 60_000, 600)]
    drawn = chart(samples, Window(NOW, NOW + 60_000, 10_000), NOW + 60_000)
    assert _shown(drawn) == [10.0] * 6
    assert drawn[3].last == samples[0]


@pytest.mark.parametrize("tier", TIERS)
def test_samples_that_are_as_far_apart_as_their_age_allows_leave_no_hole(tier: Tier) -> None:
    samples = _every(tier.step_ms, *range(0, 100, 10))
    window = Window(NOW, NOW + 9 * tier.step_ms, tier.step_ms)
    assert None not in _shown(chart(samples, window, NOW + tier.kept_ms))


def test_a_job_that_was_brought_back_after_its_end_was_not_alive_in_between() -> None:
    samples = [_pages(NOW, 0), _pages(NOW + 10_000, 50, end=True), _pages(NOW + 60_000, 60)]
    drawn = chart(samples, Window(NOW, NOW + 60_000, 10_000), NOW + 60_000)
    assert _shown(drawn) == [5.0, None, None, None, None, 2.0]
    assert drawn[-1].covered_ms == 5_000


def test_reasons_have_rates_of_their_own() -> None:
    samples = [_pages(NOW, 0), Sample(NOW + 10_000, {"pages": 1}, {}, {"dead:http_404": 20, "retry:timeout": 0})]
    (point,) = chart(samples, Window(NOW, NOW + 10_000, 10_000), NOW)
    assert point.reasons == {"dead:http_404": 2.0}


def test_of_many_reasons_the_most_frequent_are_kept() -> None:
    many = {f"dead:reason_{number}": number for number in range(100)}
    kept = frequent(many)
    assert len(kept) == MAX_REASONS
    assert min(kept.values()) == 100 - MAX_REASONS


# --- samples ---------------------------------------------------------------------------------------------------------


def test_the_first_sample_of_each_step_is_kept_longer() -> None:
    aligned = NOW // COARSEST.step_ms * COARSEST.step_ms
    assert tier_of(None, aligned + 1) is COARSEST
    assert tier_of(aligned - 1, aligned) is COARSEST
    assert tier_of(aligned, aligned + 5_000) is FINEST
    assert tier_of(aligned + 55_000, aligned + 61_000) is TIERS[1]
    assert tier_of(aligned + 61_000, aligned + 62_000) is FINEST


def test_a_series_has_a_bounded_number_of_samples() -> None:
    assert sum(tier.kept_ms // tier.step_ms for tier in TIERS) < 3_200


def test_what_is_sampled_of_a_job_is_what_people_count() -> None:
    counters = Counters(filtered=3, dropped=7, done=12, dead=4, retries=9, queued=5, delayed=6, leased=7, received=99)
    reasons = {"done:redirect": 2, "robots:disallowed": 5, "dead:http_404": 4}
    sample = job_sample(JobStatus("j1", JobState.RUNNING, counters, reasons, now_ms=NOW), items=8)
    assert sample.counters == {
        "pages": 10,
        "redirects": 2,
        "errors": 4,
        "retries": 9,
        "robots": 5,
        "filtered": 5,
        "received": 99,
        "items": 8,
    }
    assert sample.gauges == {"queued": 5, "delayed": 6, "leased": 7}
    assert (sample.at_ms, sample.end) == (NOW, False)
