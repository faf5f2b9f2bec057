"""Numbers as people read them, and a job's state as programs read it."""

from __future__ import annotations

import json

import pytest

from shoal.cli.talk import counted, human_bytes, human_seconds, print_json, say, status_json
from shoal.core.frozen import names_of
from shoal.core.host_status import HostSpeed
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1540, "1.5 kB"),
        (1_500_000, "1.5 MB"),
        (2_340_000_000, "2.3 GB"),
        (5_000_000_000_000, "5000.0 GB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.9, "9.9 s"),
        (10, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.6, "1 h 00 min"),
        (7260, "2 h 01 min"),
        (360_000, "100 h 00 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text


def test_talk_goes_to_standard_error_and_data_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    say("hello")
    print_json({"a": "é"})
    captured = capsys.readouterr()
    assert (captured.err, captured.out) == ("hello\n", '{"a":"é"}\n')


def test_a_status_for_programs_holds_every_sum() -> None:
    counters = Counters(seen=12, admitted=10, filtered=2, done=9, dead=1)
    status = JobStatus(
        "j", JobState.FINISHED, counters, {"dead:http_404": 1}, (HostSpeed("a", 120),), 1_000, 4_000, 9_000
    )
    told = status_json(status)
    assert json.loads(json.dumps(told)) == told
    assert {name: told[name] for name in ("job", "state", "pages", "seconds", "pages_per_second", "reconciles")} == {
        "job": "j",
        "state": "finished",
        "pages": 9,
        "seconds": 3.0,
        "pages_per_second": 3.0,
        "reconciles": True,
    }
    assert told["counters"]["admitted"] == 10
    assert set(told["counters"]) == set(names_of(Counters))
    assert told["reasons"] == {"dead:http_404": 1}
    assert told["slowest_hosts"] == [{"host": "a", "latency_ms": 120}]


def test_a_job_that_never_started_has_no_speed() -> None:
    told = status_json(JobStatus("j", JobState.RUNNING, Counters()))
    assert (told["seconds"], told["pages_per_second"]) == (0.0, 0.0)


def test_one_is_singular_and_all_others_are_plural() -> None:
    assert [counted(number, "page") for number in (0, 1, 2, 1_000)] == ["0 pages", "1 page", "2 pages", "1,000 pages"]
