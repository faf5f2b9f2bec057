"""Shares of the processors that contenders may take."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import quota
from benchmarks.lineup import CONTENDERS
from tests.conftest import lack

GROUP_OF_MINE = "print(open('/proc/self/cgroup').read())"


def test_workers_that_are_compared_have_the_same_share_each() -> None:
    cores = {contender.name: contender.cores for contender in CONTENDERS}
    assert cores["shoal-1-shared"] == 0.5
    assert cores["shoal-2-shared"] == 1.0
    assert cores["shoal-1"] is cores["shoal-2"] is None


def test_a_contender_without_a_share_joins_nothing() -> None:
    with quota.limited(None) as join:
        assert _group_of_a_child(join) == _group_of_a_child(lambda: None)


def test_a_contender_with_a_share_is_in_a_group_that_ends_with_it() -> None:
    if not quota.can_limit():
        lack("it takes root, and control groups, to give a process a share of the processors")
    before = _groups()
    with quota.limited(0.5) as join:
        assert "/shoal-bench-" in _group_of_a_child(join)
        (ours,) = _groups() - before
        assert ours.name in _group_of_a_child(join)
    assert _groups() == before


def _groups() -> set[Path]:
    """Of this process."""
    mine = f"shoal-bench-{os.getpid()}-*"
    return {*quota.CLASSIC.glob(mine), *quota.GROUPS.glob(mine)}


def _group_of_a_child(join: Callable[[], None]) -> str:
    command = [sys.executable, "-c", GROUP_OF_MINE]
    return subprocess.run(command, preexec_fn=join, capture_output=True, text=True, check=True).stdout
