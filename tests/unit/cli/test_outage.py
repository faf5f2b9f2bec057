"""Questions that stay unanswered: what is said, when, and how one gets away."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace

import pytest

from shoal.cli import outage as module
from shoal.cli.outage import Outage, Question, ask_until_answered, slow_is_said
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState
from shoal.core.trouble import Need, Trouble
from shoal.errors import NotFound, RedisUnavailable, Unavailable
from tests.waiting import wait_until

FINE = JobStatus("j", JobState.RUNNING, Counters())


class Clock:
    """Time that passes when told to, or when somebody sleeps."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def locked(seconds: float) -> JobStatus:
    return replace(FINE, troubles=(Trouble(Need.DATABASE, "database is locked", round(seconds * 1000), "w:1"),))


def test_a_question_is_asked_until_it_is_answered(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([RedisUnavailable("Redis did not answer\nat all")] * 8)

    def ask() -> JobStatus:
        if error := next(answers, None):
            raise error
        return FINE

    outage = Outage()
    for _ in range(3):
        assert outage.answered(ask_until_answered(ask, outage)) == ""
        clock.now += 1
    assert capsys.readouterr().err.splitlines() == [
        "paused for 2 s: Redis did not answer; waiting for it",
        "paused for 7 s: Redis did not answer; waiting for it",
        "going on after 8 s",
    ]
    assert not outage.lasts


def test_a_short_absence_is_not_worth_a_word(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    outage = Outage()
    outage.unanswered(clock.now, RedisUnavailable())
    for _ in range(3):
        clock.now += 1
        outage.answered(FINE)
    assert capsys.readouterr().err == ""
    assert not outage.lasts


def test_an_outage_has_one_clock_whoever_noticed_it(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    outage = Outage()
    assert outage.answered(locked(0.5)) == ""
    clock.now += 9.5
    outage.unanswered(clock.now - 1)
    clock.now += 20
    assert outage.answered(locked(9)) == "paused for 30 s: database is locked"
    clock.now += 5
    outage.answered(FINE)
    clock.now += 2
    outage.answered(FINE)
    assert capsys.readouterr().err.splitlines() == [
        "paused for 10 s: database is locked; waiting for it",
        "going on after 35 s",
    ]


def test_who_is_quiet_is_not_told_of_the_end_of_what_was_not_said(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    outage = Outage(quiet=True)
    outage.answered(locked(30))
    outage.answered(FINE)
    clock.now += 2
    outage.answered(FINE)
    assert capsys.readouterr().err == ""


@pytest.fixture
def hanging() -> Generator[threading.Event]:
    """Whoever waits for it hangs until the test is over."""
    made = threading.Event()
    yield made
    made.set()


def test_who_wants_to_leave_does_not_wait_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, hanging: threading.Event
) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.01)
    outage = Outage()
    with pytest.raises(Unavailable, match="Redis or the database does not answer"):
        ask_until_answered(hanging.wait, outage, lambda: True)
    assert outage.lasts


def test_who_is_told_to_stop_asks_no_more() -> None:
    def ask() -> str:
        raise RedisUnavailable

    with pytest.raises(RedisUnavailable):
        ask_until_answered(ask, Outage(), lambda: True)


def test_an_error_that_is_not_an_absence_comes_through() -> None:
    def ask() -> str:
        raise NotFound("no such job")

    with pytest.raises(NotFound, match="no such job"):
        ask_until_answered(ask, Outage())


def test_a_question_knows_whether_it_was_answered(hanging: threading.Event) -> None:
    asked = Question(hanging.wait)
    assert not asked.wait(0)
    assert not asked.succeeded
    hanging.set()
    assert asked.wait(30)
    assert asked.succeeded
    assert asked.answer


def test_what_takes_long_is_said_once_and_what_does_not_never(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(module, "say", said.append)
    with slow_is_said("Redis"):
        pass
    monkeypatch.setattr(module, "SAY_AFTER_S", 0.01)
    with slow_is_said("Redis"):
        wait_until(lambda: bool(said))
    assert said == ["waiting for Redis …"]
