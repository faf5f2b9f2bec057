"""SHOAL_HOME: the folder of everything that Shoal keeps on this machine.

A small file there is of no use but its room: SQLite needs some even to be read and to delete, and a command gives up
the file when the disk is full.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from shoal.errors import StoreUnavailable

PROBE_BYTES = 1 << 20
"""A disk with less room than this is full."""
RESERVE = "reserve"
RESERVE_BYTES = 1 << 20


def make_home(home: Path) -> None:
    """The folder, for who looks at what it has: this takes no room on its disk."""
    with _translated(home):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)


def prepare_home(home: Path) -> None:
    """A folder that cannot be written, or a full disk, is found out now and not in the middle of a crawl."""
    make_home(home)
    with _translated(home), NamedTemporaryFile(dir=home, prefix="probe-") as probe:
        probe.write(bytes(PROBE_BYTES))
        probe.flush()
        os.fsync(probe.fileno())
    keep_reserve(home)


def is_full(home: Path) -> bool:
    """Is there no room on the disk of this folder?"""
    with _translated(home):
        return shutil.disk_usage(home).free < PROBE_BYTES


def keep_reserve(home: Path) -> None:
    """Put the reserve there, if it is missing and there is room for it and something else."""
    reserve = home / RESERVE
    try:
        if not reserve.exists() and shutil.disk_usage(home).free >= RESERVE_BYTES + PROBE_BYTES:
            reserve.write_bytes(bytes(RESERVE_BYTES))
    except OSError:  # somebody else took the room: then there is none to be had for free either
        reserve.unlink(missing_ok=True)


def spend_reserve(home: Path) -> bool:
    """On a full disk, make some room; False when there is room, or no reserve."""
    reserve = home / RESERVE
    if not is_full(home) or not reserve.exists():
        return False
    reserve.unlink(missing_ok=True)
    return True


@contextmanager
def _translated(home: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        advice = "Make room there (shoal prune --older-than 30d), or set SHOAL_HOME to another folder."
        raise StoreUnavailable(f"cannot write to {home}: {exc.strerror or exc}\n{advice}") from exc
