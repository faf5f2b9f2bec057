"""The file that standard error goes to, when it is one: put aside when it is full, so that logs have an end.

Any number of processes write to it, and any of them may find that it is full. That one renames it and begins another;
the others find theirs to be full as well, and go on in the new one. Nothing is copied, no line is lost or cut, nobody
waits: who does not get the lock writes on, and looks again at the next line.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path

KEPT = 3
"""Files put aside: .1 is the youngest."""
KEPT_COMMANDS = 20
"""Logs of workers whose commands have ended."""
_STANDARD_ERROR = 2


class LogFile:
    """Standard error in a file of a bounded size."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes

    def begin(self) -> None:
        """From now on standard error goes there, whatever it was before."""
        with _open(self._path) as file:
            if not _is_same(os.fstat(_STANDARD_ERROR), os.fstat(file.fileno())):
                os.dup2(file.fileno(), _STANDARD_ERROR)

    def look(self) -> None:
        """Go on in another file if this one is full; what goes wrong with that leaves everything as it is."""
        with suppress(OSError):
            if os.fstat(_STANDARD_ERROR).st_size > self._most_bytes:
                self._turn()

    def _turn(self) -> None:
        put_aside(self._path, self._most_bytes)
        with _open(self._path) as file:
            os.dup2(file.fileno(), _STANDARD_ERROR)


def put_aside(path: Path, most_bytes: int) -> None:
    """Rename a full file, unless somebody else does so at this moment or has done so."""
    with _open(path) as file:
        number = file.fileno()
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        try:
            if os.fstat(number).st_size > most_bytes and _is_same(os.fstat(number), path.stat()):
                for age in range(KEPT - 1, 0, -1):
                    with suppress(FileNotFoundError):
                        _aged(path, age).replace(_aged(path, age + 1))
                path.replace(_aged(path, 1))
        finally:
            fcntl.flock(number, fcntl.LOCK_UN)


def sweep(folder: Path) -> None:
    """Remove the logs of workers that commands have brought along and that are gone, but for the youngest."""
    with suppress(OSError):
        logs = {path: path.stat().st_mtime_ns for path in folder.glob("worker-*.log") if not _lives(path)}
        for path in sorted(logs, key=lambda each: logs[each], reverse=True)[KEPT_COMMANDS:]:
            _remove([path, *(_aged(path, age) for age in range(1, KEPT + 1))])


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _lives(log: Path) -> bool:
    """Is the command there whose process id is in the name? Names of other kinds are not ours to remove."""
    try:
        os.kill(int(log.stem.removeprefix("worker-")), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, OSError):
        return True
    return True


def _aged(path: Path, age: int) -> Path:
    return path.with_name(f"{path.name}.{age}")


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _open(path: Path) -> FileIO:
    return path.open("ab", buffering=0)
