"""`shoal`, with schedules on a clock that the test sets: a file has (real ms, shown ms, how much faster it goes)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from shoal import wiring
from shoal.cli.main import main
from shoal.frontier.frontier import Frontier

CLOCK = "SHOAL_TEST_CLOCK"


def clock_of(file: Path, real_ms: Callable[[], int]) -> Callable[[], int]:
    """A clock that shows what the file says."""

    def now_ms() -> int:
        real, shown, speed = (int(part) for part in file.read_text(encoding="utf-8").split())
        return shown + (real_ms() - real) * speed

    return now_ms


def _shifted(frontier: Frontier) -> Callable[[], int]:
    return clock_of(Path(os.environ[CLOCK]), frontier.audit.now_ms)


if __name__ == "__main__":
    wiring.schedule_clock = _shifted
    main()
