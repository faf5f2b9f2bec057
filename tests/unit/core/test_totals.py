"""What became of all that was discovered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState

SUMS = Counters(
    seen=20, admitted=15, filtered=5, duplicates=7, queued=2, delayed=1, leased=1, done=6, dead=2, dropped=3
)
REASONS = {"robots:robots_disallowed": 1, "robots:noindex": 1, "dead:http_404": 2, "filtered:other_host": 5}


def status(counters: Counters, reasons: dict[str, int]) -> JobStatus:
    return JobStatus("job", JobState.RUNNING, counters, reasons)


def test_all_that_was_discovered_is_accounted_for() -> None:
    found = status(SUMS, REASONS)
    assert found.reconciles
    assert str(found.totals) == (
        "27 discovered = 6 fetched + 2 failed + 6 filtered + 2 robots + 7 duplicates + 4 pending"
    )
    assert found.totals.as_json["discovered"] == 27


@pytest.mark.parametrize("wrong", ["seen", "admitted", "done", "dead", "dropped", "queued", "filtered"])
def test_a_sum_that_is_off_by_one_does_not_reconcile(wrong: str) -> None:
    assert not status(replace(SUMS, **{wrong: getattr(SUMS, wrong) + 1}), REASONS).reconciles


def test_more_refusals_than_requests_that_were_dropped_do_not_reconcile() -> None:
    found = status(Counters(seen=1, admitted=1, done=1), {"robots:robots_disallowed": 1})
    assert not found.reconciles
    assert "≠" in str(found.totals)
