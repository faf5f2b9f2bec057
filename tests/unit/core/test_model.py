"""What adds up, and the names of queues."""

from __future__ import annotations

from shoal.core.model import ALL_QUEUES, AdmitReport, Engine, JobState, Lane, queue_name


def test_reports_add_up_and_the_later_state_counts() -> None:
    total = AdmitReport(None, 1, 2, 3, 4) + AdmitReport(JobState.RUNNING, 10, 20, 30, 40)
    assert total == AdmitReport(JobState.RUNNING, 11, 22, 33, 44)


def test_a_job_has_ended_when_it_is_finished_or_cancelled() -> None:
    assert [state for state in JobState if state.ended] == [JobState.FINISHED, JobState.CANCELLED]


def test_queues_are_named_after_engine_and_lane() -> None:
    assert (
        *("http.high", "browser.high"),
        *("http.batch", "browser.batch"),
        *("http.slow", "browser.slow"),
    ) == ALL_QUEUES
    assert queue_name(Engine.AUTO, Lane.BATCH) == "http.batch"
