"""Sums that add up, and the time that a job took."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState


@pytest.mark.parametrize(
    ("counters", "reconciles"),
    [
        (Counters(), True),
        (Counters(seen=10, admitted=7, filtered=3, queued=1, delayed=1, leased=1, done=2, dead=1, dropped=1), True),
        (Counters(seen=1, admitted=1, done=1, duplicates=5, retries=3, lost=2, received=100), True),
        (Counters(seen=1, admitted=1), False),
        (Counters(seen=2, admitted=1, done=1), False),
        (Counters(seen=1, admitted=1, done=1, dead=1), False),
    ],
)
def test_a_request_is_in_exactly_one_place(counters: Counters, reconciles: bool) -> None:
    assert counters.reconciles is reconciles


def test_pending_is_what_can_still_happen() -> None:
    assert Counters(queued=1, delayed=20, leased=300, done=4000, dead=4000, dropped=4000).pending == 321


@pytest.mark.parametrize(
    ("started", "ended", "now", "elapsed"),
    [
        (None, None, 9_000, 0),
        (None, 5_000, 9_000, 0),
        (1_000, None, 9_000, 8_000),
        (1_000, 5_000, 9_000, 4_000),
        (5_000, 1_000, 9_000, 0),
    ],
)
def test_a_job_runs_from_its_first_lease(started: int | None, ended: int | None, now: int, elapsed: int) -> None:
    status = JobStatus("j", JobState.RUNNING, Counters(), started_ms=started, ended_ms=ended, now_ms=now)
    assert status.elapsed == timedelta(milliseconds=elapsed)
