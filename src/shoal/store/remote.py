"""The archive in an object store: the same writer, reader and folders, over segments and their parts.

A record is looked for in the file of this machine that is being written, in the whole segment, in its parts, and last
in the archive's folder, where it lies if it was written before there was an object store.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from shoal.errors import ArchiveUnavailable
from shoal.store.archive import MEND_AT_ONCE, READ_AHEAD, SEGMENT_AGE, ArchiveReader, ArchiveWriter, translated
from shoal.store.folders import SEGMENT, ArchiveFolders, SegmentFile
from shoal.store.objects import Objects
from shoal.store.owner import Owner
from shoal.store.page_rows import ArchiveRef
from shoal.store.parts import Parts, since
from shoal.store.segment import Segment
from shoal.store.spool import Shipper, SpooledSegment, ship_left

SPOOL = ".spool"
"""In the archive's folder: segments that are being written."""
OWNERS = ".owners"
PUT_AT_ONCE = 8
SIZE_FOR_S = 10.0
"""So long the size of a segment is remembered: who looks for earlier pages asks for it again and again."""
MOST_SIZES = 10_000
CLOCK_FOR_S = 600.0
"""So long the store's time is known after it was asked for."""
WINDOW = 100
"""Jobs whose objects are listed in one look for leftovers: each costs a call."""


class RemoteWriter(ArchiveWriter):
    """Segments are appended here and put there; rows may be written when they are in both places."""

    def __init__(
        self,
        root: Path,
        objects: Objects,
        segment_bytes: int,
        owner: str = "",
        *,
        segment_age: timedelta = SEGMENT_AGE,
    ) -> None:
        super().__init__(root / SPOOL, segment_bytes, owner, segment_age=segment_age)
        self._parts = Parts(objects)
        self._registered = False
        self._threads = ThreadPoolExecutor(PUT_AT_ONCE, thread_name_prefix="put")
        self._shipper = Shipper(self._root, self._parts, self.close_idle)
        self._shipper.start()

    def end(self) -> None:
        super().end()
        self._shipper.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _register(self, owner: str) -> None:
        if not self._registered:
            register(self._parts.objects, owner)
            self._registered = True

    def _create(self, key: str) -> Segment | None:
        return SpooledSegment.create(self._root, key, self._parts, self._shipper.ship)

    def _sync(self, segments: Sequence[Segment]) -> None:
        """All at once: each waits for the store."""
        if len(segments) < 2:
            super()._sync(segments)
            return
        syncs = [self._threads.submit(segment.sync) for segment in segments]
        wait(syncs)  # also when one fails: nobody may cut what another still puts
        for sync in syncs:
            sync.result()


class RemoteReader(ArchiveReader):
    """Reads records by ranges."""

    def __init__(self, root: Path, objects: Objects) -> None:
        super().__init__(root)
        self._objects = objects
        self._parts = Parts(objects)
        self._sizes: dict[str, tuple[float, int]] = {}

    def ping(self) -> None:
        """A look, which costs little: what cannot be written is found out by who writes, and by `try_out`."""
        self._objects.ping()

    def prepare(self) -> None:
        """The bucket is the operator's to make."""

    def remove(self, job: str) -> None:
        with translated(self._root):
            for folder in (self._root / SPOOL / job, self._root / job):
                if folder.is_dir():
                    shutil.rmtree(folder)
        self._parts.remove_job(job)

    def mend(self, most: int = MEND_AT_ONCE) -> list[str]:
        """Of this machine only; every worker process does the same now and then."""
        with translated(self._root):
            return [*super().mend(most), *ship_left(self._root / SPOOL, self._parts, most)]

    def gather(self) -> list[str]:
        return self._parts.gather()

    def size(self, key: str) -> int:
        until, size = self._sizes.get(key, (0.0, -1))
        if time.monotonic() >= until:
            try:
                size = self._parts.size(key)
            except ArchiveUnavailable:
                return -1
            size = max(size, super().size(key))
            if len(self._sizes) >= MOST_SIZES:
                self._sizes.clear()
            self._sizes[key] = time.monotonic() + SIZE_FOR_S, size
        return size

    @contextmanager
    def kept_open(self, most: int) -> Generator[ArchiveReader]:
        yield _AheadReader(self._root, self._objects, most)

    def _member(self, ref: ArchiveRef) -> bytes:
        return (
            self._written_here(ref)
            or self._from_store(ref)
            or self._from_store(ref)  # it was made whole between our two looks
            or super()._member(ref)
        )

    def _written_here(self, ref: ArchiveRef) -> bytes | None:
        try:
            with (self._root / SPOOL / ref.key).open("rb") as file:
                file.seek(ref.offset)
                member = file.read(ref.length)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return member if len(member) == ref.length else None

    def _from_store(self, ref: ArchiveRef) -> bytes | None:
        stretch = self._stretch(ref, 0)
        return None if stretch is None else stretch.cut_out(ref)

    def _stretch(self, ref: ArchiveRef, ahead: int) -> _Stretch | None:
        """Bytes of the segment that have the record in them; of the whole one, else of its parts."""
        content = self._objects.get(ref.key, ref.offset, ref.offset + max(ref.length, ahead))
        if content is not None and len(content) >= ref.length:
            return _Stretch(ref.offset, content)
        found = self._parts.read(ref.key, ref.offset, ref.length, ahead)
        return None if found is None else _Stretch(*found)


class _Stretch(NamedTuple):
    start: int
    content: bytes

    def cut_out(self, ref: ArchiveRef) -> bytes | None:
        at = ref.offset - self.start
        return self.content[at : at + ref.length] if 0 <= at <= len(self.content) - ref.length else None


class _AheadReader(RemoteReader):
    """Has what comes next in each of the segments that were read of late."""

    def __init__(self, root: Path, objects: Objects, most: int) -> None:
        super().__init__(root, objects)
        self._most = most
        self._stretches: dict[str, _Stretch] = {}
        """The least recently used first."""

    def _from_store(self, ref: ArchiveRef) -> bytes | None:
        stretch = self._stretches.pop(ref.key, None)
        member = None if stretch is None else stretch.cut_out(ref)
        if member is None and (stretch := self._stretch(ref, READ_AHEAD)):
            member = stretch.cut_out(ref)
        if stretch is not None:
            self._stretches[ref.key] = stretch
            if len(self._stretches) > self._most:
                self._stretches.pop(next(iter(self._stretches)))
        return member


class RemoteFolders(ArchiveFolders):
    """What is in the store."""

    at_once = WINDOW

    def __init__(self, root: Path, objects: Objects, owner: Owner) -> None:
        super().__init__(root, owner)
        self._objects = objects
        self._parts = Parts(objects)
        self._clock: tuple[float, datetime] | None = None
        """(on our own clock, which only tells what has passed; the time that it was by the store's)"""

    def owned(self) -> timedelta:
        found = self._objects.look(f"{OWNERS}/{self._owner.name}")
        return timedelta() if found is None else since(found.written, self._now())

    def jobs(self) -> list[str]:
        return self._parts.jobs()

    def segments(self, job: str) -> list[SegmentFile]:
        sizes: dict[str, int] = {}
        idle: dict[str, timedelta] = {}
        now = self._now()
        for found in self._parts.of_job(job):
            sizes[found.name] = sizes.get(found.name, 0) + found.size
            idle[found.name] = min(since(found.written, now), idle.get(found.name, timedelta.max))
        return [SegmentFile(key, size, idle[key]) for key, size in sizes.items() if key.endswith(SEGMENT)]

    def size(self, job: str) -> int:
        return sum(found.size for found in self._parts.of_job(job))

    def idle(self, job: str) -> tuple[timedelta, timedelta]:
        now = self._now()
        written = [since(found.written, now) for found in self._parts.of_job(job)] or [timedelta()]
        return min(written), max(written)

    def remove_segment(self, key: str) -> None:
        self._parts.remove(key)

    def _now(self) -> datetime:
        """By the store's clock, which has stamped the objects: ours may be wrong by a month, and they look old."""
        if self._clock is None or time.monotonic() - self._clock[0] >= CLOCK_FOR_S:
            self._clock = time.monotonic(), self._parts.now()
        begun, then = self._clock
        return then + timedelta(seconds=time.monotonic() - begun)

    def _owners(self) -> set[str]:
        register(self._objects, self._owner.name)
        return {found.name.removeprefix(f"{OWNERS}/") for found in self._objects.listed(OWNERS)}

    def _renew(self) -> None:
        self._objects.put(f"{OWNERS}/{self._owner.name}", b"")
        self._objects.remove([f"{OWNERS}/{self._owner.former}"])


def register(objects: Objects, owner: str) -> None:
    """Write down that a database uses this archive, once: the object's time is when it began to."""
    if objects.look(f"{OWNERS}/{owner}") is None:
        objects.put(f"{OWNERS}/{owner}", b"")
