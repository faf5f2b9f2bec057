"""One file of the archive: gzip members behind each other, appended by one process.

While a segment is written, a marker stands in the archive's folder `.open`, and the writer holds a lock on it. A marker
that nobody holds tells of a writer that was killed: behind the last whole member of its segment may be half of one,
which no row points to, because rows are written after `sync`. `mend` cuts it off.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import quote, unquote

import structlog

from shoal.store.page_rows import ArchiveRef

log = structlog.get_logger()

SUFFIX = ".warc.gz"
MARKERS = ".open"
SPILL_BYTES = 1 << 20
"""Held back at most, before it is handed to the operating system."""
_READ_BYTES = 1 << 14
_MAGIC = b"\x1f\x8b\x08"
_RECORD = b"WARC/1.1\r\nWARC-Type: "


class Segment:
    """One open file of one process."""

    def __init__(self, root: Path, key: str, marker: FileIO) -> None:
        self.key = key
        self.size = 0
        self.begun_at = self.used_at = time.monotonic()
        self._root = root
        self._path = root / key
        self._marker = marker
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self._path, "xb")
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._safe = 0
        """So much is on the disk for certain."""

    @classmethod
    def create(cls, root: Path, key: str, *more: Any) -> Self | None:
        """A new segment, made with `more`; None when its marker was taken for a dead writer's before it was locked."""
        marker = marker_of(root, key)
        marker.parent.mkdir(parents=True, exist_ok=True)
        file = FileIO(marker, "xb")
        try:
            if not _lock(file, unsupported=True) or not os.fstat(file.fileno()).st_nlink:
                file.close()
                return None
            return cls(root, key, file, *more)
        except BaseException:
            file.close()
            marker.unlink(missing_ok=True)
            raise

    def append(self, member: bytes) -> ArchiveRef:
        """Add a member; a row may point to it after `sync`."""
        ref = ArchiveRef(self.key, self.size, len(member))
        self._waiting.append(member)
        self._waiting_bytes += len(member)
        self.size += len(member)
        self.used_at = time.monotonic()
        if self._waiting_bytes >= SPILL_BYTES:
            self.write()
        return ref

    def write(self) -> None:
        """Hand what waits to the operating system."""
        data = memoryview(b"".join(self._waiting))
        while data:
            data = data[self._file.write(data) :]
        self._waiting.clear()
        self._waiting_bytes = 0

    @property
    def is_safe(self) -> bool:
        """Has all of it been synced?"""
        return self._safe == self.size

    def sync(self) -> None:
        """All of it is on the disk when this returns, whatever becomes of the machine."""
        if self.is_safe:
            return
        self.write()
        os.fdatasync(self._file.fileno())
        if not self._safe:
            for folder in (self._path.parent, self._root, self._root / MARKERS):
                _sync_folder(folder)
        self._keep()
        self._safe = self.size

    def _keep(self) -> None:
        """For who keeps segments elsewhere: what is not safe yet is in the file."""

    def close(self) -> None:
        """Sync; the segment is complete."""
        try:
            self.sync()
        except BaseException:
            self.cut()
            raise
        self._complete()

    def _complete(self) -> None:
        marker_of(self._root, self.key).unlink(missing_ok=True)
        self._file.close()
        self._marker.close()

    def cut(self) -> None:
        """After a failed write: take back what no row points to, so that a full disk is not filled with it."""
        try:
            if self._safe:
                os.ftruncate(self._file.fileno(), self._safe)
            else:
                self._path.unlink(missing_ok=True)
            marker_of(self._root, self.key).unlink(missing_ok=True)
        except OSError as exc:  # then the marker stays, and the segment is mended later
            log.warning("segment_not_cut", segment=self.key, error=str(exc))
        finally:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self._marker.close()

    def discard(self) -> None:
        """Nobody wants it: as if it had never been."""
        self._safe = 0
        self.cut()
        with suppress(OSError):  # other segments of the job are there
            self._path.parent.rmdir()


def mend(root: Path, most: int) -> list[str]:
    """Bring segments of dead writers to the end of their last whole record; returns the keys of those that were cut.

    At most so many are looked at; each is looked at once. Those of living writers are left alone.
    """
    mended: list[str] = []
    for key, was_cut in of_dead_writers(root, most):
        if was_cut:
            mended.append(key)
        marker_of(root, key).unlink(missing_ok=True)
    return mended


def of_dead_writers(root: Path, most: int) -> Iterator[tuple[str, bool]]:
    """(key, whether a torn tail was cut off) of at most so many segments, each held while it is dealt with."""
    looked_at = 0
    for key in marked(root):
        if looked_at == most:
            return
        with dead_writers(root, key) as dead:
            if dead:
                looked_at += 1
                yield key, cut_back(root, key)


def marked(root: Path) -> list[str]:
    """Keys of the segments that have a marker."""
    try:
        markers = sorted((root / MARKERS).iterdir())
    except FileNotFoundError:
        return []
    return [unquote(marker.name) + SUFFIX for marker in markers]


def marker_of(root: Path, key: str) -> Path:
    """The marker of a segment that is written."""
    return root / MARKERS / quote(key.removesuffix(SUFFIX), safe="")


@contextmanager
def dead_writers(root: Path, key: str) -> Generator[bool]:
    """Was the segment left by a writer that is dead? Nobody else mends it meanwhile."""
    try:
        marker = FileIO(marker_of(root, key), "rb")
    except FileNotFoundError:
        yield False
        return
    with marker:
        yield _lock(marker, unsupported=False)


def _lock(file: FileIO, *, unsupported: bool) -> bool:
    """False when another process has it; a file system without locks is written to, and not mended."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unsupported
    return True


def cut_back(root: Path, key: str) -> bool:
    """Bring a segment to the end of its last whole record; True when that has changed it."""
    try:
        file = (root / key).open("r+b")
    except FileNotFoundError:
        return False
    with file:
        size = os.fstat(file.fileno()).st_size
        end = whole_until(file)
        if end == size and size:
            return False
        if _record_behind(file, end, size):
            log.error("segment_damaged", segment=key, at=end)
            return False
        if end:
            os.ftruncate(file.fileno(), end)
            os.fsync(file.fileno())
        else:
            (root / key).unlink()
        log.info("segment_mended", segment=key, kept=end, cut=size - end)
        return True


def whole_until(file: BinaryIO) -> int:
    """Where the last of the whole members ends that stand behind each other from the start."""
    end = 0
    while (found := _member(file, end)) is not None:
        end = found[0]
    return end


def _record_behind(file: BinaryIO, end: int, size: int) -> bool:
    """Is there a whole record behind bytes that are none? Then this is no torn tail, and nothing may be cut."""
    if end + 1 >= size:
        return False
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(_MAGIC, end + 1)
        while at >= 0:
            found = _member(file, at)
            if found is not None and found[1].startswith(_RECORD):
                return True
            at = data.find(_MAGIC, at + 1)
    return False


def _member(file: BinaryIO, start: int) -> tuple[int, bytes] | None:
    """(end, how it begins) of the gzip member that starts here; None when it is not whole."""
    file.seek(start)
    member, read, head = zlib.decompressobj(31), 0, b""
    try:
        while not member.eof:
            chunk = file.read(_READ_BYTES)
            if not chunk:
                return None
            read += len(chunk)
            while chunk and not member.eof:
                unpacked = member.decompress(chunk, SPILL_BYTES)
                head = head or unpacked[: len(_RECORD)]
                chunk = member.unconsumed_tail
    except zlib.error:
        return None
    return start + read - len(member.unused_data), head


def _sync_folder(folder: Path) -> None:
    """So that a new file is found in it after a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
