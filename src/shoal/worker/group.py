"""A process group: the process that leads it, and all that this one has started.

Its number stays its own until it is buried, however long its leader has been dead; else a signal for the group could
reach strangers who have got the number meanwhile. The kernel gives no number away that a process or a group still has,
and the dead have theirs until somebody waits for them. Where one can see that the leader has ended without waiting for
it (`waitid`), it is left lying itself. Elsewhere, on macOS before Python 3.13, a process that joins the group and ends
at once is left lying in its place.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

_CAN_LOOK = hasattr(os, "waitid")


class Group:
    """The group of a process that was just forked; for its parent."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        with suppress(OSError):  # it does so itself, sooner or later
            os.setpgid(leader, leader)
        self._left_lying = leader if _CAN_LOOK else _place_holder(leader)
        self._code: int | None = None

    def ended(self) -> int | None:
        """Its leader's exit code, negative for a signal; None while it lives."""
        if self._code is None:
            self._code = _look(self.leader) if _CAN_LOOK else _take(self.leader)
        return self._code

    def tell(self, number: int) -> None:
        """A signal for the leader alone."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.leader, number)

    def kill(self) -> None:
        """End all that live, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, signal.SIGKILL)

    def bury(self) -> None:
        """The leader has ended; nobody of the group is left, and its number is free."""
        self.kill()
        os.waitpid(self._left_lying, 0)


def _look(pid: int) -> int | None:
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _take(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _place_holder(leader: int) -> int:
    """A dead member of the group."""
    pid = os.fork()
    if not pid:
        try:
            os.setpgid(0, leader)
        finally:
            os._exit(0)
    with suppress(OSError):  # it has done so and ended already
        os.setpgid(pid, leader)
    return pid
