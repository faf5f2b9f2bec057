"""Killing the API while clients submit: what they were promised is kept, and every job that exists ends whole."""

from __future__ import annotations

from benchmarks.api.killed import Drill, run_at
from tests.command import Shoal
from tests.long import LONG

DRILL = Drill() if LONG else Drill(submissions=20, kills=2)


def test_kill_9_of_the_api_breaks_no_promise_and_leaves_no_job_half_done(shoal: Shoal) -> None:
    toll = run_at(shoal.home, DRILL)
    assert toll.kills == DRILL.kills
    assert toll.promised + toll.broken == DRILL.submissions
    assert toll.promised
    assert toll.jobs >= toll.promised
    assert toll.lost == 0
    assert toll.unfinished == 0
