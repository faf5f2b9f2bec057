"""The workers that a command brings along: what is said of them while a job waits."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from shoal import restarts
from shoal.cli import crew as crews
from shoal.cli.crew import MAX_DEATHS, Crew
from shoal.core.fleet import WorkerBeat
from shoal.errors import ShoalError
from shoal.settings import Settings
from tests.waiting import wait_until


def _beat(started_ms: int, slices: int = 0) -> WorkerBeat:
    return WorkerBeat("w@host", ("http.batch",), 1, 0, slices, 50, started_ms, "1")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"home": tmp_path})


def _still(folder: Path) -> Path:
    """A Python that finds this folder never gets beyond its start."""
    (folder / "sitecustomize.py").write_text("import signal; signal.pause()")
    return folder


@pytest.fixture
def crew(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Crew]:
    """Its worker never gets beyond the start of Python."""
    monkeypatch.setenv("PYTHONPATH", str(_still(tmp_path)))
    made = Crew(settings, 1)
    yield made
    made.stop(within_s=0)


def _worker() -> psutil.Process:
    """A process that has just become this program has no words on its command line for a moment."""
    wait_until(lambda: bool(_workers()))
    (worker,) = _workers()
    return worker


def _workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "shoal.worker" in child.cmdline()]


@pytest.mark.parametrize(
    ("processes", "said", "pool"), [(1, {}, "solo"), (2, {}, None), (1, {"pool": "prefork"}, None)]
)
def test_one_process_needs_no_pool_unless_the_operator_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, said: dict[str, str], pool: str | None
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(_still(tmp_path)))
    monkeypatch.delenv("SHOAL_POOL", raising=False)
    crew = Crew(Settings.model_validate({"home": tmp_path, **said}), processes)
    try:
        assert _worker().environ().get("SHOAL_POOL") == pool
    finally:
        crew.stop(within_s=0)


def _kill_the_worker() -> None:
    worker = _worker()
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: worker.status() == psutil.STATUS_ZOMBIE)


def test_workers_are_starting_until_one_shows_itself_and_again_when_it_was_killed(crew: Crew) -> None:
    before = _beat(_now_ms() - 60_000)
    assert crew.standstill([]) == "workers are starting"
    assert crew.standstill([before]) == "workers are starting"
    assert crew.standstill([_beat(_now_ms())]) == "workers are starting"
    up = _beat(_now_ms(), slices=1)
    assert crew.standstill([before, up]) == ""
    _kill_the_worker()
    assert crew.standstill([before, up]) == "workers are starting"


def test_who_waits_for_long_is_told_where_to_look(crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crews, "SLOW_START_S", 0.0)
    log = tmp_path / "logs" / f"worker-{os.getpid()}.log"
    assert crew.standstill([]) == f"workers are still starting; their log: {log}"
    assert crew.standstill([_beat(_now_ms(), slices=1)]) == ""


def test_the_last_word_on_a_worker_says_how_often_it_was_tried(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(restarts, "LONGEST_PAUSE_S", 0.0)
    for _ in range(MAX_DEATHS):
        _kill_the_worker()
        crew.check()  # notes it
        wait_until(lambda: _started_again(crew))
    _kill_the_worker()
    with pytest.raises(
        ShoalError, match=r"the worker was killed \(SIGKILL\), after it was started again 3 times; its log"
    ):
        crew.check()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == MAX_DEATHS
    assert said[0].startswith("the worker was killed (SIGKILL); it starts again in 1 s")


def _started_again(crew: Crew) -> bool:
    crew.check()
    return crew.alive


def test_who_brings_no_workers_says_when_there_are_none(settings: Settings) -> None:
    crew = Crew(settings, 0)
    assert crew.standstill([]) == "no worker is alive: shoal worker"
    assert crew.standstill([_beat(1)]) == ""
