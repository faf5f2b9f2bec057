"""How the benchmarks of a group are run: one after the other, within bounds, and whatever happens."""

import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from benchmarks.result import Failure, Row

Measure = Callable[[bool], list[Row]]
"""Measures, quickly or in earnest."""
LIMIT_S = 900
"""For one benchmark; one that takes longer has failed."""


def run(benchmarks: Mapping[str, Measure], names: Sequence[str], *, quick: bool) -> tuple[list[Row], list[Failure]]:
    """Measure one after the other; one that fails leaves the others alone."""
    rows: list[Row] = []
    failures: list[Failure] = []
    for name in names:
        started = time.monotonic()
        try:
            with _time_limit(LIMIT_S):
                rows += benchmarks[name](quick)
            said = "done"
        except Exception as exc:  # noqa: BLE001 - whatever it is, it must not cost what the others have measured
            traceback.print_exc()
            failures.append(Failure(name, 1, f"{type(exc).__name__}: {exc}"))
            said = "failed"
        print(f"{name}: {said} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return rows, failures


@contextmanager
def _time_limit(seconds: int) -> Generator[None]:
    def give_up(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
