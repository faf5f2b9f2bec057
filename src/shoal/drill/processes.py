"""Processes of this machine as /proc tells of them: who belongs to whom."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def family(root: int) -> list[int]:
    """A process and all that descend from it, parents first."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid, parent in _parents().items():
        children[parent].append(pid)
    found = [root]
    for pid in found:
        found += sorted(children[pid])
    return found


def leaves(root: int) -> list[int]:
    """The descendants that have no children: the processes of a worker's pool."""
    parents = _parents()
    above = set(parents.values())
    return [pid for pid in family(root)[1:] if pid not in above]


def of_home(home: Path) -> list[int]:
    """Every process that was started for this SHOAL_HOME, whoever its parent is by now."""
    wanted = f"SHOAL_HOME={home}".encode()
    return [pid for pid in _parents() if pid != os.getpid() and wanted in _environment(pid)]


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to each that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _parents() -> dict[int, int]:
    """Process → its parent, of all that live."""
    found: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name in brackets may have blanks and brackets of its own.
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    found[int(entry.name)] = int(parent)
    return found


def _environment(pid: int) -> list[bytes]:
    with suppress(OSError):
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return []
