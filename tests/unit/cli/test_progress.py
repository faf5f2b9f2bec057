"""What people see of a running job, from statuses alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.cli import progress
from shoal.cli.progress import (
    PLAIN_EVERY_S,
    PlainLines,
    Silent,
    Speed,
    failures,
    line,
    live_display,
    summary,
)
from shoal.cli.talk import status_json
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState
from shoal.core.trouble import Need, Trouble

START_MS = 1_700_000_000_000


def at(second: float, counters: Counters, state: JobState = JobState.RUNNING) -> JobStatus:
    return JobStatus("j", state, counters, started_ms=START_MS, now_ms=START_MS + round(second * 1000))


def done(second: float, pages: int, queued: int = 0) -> JobStatus:
    return at(second, Counters(done=pages, queued=queued))


@pytest.mark.parametrize(
    ("marks", "speed"),
    [
        ([], 0.0),
        ([(0, 0)], 0.0),
        ([(0, 0), (2, 100)], 50.0),
        ([(0, 0), (1, 10), (2, 100)], 50.0),
        ([(0, 50), (4, 50)], 0.0),
        ([(3, 10), (3, 20)], 0.0),
        ([(0, 0), (1, 1000), (10, 1000), (15, 1250)], 50.0),
        ([(0, 0), (100, 50)], 0.5),
    ],
)
def test_speed_is_that_of_the_last_five_seconds(marks: list[tuple[float, int]], speed: float) -> None:
    measured = Speed()
    for second, pages in marks:
        measured.note(done(second, pages))
    assert measured.pages_per_second == speed


@pytest.mark.parametrize(
    ("counters", "left"),
    [
        (Counters(done=100, queued=50), 1.0),
        (Counters(done=100, queued=30, delayed=15, leased=5), 1.0),
        (Counters(done=100), None),
    ],
)
def test_the_time_left_is_for_what_is_known_to_be_left(counters: Counters, left: float | None) -> None:
    speed = Speed()
    speed.note(done(0, 0))
    speed.note(at(2, counters))
    assert speed.seconds_left(at(2, counters)) == left


def test_nothing_can_be_said_about_the_time_left_before_anything_is_done() -> None:
    speed = Speed()
    assert speed.seconds_left(done(0, 0, queued=5)) is None
    speed.note(done(0, 0, queued=5))
    speed.note(done(3, 0, queued=5))
    assert speed.seconds_left(done(3, 0, queued=5)) is None


def test_a_line_says_what_there_is_to_say() -> None:
    speed = Speed()
    assert line(done(0, 0, queued=3), speed) == "running: 0 done, 0.0 pages/s, 3 queued, 0 in flight"
    speed.note(done(0, 0))
    status = at(2, Counters(done=25, queued=100, leased=8, delayed=2, dead=1), JobState.PAUSED)
    speed.note(status)
    assert line(status, speed) == (
        "paused: 25 done, 12.5 pages/s, 100 queued, 8 in flight, 2 to retry, 1 failed, about 8.8 s left"
    )


def test_failures_are_what_was_given_up_the_most_frequent_first() -> None:
    reasons = {"dead:http_404": 2, "retry:http_503": 99, "robots:robots_disallowed": 5, "dead:x:y": 1, "filtered:z": 7}
    status = JobStatus("j", JobState.RUNNING, Counters(), reasons)
    assert failures(status) == [("robots_disallowed", 5), ("http_404", 2), ("x:y", 1)]


def test_a_summary_of_a_smooth_job_is_two_lines() -> None:
    counters = Counters(seen=110, admitted=100, filtered=10, duplicates=40, done=100, received=1_500_000)
    status = JobStatus("j", JobState.FINISHED, counters, {}, (), START_MS, START_MS + 8_000, START_MS + 99_000)
    assert summary(status) == [
        "finished: 100 pages, 1.5 MB in 8.0 s, 12.5 pages/s",
        "  found 150 links: 100 taken, 40 seen before, 10 left out",
    ]


def test_a_summary_of_a_rough_job_tells_all() -> None:
    counters = Counters(seen=9, admitted=9, done=2, dead=4, queued=2, leased=1, retries=3, lost=1)
    reasons = {f"dead:http_50{number}": number for number in range(8)}
    status = JobStatus("j", JobState.CANCELLED, counters, reasons)
    assert summary(status) == [
        "cancelled: 2 pages, 0 B in 0.0 s",
        "  found 9 links: 9 taken, 0 seen before, 0 left out",
        "  not fetched: http_507 7, http_506 6, http_505 5, http_504 4, http_503 3, http_502 2",
        "  retried 3 times, 1 lease lost",
        "  still waiting: 3",
    ]


def test_pages_that_were_not_read_in_full_are_told() -> None:
    reasons = {"done:redirect": 1, "done:too_complex": 2}
    status = JobStatus("j", JobState.FINISHED, Counters(seen=4, admitted=4, done=4), reasons)
    told = "  stored, but not read in full, so that links or fields of them are missing: too_complex 2"
    assert told in summary(status)
    assert not any("in full" in text for text in summary(JobStatus("j", JobState.FINISHED, Counters(done=1))))


def test_one_is_not_many() -> None:
    reasons = {"done:redirect": 1, "filtered:redirect_other_host": 1, "filtered:over_budget": 1}
    counters = Counters(seen=1, admitted=1, done=2, retries=1, lost=1)
    assert summary(JobStatus("j", JobState.FINISHED, counters, reasons)) == [
        "finished: 1 page and 1 redirect, 0 B in 0.0 s",
        "  found 1 link: 1 taken, 0 seen before, 0 left out",
        "  1 redirect to other hosts not followed; name these with --host, those on this machine as URLs",
        "  stopped by --pages: 1 link not fetched",
        "  retried 1 time, 1 lease lost",
    ]


class Clock:
    """Time that passes when told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_plain_lines_come_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    display = PlainLines()
    shown: list[str] = []
    for tenth in range(51):
        clock.now = tenth / 10
        display.show(done(clock.now, tenth))
        shown.append(capsys.readouterr().err)
    told = {number / 10: text for number, text in enumerate(shown) if text}
    assert PLAIN_EVERY_S == 2.0
    assert told == {
        2.0: "running: 20 done, 10.0 pages/s, 0 queued, 0 in flight\n",
        4.0: "running: 40 done, 10.0 pages/s, 0 queued, 0 in flight\n",
    }


def test_a_quiet_display_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with live_display("title", quiet=True) as display:
        assert isinstance(display, Silent)
        display.show(done(0, 1))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_no_panel_overwrites_results_on_the_same_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with live_display("title", quiet=False, results_on_screen=True) as display:
        assert isinstance(display, PlainLines)


def test_without_a_terminal_there_are_plain_lines() -> None:
    with live_display("title", quiet=False) as display:
        assert isinstance(display, PlainLines)


def test_a_job_that_waits_for_a_store_says_so_and_not_that_hosts_are_to_blame() -> None:
    locked = Trouble(Need.DATABASE, "the database refused: database is locked", 12_345, "host:7")
    status = replace(at(20, Counters(admitted=5, queued=5)), troubles=(locked,))
    told = line(status, Speed())
    assert told.endswith(", paused for 12 s: the database refused: database is locked")
    assert "shoal hosts" not in told
    assert "  paused for 12 s: the database refused: database is locked" in summary(status)
    assert status_json(status)["troubles"] == [
        {"what": "database", "message": locked.message, "lasted_ms": 12_345, "worker": "host:7"}
    ]


def test_no_time_left_is_told_in_an_outage_nor_just_after_it() -> None:
    locked = Trouble(Need.DATABASE, "locked", 2_000)
    told: dict[float, bool] = {}
    speed = Speed()
    for tenth in range(0, 200, 5):
        second = tenth / 10
        status = done(second, pages=tenth, queued=500)
        if 5 <= second < 8:
            status = replace(status, troubles=(locked,))
        speed.note(status)
        told[second] = "left" in line(status, speed)
    assert told[4.5]
    assert not any(known for second, known in told.items() if 5 <= second <= 12)
    assert told[13.0]


def test_no_time_left_is_told_just_after_a_gap_in_what_is_known() -> None:
    speed = Speed()
    for second in (0.0, 1.0, 30.0, 31.0):
        speed.note(done(second, pages=round(second), queued=500))
    assert speed.seconds_left(done(31.0, 31, queued=500)) is None


def test_what_was_tried_in_vain_is_named_while_nothing_is_fetched() -> None:
    status = replace(at(20, Counters(admitted=5, queued=5)), reasons={"retry:connect_refused": 2, "retry:http_503": 1})
    assert line(status, Speed()).endswith("to be tried again soon, after connect_refused (more: shoal hosts)")


def test_a_note_is_said_in_place_of_a_guess() -> None:
    status = at(20, Counters(admitted=5, queued=5))
    assert line(status, Speed()).endswith("nothing may be asked now (why: shoal hosts)")
    assert line(status, Speed(), "workers are starting").endswith(", 0 in flight, workers are starting")


def test_pages_that_a_browser_could_not_bring_home_come_with_advice() -> None:
    reasons = {"dead:selector_missing": 3, "dead:http_404": 5, "dead:render_timeout": 1}
    told = summary(replace(at(1, Counters(done=1, dead=9)), reasons=reasons))
    assert "  not fetched: http_404 5, selector_missing 3, render_timeout 1" in told
    assert [text for text in told if text.startswith(("  selector_missing:", "  render_timeout:"))] == [
        "  selector_missing: what the job waits for or requires did not come: is the selector right?",
        "  render_timeout: pages took too long in the browser: raise --timeout, or wait for less",
    ]
