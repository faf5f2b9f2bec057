"""The processes of a browser: its tree, the memory of it, and how it is ended.

On Linux `/proc` is read, because that is done several times a second; elsewhere psutil is asked.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from shoal.core.frozen import frozen

PROC = Path("/proc")
_LINUX = sys.platform == "linux"


@frozen
class Process:
    """One process, as it was when it was looked at."""

    pid: int
    parent: int
    zombie: bool = False


def children_of(*roots: int) -> list[Process]:
    """All that descend from these processes, those that are dead and not yet buried too."""
    by_parent = dict[int, list[Process]]()
    for process in all_processes():
        by_parent.setdefault(process.parent, []).append(process)
    found, waiting = list[Process](), list(roots)
    while waiting:
        below = by_parent.pop(waiting.pop(), [])
        found.extend(below)
        waiting.extend(process.pid for process in below)
    return found


def all_processes() -> Iterable[Process]:
    """Every process that can be seen from here."""
    if _LINUX:
        for entry in os.scandir(PROC):
            if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
                yield Process(int(entry.name), int(fields[1]), fields[0] in ("Z", "X"))
        return
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error):
            yield Process(process.pid, process.ppid(), process.status() == psutil.STATUS_ZOMBIE)


def command_of(pid: int) -> Sequence[str]:
    """The command line; empty when the process is gone or not ours to look at."""
    if _LINUX:
        try:
            return (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            return ()
    import psutil

    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return ()


def born(pid: int) -> str:
    """When a process started: together with its id, that is nobody else. Empty when it is gone and buried."""
    if _LINUX:
        fields = _stat(pid)
        return fields[19] if fields else ""
    import psutil

    try:
        return str(int(psutil.Process(pid).create_time()))
    except psutil.Error:
        return ""


def lives(pid: int, started: str) -> bool:
    """Is the process that had this id then still at work?"""
    if not _LINUX:
        return born(pid) == started
    fields = _stat(pid)
    return bool(fields) and fields[19] == started and fields[0] not in ("Z", "X")


def namespace() -> str:
    """Among whom process ids mean the same: containers have their own."""
    try:
        return str((PROC / "self" / "ns" / "pid").stat().st_ino)
    except OSError:
        return "0"


def memory_of(pid: int) -> int:
    """Bytes that the process alone is to blame for: what it has mapped from files, others share."""
    if _LINUX:
        try:
            text = (PROC / str(pid) / "status").read_text()
        except OSError:
            return 0
        return sum(
            int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(("RssAnon:", "RssShmem:"))
        )
    import psutil

    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0


def kill(pids: Iterable[int]) -> None:
    """End them at once; those that are gone already do not matter."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_group(leader: int) -> None:
    """End a process and all of its group, if it leads one."""
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(leader) == leader != os.getpgrp():
            os.killpg(leader, signal.SIGKILL)
        else:
            os.kill(leader, signal.SIGKILL)


def bury(pids: Iterable[int]) -> None:
    """Take note of the end of those that became our children when their parents died: we may be process 1."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _stat(pid: int) -> list[str]:
    """State, parent, group, … of a process; empty when it is gone. Its name may contain anything, and is left out."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)  # not by way of Path: this is done hundreds of times a second
    except OSError:
        return []
    try:
        return os.read(file, 4096).rpartition(b")")[2].decode().split()
    except OSError:
        return []
    finally:
        os.close(file)
