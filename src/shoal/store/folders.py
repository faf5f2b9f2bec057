"""The archive as folders of jobs: what is there, how large it is, and how old. Rows are not asked."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from shoal.core.frozen import frozen
from shoal.errors import ArchiveUnavailable
from shoal.store.owner import Owner

SEGMENT = ".warc.gz"
_OWNERS = ".owners"


def register(root: Path, owner: str) -> None:
    """Write down that a database uses this archive, once: the file's time is when it began to."""
    owners = root / _OWNERS
    if not (owners / owner).exists():
        owners.mkdir(exist_ok=True)
        (owners / owner).touch()


@frozen
class SegmentFile:
    """One segment on the disk."""

    key: str
    """As rows name it."""
    size: int
    idle: timedelta
    """Since it was last written."""


class ArchiveFolders:
    """The folders under the archive's root.

    An archive that several databases share has several owners: nobody can tell then what belongs to nobody. Nor can
    the only owner tell of what was there before it came.
    """

    at_once: int | None = None
    """Jobs to be looked at in one round, where a look costs more than one at a disk."""

    def __init__(self, root: Path, owner: Owner) -> None:
        self._root = root
        self._owner = owner
        """The database, the same for all who use it."""

    def is_ours_alone(self) -> bool:
        """Write down whose archive this is, if there is one; False when somebody else has done so as well.

        A name that it was written down by formerly, and that others may have too, is taken away: who goes by it writes
        it down again. As long as that happens, it is as if we had only just come.
        """
        names = self._owners()
        if self._owner.former in names:
            self._renew()
        return names <= {self._owner.name, self._owner.former}

    def owned(self) -> timedelta:
        """Since this database was written down."""
        with _translated(self._root):
            return _since((self._root / _OWNERS / self._owner.name).stat().st_mtime)

    def jobs(self) -> list[str]:
        """Every folder that a job may have made, by name."""
        with _translated(self._root):
            if not self._root.is_dir():
                return []
            with os.scandir(self._root) as entries:
                return sorted(e.name for e in entries if e.name.isalnum() and e.is_dir(follow_symlinks=False))

    def segments(self, job: str) -> list[SegmentFile]:
        """The segments of a job."""
        return [
            SegmentFile(f"{job}/{name}", stat.st_size, _since(stat.st_mtime))
            for name, stat in self._files(job)
            if name.endswith(SEGMENT)
        ]

    def size(self, job: str) -> int:
        """Bytes of everything in a job's folder."""
        return sum(stat.st_size for _, stat in self._files(job))

    def idle(self, job: str) -> tuple[timedelta, timedelta]:
        """Since the newest, and since the oldest of a job's files, or the folder itself, was last written."""
        with _translated(self._root):
            written = [(self._root / job).stat().st_mtime, *(stat.st_mtime for _, stat in self._files(job))]
        return _since(max(written)), _since(min(written))

    def remove_segment(self, key: str) -> None:
        """Delete one segment; one that is gone is no trouble."""
        with _translated(self._root):
            (self._root / key).unlink(missing_ok=True)

    def _owners(self) -> set[str]:
        with _translated(self._root):
            if not self._root.is_dir():
                return set()
            register(self._root, self._owner.name)
            return {path.name for path in (self._root / _OWNERS).iterdir()}

    def _renew(self) -> None:
        with _translated(self._root):
            (self._root / _OWNERS / self._owner.name).touch()
            (self._root / _OWNERS / self._owner.former).unlink(missing_ok=True)

    def _files(self, job: str) -> list[tuple[str, os.stat_result]]:
        with _translated(self._root):
            try:
                with os.scandir(self._root / job) as entries:
                    return [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
            except FileNotFoundError:
                return []


def _since(mtime: float) -> timedelta:
    return timedelta(seconds=max(0.0, time.time() - mtime))


@contextmanager
def _translated(root: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise ArchiveUnavailable(f"cannot read the archive under {root}: {exc.strerror or exc}") from exc
