"""`python -m shoal.worker`: a worker configured by SHOAL_* variables alone, without the command line's imports.

This is what a foreground command starts, because its user waits for the first page. Where the command forks itself
instead, this is what becomes of the supervisor, which is told in arguments of the worker that it has to look after.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.collector import look_rarely
from shoal.errors import ShoalError
from shoal.guardian import die_with_parent

if TYPE_CHECKING:
    from shoal.worker.supervisor import Handover


def run(*, forked: bool = False) -> int:
    """Serve queues until told to stop; returns the exit code. `forked`: from a process that has all of it loaded."""
    look_rarely()
    try:
        from shoal.settings import read_settings

        settings = read_settings()
        if settings.parent is not None:
            die_with_parent(settings.parent)  # before the long imports: the command may be killed meanwhile
        from shoal.worker.serve import serve

        return serve(settings, settings.log_level, _become_supervisor if forked else None)
    except ShoalError as exc:
        return _told(exc)


def _become_supervisor(handover: Handover) -> None:
    with suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-m", "shoal.worker", *handover.words])


def _supervise(words: list[str]) -> int:
    from shoal.worker.serve import supervise
    from shoal.worker.supervisor import Handover

    try:
        return supervise(Handover.of(words))
    except ShoalError as exc:
        return _told(exc)


def _told(error: ShoalError) -> int:
    print(f"shoal worker: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(_supervise(sys.argv[1:]) if sys.argv[1:] else run())
