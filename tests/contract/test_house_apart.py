"""Housekeeping in a process of its own: one that dies or is stuck is noticed, buried, and followed by another."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from shoal.errors import Unavailable
from shoal.settings import Settings
from shoal.worker import apart
from shoal.worker.apart import HouseApart
from tests.contract.databases import a_sqlite


@pytest.fixture
def house(valkey_url: str, tmp_path: Path) -> Generator[HouseApart]:
    settings = Settings(
        home=tmp_path,
        redis_url=valkey_url,
        database_url=a_sqlite(tmp_path),
        prefix=f"apart-{uuid4().hex[:8]}",
    )
    house = HouseApart(settings, "here:1")
    yield house
    house.close()
    assert _processes() == []


def _processes() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if "shoal.worker.apart" in each.cmdline()]


def test_rounds_are_done_in_one_process_that_ends_when_it_is_told_to(house: HouseApart) -> None:
    house.tick()
    (before,) = _processes()
    house.tick()
    assert _processes() == [before]
    house.close()
    assert _processes() == []
    house.close()


def test_a_process_that_died_is_followed_by_another(house: HouseApart) -> None:
    house.tick()
    (before,) = _processes()
    before.send_signal(signal.SIGSTOP)
    before.kill()
    psutil.wait_procs([before], timeout=10)
    house.tick()
    (after,) = _processes()
    assert after.pid != before.pid


def test_a_process_that_is_dead_before_it_is_told_anything_is_buried_in_silence(
    house: HouseApart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was to be told is still in our hands, and cannot be put down anywhere."""
    born: list[subprocess.Popen[bytes]] = []

    class Stillborn(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **options: Any) -> None:
            super().__init__([shutil.which("false") or "false", *command[1:]], **options)
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            born.append(self)

    monkeypatch.setattr(apart.subprocess, "Popen", Stillborn)
    with pytest.raises(Unavailable, match="has ended; another one is started"):
        house.tick()
    house.close()
    assert [process.returncode for process in born] == [1]


def test_a_process_that_is_stuck_is_given_up_in_time(house: HouseApart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "ROUND_WITHIN_S", 1.0)
    monkeypatch.setattr(apart, "ENDS_WITHIN_S", 0.5)
    _tick_in_time(house)
    (before,) = _processes()
    before.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="was stuck for 1 s; another one is started"):
        house.tick()
    assert time.monotonic() - began < 5
    assert not before.is_running()
    _tick_in_time(house)
    (after,) = _processes()
    assert after.pid != before.pid


def _tick_in_time(house: HouseApart) -> None:
    """The first round takes as long as a start of Python."""
    within, apart.ROUND_WITHIN_S = apart.ROUND_WITHIN_S, 60.0
    try:
        house.tick()
    finally:
        apart.ROUND_WITHIN_S = within
