"""`python -m shoal.worker`: a worker configured by SHOAL_* variables alone, without the command line's imports.

This is what commands start. Once the Celery process is forked, the supervisor begins anew as this program, without all
that was imported for the fork; it is told in arguments of the worker that it has to look after.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.collector import look_rarely
from shoal.companions import do_without_companions
from shoal.errors import ShoalError
from shoal.guardian import die_with_parent

if TYPE_CHECKING:
    from shoal.worker.supervisor import Handover


def run() -> int:
    """Serve queues until told to stop; returns the exit code."""
    look_rarely()
    do_without_companions()
    try:
        from shoal.settings import read_settings

        settings = read_settings()
        if settings.parent is not None:
            die_with_parent(settings.parent)  # before the long imports: the command may be killed meanwhile
        from shoal.worker.serve import serve

        return serve(settings, settings.log_level, _become_supervisor)
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
