"""The process of `shoal worker` itself: it starts the Celery process, and starts it again when that dies or stalls.

The Celery process is a fork, made before anything large is imported, so that it costs no time; whatever it returns or
raises goes the way that it would go without a supervisor. It leads a process group of its own, with its pool: a Ctrl-C
or a `timeout` for the whole group reaches the supervisor alone, which passes it on in order. When its supervisor is
killed, the group goes at once; when the Celery process dies alone, its pool may bring its fetches to an end.

From the moment when it takes work, the Celery process tells its supervisor each second that it lives. One that says
nothing for longer than its leases last is stuck, with all of its threads, and is killed: a pool's processes have the
main process to notice that, but the main process, which in a worker without a pool does the work, has nobody else.

Where something large is loaded already, as when the worker is a fork of a command, the Celery process has that at once.
The supervisor would keep it in memory and use none: it becomes a small program, and the fork stays its child.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from types import FrameType
from typing import Any

from shoal.core.frozen import frozen
from shoal.guardian import die_with_parent
from shoal.restarts import Pauses
from shoal.worker.group import Group

POLL_S = 0.05
PATIENCE_S = 10.0
"""Beyond the grace period, for a worker that was told to stop."""
SIGN_S = 1.0
"""Between two signs of life."""
LOOK_S = 0.2
"""A supervisor that has not looked for longer was frozen itself, perhaps together with its worker: so much counts."""
STALLED = 75
"""Exit code of a Celery process that takes no work although there is some."""
RECYCLED = 76
"""Exit code of a Celery process that has become too large, and ends between two slices."""
HUNG = 77
"""Exit code of a Celery process that works itself, and whose loop is stuck."""
_WHY = {STALLED: "stalled", RECYCLED: "recycled", HUNG: "hung"}
MAX_FALSE_STARTS = 3
"""A worker that was never ready and is killed so many times in a row will not live."""
STOPPING = b"stopping: what is under way may end (Ctrl-C again to stop at once)\n"
Handler = Callable[[int, FrameType | None], Any] | int | None
SIGNALS = (signal.SIGTERM, signal.SIGINT)
END_GROUP = signal.SIGUSR2
"""From the kernel, when the supervisor has died."""


@frozen
class Life:
    """What a Celery process knows about its start."""

    worker: str
    """The worker's name, in the fleet and in log lines: that of its supervisor, which stays the same over restarts."""
    restarted: str = ""
    """Why the one before it ended: died, stalled; empty for the first."""
    _signs: int = -1

    def ready(self) -> None:
        """It takes work from now on, and shows that it lives."""
        import threading  # here: the supervisor has no use for it

        threading.Thread(target=self._show, name="signs", daemon=True).start()

    def _show(self) -> None:
        with suppress(OSError):  # nobody looks any more
            while True:
                os.write(self._signs, b"1")
                time.sleep(SIGN_S)


@frozen
class Handover:
    """What a supervisor that becomes a new program tells itself."""

    worker: str
    celery: int
    """The Celery process, which lives."""
    signs_read: int
    signs_write: int
    grace_s: float
    hung_s: float
    speaks: int
    """To a person at a terminal?"""

    @property
    def words(self) -> list[str]:
        """As arguments of a program."""
        return [str(getattr(self, each.name)) for each in fields(self)]

    @classmethod
    def of(cls, words: Sequence[str]) -> Handover:
        worker, celery, signs_read, signs_write, grace_s, hung_s, speaks = words
        return cls(worker, int(celery), int(signs_read), int(signs_write), float(grace_s), float(hung_s), int(speaks))


def flush_streams() -> None:
    """Before a fork, or before an end without Python's own; one that was closed when we came is None."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def worker_name() -> str:
    """A name for the worker whose supervisor this process is: two containers may be called alike, each with this id."""
    import secrets  # here: whoever has a name already needs neither
    import socket

    return f"{socket.gethostname()}:{os.getpid()}-{secrets.token_hex(4)}"


class Supervisor:
    """Keeps one Celery process alive until told to stop: gently by the first signal, at once by the second."""

    def __init__(
        self,
        grace_s: float,
        hung_s: float,
        tell: Callable[[str, int, float], None],
        *,
        speaks: bool = False,
        before: Handover | None = None,
        become: Callable[[Handover], None] | None = None,
    ) -> None:
        self._worker = before.worker if before else worker_name()
        self._speaks = speaks
        """To a person at a terminal."""
        self._handed_over = before
        """From the program that it was before."""
        self._become = become
        """The program that it is to be as soon as the Celery process lives; returns when that is not possible."""
        self._grace_s = grace_s
        self._hung_s = hung_s
        """A worker that has shown no life for so long is killed."""
        self._patience_s = grace_s + PATIENCE_S
        self._tell = tell
        """(name, exit code, pause) of a worker that is started again: for the log."""
        self._pauses = Pauses()
        self._signs_read, self._signs_write = (before.signs_read, before.signs_write) if before else os.pipe()
        os.set_blocking(self._signs_read, False)
        self._was_ready = False
        self._looked_at = 0.0
        self._silent_s: float | None = None
        """For so long the Celery process has not shown that it lives; None before it is ready."""
        self._group: Group | None = None
        """The Celery process and its pool; None between two lives."""
        self._is_child = False
        self._remains: list[tuple[Group, float]] = []
        """Groups whose leader has died, and until when they may end by themselves."""
        self._before: dict[int, Handler] = {}
        self._asked = self._harder = 0
        self._deadline = float("inf")

    def run(self, work: Callable[[Life], int]) -> int:
        """In the supervisor: the exit code, once all is over. In the Celery process: what the work returns."""
        restarted = ""
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        try:
            while True:
                born = self._adopt() or self._fork(restarted)
                if isinstance(born, Life):
                    return work(born)
                self._hand_over(born)
                started = time.monotonic()
                code = self._watch(born)
                final = self._final(code)
                if final is not None:
                    return final
                restarted = "hung" if self._is_hung() else _WHY.get(code, "died")
                if code != RECYCLED:
                    self._rest(code, self._pauses.after(time.monotonic() - started))
        finally:
            if not self._is_child:
                self._bury(at_once=True)
                self._put_back()

    # --- a life -------------------------------------------------------------------------------------------------

    def _fork(self, restarted: str) -> Life | Group:
        """A new process: in it, what it knows; in the supervisor, its group."""
        supervisor = os.getpid()
        flush_streams()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            child = os.fork()
            if child:
                self._group = Group(child)
                return self._group
            self._group, self._is_child = None, True
            os.setpgid(0, 0)
            self._put_back()
            signal.signal(END_GROUP, _end_group)
            die_with_parent(supervisor, END_GROUP)
            return Life(self._worker, restarted, self._signs_write)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _adopt(self) -> Group | None:
        """The Celery process that was forked by the program that this one was before."""
        if self._handed_over is None:
            return None
        self._group = Group(self._handed_over.celery)
        self._handed_over = None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # what came meanwhile is noted now
        return self._group

    def _hand_over(self, group: Group) -> None:
        """Become another program, if there is one to become; signals wait until that can note them."""
        if self._become is None:
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            become, self._become = self._become, None
            if not self._asked:
                pipe = self._signs_read, self._signs_write
                for file in pipe:
                    os.set_inheritable(file, True)
                become(Handover(self._worker, group.leader, *pipe, self._grace_s, self._hung_s, int(self._speaks)))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _watch(self, group: Group) -> int:
        """Until it has ended: its exit code, negative for a signal."""
        if self._asked:  # while it was being started
            group.tell(signal.SIGTERM)
        if self._is_hung():
            self._drain_signs()  # those of the one before, which may have come to life again while it was killed
        self._silent_s = None
        while (code := group.ended()) is None:
            self._look_for_signs()
            if time.monotonic() > self._deadline:
                self._harder = self._harder or signal.SIGKILL
                group.kill()
            elif self._is_hung():
                group.kill()
            self._bury()
            time.sleep(POLL_S)
        self._remains.append((group, time.monotonic() + self._patience_s))
        self._group = None
        if not self._is_hung():
            self._look_for_signs()
        return code

    def _look_for_signs(self) -> None:
        now = time.monotonic()
        if self._silent_s is not None:
            self._silent_s += min(now - self._looked_at, LOOK_S)
        self._looked_at = now
        if self._drain_signs():
            self._silent_s, self._was_ready = 0.0, True

    def _drain_signs(self) -> bool:
        """Were there any?"""
        found = False
        with suppress(BlockingIOError):
            while os.read(self._signs_read, 1024):
                found = True
        return found

    def _is_hung(self) -> bool:
        return self._silent_s is not None and self._silent_s > self._hung_s

    def _final(self, code: int) -> int | None:
        """The exit code, unless it is to be started again."""
        if self._asked:
            return 128 + self._harder if self._harder else (0 if code == -signal.SIGTERM else _plain(code))
        if code == 0:
            return 0  # told to stop by somebody else: an operator, or Celery's remote control
        if self._was_ready or code == STALLED:
            return None
        if code > 0 or self._pauses.in_a_row + 1 >= MAX_FALSE_STARTS:
            return _plain(code)
        return None

    def _rest(self, code: int, pause_s: float) -> None:
        self._tell(self._worker, code, pause_s)
        until = time.monotonic() + pause_s
        while time.monotonic() < until and not self._asked:
            self._bury()
            time.sleep(POLL_S)

    # --- ends ---------------------------------------------------------------------------------------------------

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            self._harder = number
            if self._group:
                self._group.kill()
            return
        self._asked = number
        if self._speaks:
            with suppress(OSError):  # nobody may be there to read it
                os.write(2, STOPPING)
        self._deadline = time.monotonic() + self._patience_s
        if self._group:
            self._group.tell(signal.SIGTERM)

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _bury(self, *, at_once: bool = False) -> None:
        """What is left of the dead: their pools may end by themselves, for a while."""
        for group, until in tuple(self._remains):
            if at_once or time.monotonic() > until:
                group.bury()
                self._remains.remove((group, until))


def _end_group(_signal: int, _frame: FrameType | None) -> None:
    os.killpg(0, signal.SIGKILL)


def _plain(code: int) -> int:
    """As a shell would say it."""
    return code if code >= 0 else 128 - code
