"""Segments on their way into an object store: the bytes of each batch are an object of their own, a part.

    PREFIX/JOB/NAME.warc.gz                          a whole segment
    PREFIX/.parts/JOB/NAME.warc.gz/000000000123456   bytes of it that end there

Parts are put before any row points into them, and are removed when the whole segment is there and as long: at any
moment the bytes of a row are in one of the two. A record is never in two parts, and a part's name is where it ends: so
the part of a record is the first that ends behind the record's start.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import structlog

from shoal.core.frozen import frozen
from shoal.errors import ArchiveUnavailable
from shoal.store.object_store import MULTIPART_BYTES
from shoal.store.objects import Found, Objects

log = structlog.get_logger()

PARTS = ".parts"
CLOCK = ".clock"
"""An object that is written to learn the store's time."""
OVERDUE_S = 5_400.0
"""A writer does not trust a part that came this long after its segment was begun."""
GATHER_AFTER = timedelta(hours=2)
"""Of a segment that has got no part for so long nobody will put one any more that a row points to: the limit on a
segment's age and OVERDUE_S see to it. Whoever likes may make it whole."""
GATHER_AT_ONCE = 20
_DIGITS = 15


@frozen
class Part:
    """A stretch of a segment."""

    name: str
    start: int
    end: int


class Parts:
    """Puts parts, finds them again, and makes whole segments of them."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def put(self, key: str, start: int, end: int, file: Path) -> None:
        """Put the stretch of a file that is a segment; in one step, however long it is."""
        name = f"{PARTS}/{key}/{end:0{_DIGITS}d}"
        pieces = _pieces(file, start, end)
        self.objects.put(name, b"".join(pieces) if end - start <= MULTIPART_BYTES else pieces)

    def of(self, key: str) -> list[Part]:
        """The parts of a segment that are there, in order; what else lies there is nobody's business here."""
        return [_part(found) for found in self.objects.listed(f"{PARTS}/{key}") if _is_part(found)]

    def read(self, key: str, offset: int, length: int, ahead: int = 0) -> tuple[int, bytes] | None:
        """(where they begin, bytes) with this stretch in them, and more if the part is no longer than `ahead`."""
        after = f"{PARTS}/{key}/{offset:0{_DIGITS}d}"
        found = next(filter(_is_part, self.objects.listed(f"{PARTS}/{key}", after=after)), None)
        if found is None:
            return None
        part = _part(found)
        start, end = (part.start, part.end) if found.size <= ahead else (offset, offset + length)
        content = self.objects.get(part.name, start - part.start, end - part.start) if start >= part.start else None
        return None if content is None else (start, content)

    def size(self, key: str) -> int:
        """How far a segment goes; -1 when there is nothing of it.

        Parts go when the whole is there: who finds none of them must look for that afterwards.
        """
        end = max((part.end for part in self.of(key)), default=-1)
        whole = self.objects.look(key)
        return end if whole is None else max(end, whole.size)

    def make_whole(self, key: str, local: Path | None = None) -> bool:
        """Let the segment be one object: from its file, if this has all that the parts have, else from the parts.

        A segment of which the store has no parts is whole, or was removed: nothing is done. Safe to repeat, to be cut
        off, and to be done by several at once. False when some of its parts are missing.
        """
        parts = self.of(key)
        if not parts:
            return True
        end, length = parts[-1].end, self._length(key)
        if length < end:
            pieces = [Part(key, 0, length), *(part for part in parts if part.end > length)] if length else parts
            if local is not None and _length_of(local) >= end:
                self.objects.put_file(key, local)
            elif _are_whole(pieces):
                self._put_together(key, pieces)
            else:
                log.error("parts_missing", segment=key, parts=len(parts), first=parts[0].start)
                return False
            if (length := self._length(key)) < end:
                raise ArchiveUnavailable(f"of the segment {key} only {length} bytes of {end} have arrived")
        self.objects.remove([part.name for part in parts])
        return True

    def gather(self, most: int = GATHER_AT_ONCE) -> list[str]:
        """Make segments whole whose writers are gone with their files, so many at most; returns their keys."""
        newest: dict[str, datetime] = {}
        for found in filter(_is_part, self.objects.listed(PARTS)):
            key = _key_of(found)
            newest[key] = max(newest.get(key, found.written), found.written)
        if not newest:
            return []
        now = self.now()
        old = [key for key, written in newest.items() if now - written >= GATHER_AFTER]
        whole: list[str] = []
        for key in old:
            if len(whole) == most:
                break
            if self._made_whole(key):
                whole.append(key)
        return whole

    def _made_whole(self, key: str) -> bool:
        """One that cannot be, such as for lack of room, is in nobody's way; the store itself has just answered."""
        try:
            return self.make_whole(key)
        except (ArchiveUnavailable, OSError) as exc:
            log.warning("segment_left_in_parts", segment=key, error=str(exc))
            return False

    def remove(self, key: str) -> None:
        """Delete a segment, whole or in parts."""
        self.objects.remove([key, *(part.name for part in self.of(key))])

    def remove_job(self, job: str) -> None:
        """Delete all of a job."""
        for folder in (job, f"{PARTS}/{job}"):
            self.objects.remove_folder(folder)

    def of_job(self, job: str) -> list[Found]:
        """All objects of a job: segments under their keys, and parts under the keys of theirs."""
        parts = (Found(_key_of(each), each.size, each.written) for each in self.objects.listed(f"{PARTS}/{job}"))
        return [*self.objects.listed(job), *parts]

    def jobs(self) -> list[str]:
        """Every folder that a job may have made, by name."""
        names = {*self.objects.folders(""), *self.objects.folders(PARTS)}
        return sorted(name for name in names if name.isalnum())

    def _put_together(self, key: str, parts: Iterable[Part]) -> None:
        with tempfile.NamedTemporaryFile(prefix="shoal-segment-") as whole:
            for part in parts:
                for start in range(0, part.end - part.start, MULTIPART_BYTES):
                    content = self.objects.get(part.name, start, min(start + MULTIPART_BYTES, part.end - part.start))
                    if content is None:
                        raise ArchiveUnavailable(f"the part {part.name} has gone meanwhile")
                    whole.write(content)
            whole.flush()
            self.objects.put_file(key, Path(whole.name))

    def now(self) -> datetime:
        """By the store's own clock, which has stamped the parts."""
        self.objects.put(CLOCK, b"")
        found = self.objects.look(CLOCK)
        if found is None:
            raise ArchiveUnavailable(f"what was written to {self.objects.place} is not there")
        return found.written

    def _length(self, key: str) -> int:
        whole = self.objects.look(key)
        return 0 if whole is None else whole.size


def since(written: datetime, now: datetime) -> timedelta:
    """How long ago the store has taken an object; both by its own clock."""
    return max(timedelta(), now - written)


def _pieces(file: Path, start: int, end: int) -> Iterator[bytes]:
    with file.open("rb", buffering=0) as source:
        while start < end:
            piece = os.pread(source.fileno(), min(MULTIPART_BYTES, end - start), start)
            if not piece:
                raise OSError(f"{file} is shorter than it was")
            start += len(piece)
            yield piece


def _is_part(found: Found) -> bool:
    return found.name.rpartition("/")[2].isdigit()


def _part(found: Found) -> Part:
    end = int(found.name.rpartition("/")[2])
    return Part(found.name, end - found.size, end)


def _key_of(part: Found) -> str:
    return part.name.removeprefix(f"{PARTS}/").rpartition("/")[0]


def _are_whole(parts: list[Part]) -> bool:
    return parts[0].start == 0 and all(one.end == other.start for one, other in pairwise(parts))


def _length_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
