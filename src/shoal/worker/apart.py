"""Housekeeping in a process of its own: of a worker with a pool, whose archive is in an object store.

The object store's library has threads, and no process may be forked from one that has used it. So the main process of
a pool leaves it to another: `python -m shoal.worker.apart`, which is given its settings on standard input and then a
line for each round, and answers each with a line. It ends when its input does.
"""

from __future__ import annotations

import select
import subprocess
import sys
from contextlib import suppress

import structlog

from shoal.core.model import CONTROL_QUEUE
from shoal.errors import ShoalError, Unavailable
from shoal.guardian import die_with_parent
from shoal.settings import Settings

log = structlog.get_logger()

ENDS_WITHIN_S = 3.0
"""When it is told to, and once more when it was killed: one that is stuck in the kernel is left behind."""
ROUND_WITHIN_S = 900.0
"""A round is over after some seconds, and after minutes when much was left over; one that is not is stuck."""
ROUND = b"round\n"


class HouseApart:
    """Keeps house in that process, which is started when it is first needed, and again when it has died."""

    def __init__(self, settings: Settings, worker: str) -> None:
        self._settings = settings
        self._worker = worker
        self._process: subprocess.Popen[bytes] | None = None

    def tick(self) -> None:
        """One round, to its end."""
        try:
            answer = self._ask()
        except TimeoutError:
            self.close()
            raise Unavailable(
                f"the process that keeps house was stuck for {ROUND_WITHIN_S:g} s; another one is started"
            ) from None
        except OSError:
            answer = b""
        if answer != ROUND:
            self.close()
            raise Unavailable("the process that keeps house has ended; another one is started")

    def close(self) -> None:
        """End the process, whatever has become of it; a round under way may end, for a while."""
        if process := self._process:
            self._process = None
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # it is dead, and what it was last told goes nowhere
                    if pipe:
                        pipe.close()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(ENDS_WITHIN_S)

    def _ask(self) -> bytes:
        """Its answer to the question for a round; raises TimeoutError when none comes."""
        process = self._running()
        assert process.stdin and process.stdout
        process.stdin.write(ROUND)
        process.stdin.flush()
        answers = select.poll()
        answers.register(process.stdout, select.POLLIN)
        if not answers.poll(ROUND_WITHIN_S * 1_000):
            raise TimeoutError
        return process.stdout.readline()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shoal.worker.apart", self._worker],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                preexec_fn=die_with_parent,
            )
            assert self._process.stdin
            self._process.stdin.write(self._settings.model_dump_json().encode() + b"\n")
        return self._process


def _keep_house(worker: str) -> None:
    """In that process."""
    settings = Settings.model_validate_json(sys.stdin.buffer.readline())
    from shoal.log_names import name_process
    from shoal.observe import flush_logs, set_up_served_logs
    from shoal.wiring import housekeeping_platform

    set_up_served_logs(settings, settings.log_level)
    name_process(worker=worker)
    platform = None
    while sys.stdin.buffer.readline():
        try:
            platform = platform or housekeeping_platform(settings)
            platform.frontier.answer_ring(CONTROL_QUEUE)
            platform.housekeeper.tick()
        except ShoalError as exc:
            log.warning("tick_failed", error=str(exc))
        sys.stdout.buffer.write(ROUND)
        sys.stdout.buffer.flush()
    if platform:
        platform.close()
    flush_logs()


if __name__ == "__main__":
    _keep_house(sys.argv[1])
