"""The short version of `make bench`: the harness runs, and says what it measured. No figure is judged here."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.command import REPOSITORY


def test_the_short_benchmark_measures_shoal_and_the_ceiling() -> None:
    contenders = [word for name in ("raw", "shoal-1") for word in ("--only", name)]
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", *contenders],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": "src", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "round 1: raw:" in ended.stderr
    assert "round 1: shoal-1:" in ended.stderr
    assert "shoal-1 against raw" in ended.stdout
