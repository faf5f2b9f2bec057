"""How much memory a worker takes, from /proc; nothing is known where there is none."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def resident_mb() -> int:
    """Megabytes of this process and its children together; 0 when the system does not tell."""
    own = os.getpid()
    return sum(_resident(pid) for pid in (own, *_children(own))) // 1_000_000


def own_mb() -> int:
    """Megabytes of this process alone; 0 when the system does not tell."""
    return _resident(os.getpid()) // 1_000_000


def _resident(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0  # gone, or never to be seen


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += [int(child) for child in (thread / "children").read_text().split()]
    return found
