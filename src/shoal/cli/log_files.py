"""The log files of a home: read from their ends, together, in the order of time, and followed while they grow.

Memory does not depend on their size: files are read a block at a time, and what is longer than any line of ours is
passed over. A file is known by its inode, so that one which is put aside meanwhile is neither lost nor read twice.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from shoal.cli.log_lines import LogLine, Wanted, looks_whole, read_line, time_of

BLOCK = 65_536
"""Bytes of a file that are read at a time."""
LONGEST_LINE = 1_000_000
"""Bytes. Nothing of ours is as long."""
MOST_FILES = 400
"""Those that were written to last; each is open while it is read."""
LISTS = 2
"""Of a folder: what is put aside behind the back of the first one is in the second."""
LOOK_EVERY = 200
"""Lines that nobody asked for, after which the time is looked at."""
NEAR = 32
"""Lines among which those of several processes may stand in another order than that of time."""
BYTES_AT_ONCE = 4_000_000
"""Of a file that grows, before the others have their turn."""


@dataclass(slots=True)
class Tally:
    """What was found on the way."""

    files: int = 0
    broken: int = 0
    """Lines that are none."""


@dataclass(slots=True)
class LogFile:
    """An open file, from its beginning to the end of the last whole line."""

    descriptor: int
    end: int


Key = tuple[int, int]
"""Device and inode."""


def find_files(folder: Path) -> list[Path]:
    """The logs of a folder, and those put aside, the last that was written to first."""
    found: list[tuple[int, Path]] = []
    for path in (*folder.glob("*.log"), *folder.glob("*.log.[0-9]")):
        with suppress(OSError):
            if path.is_file():
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)][:MOST_FILES]


@contextmanager
def opened(folder: Path) -> Generator[dict[Key, LogFile]]:
    """All of its files, each once, although some may be put aside at this moment."""
    files: dict[Key, LogFile] = {}
    try:
        for path in (path for _ in range(LISTS) for path in find_files(folder)):
            if len(files) < MOST_FILES:
                _open_into(files, path)
        yield files
    finally:
        for file in files.values():
            os.close(file.descriptor)


def last_lines(files: Iterable[LogFile], wanted: Wanted, number: int, tally: Tally) -> list[LogLine]:
    """The last ones that are wanted, over all files, the oldest first."""
    each = [_in_order(_wanted_backwards(file, wanted, tally), newest_first=True) for file in files]
    newest_first = heapq.merge(*each, key=_when, reverse=True)
    return sorted(islice(newest_first, number), key=_when)


def all_lines(files: Iterable[LogFile], wanted: Wanted, tally: Tally) -> Iterator[LogLine]:
    """All that are wanted, over all files, the oldest first."""
    return heapq.merge(*(_in_order(_wanted_forwards(file, wanted, tally)) for file in files), key=_when)


class Follower:
    """What comes after the ends of files, and into files that come later."""

    def __init__(self, folder: Path, files: dict[Key, LogFile], wanted: Wanted, tally: Tally) -> None:
        """Takes over the files, which stay open for as long as they are there."""
        self._folder = folder
        self._files = files
        self._wanted = wanted
        self._tally = tally
        self._long: set[Key] = set()
        """Files in the middle of a line that is too long."""

    def look(self) -> list[LogLine]:
        """Whole lines that have come since the last time, the oldest first."""
        there = {key for path in find_files(self._folder) if (key := _open_into(self._files, path, end=0))}
        lines: list[LogLine] = []
        for key, file in list(self._files.items()):
            for raw in self._grown(key, file):
                line = _taken(raw, self._wanted, self._tally)
                if line is not None:
                    lines.append(line)
            if key not in there and self._is_over(file):
                os.close(file.descriptor)
                del self._files[key]
                self._long.discard(key)
        return sorted(lines, key=_when)

    def _is_over(self, file: LogFile) -> bool:
        """A file may have been put aside while the others were listed: who closed it would read it all again."""
        return not os.fstat(file.descriptor).st_nlink or len(self._files) > 2 * MOST_FILES

    def _grown(self, key: Key, file: LogFile) -> Iterator[bytes | None]:
        size = os.fstat(file.descriptor).st_size
        if size < file.end:  # somebody has emptied it
            file.end = 0
        data = os.pread(file.descriptor, min(size - file.end, BYTES_AT_ONCE), file.end)
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            if len(data) > LONGEST_LINE:
                self._long.add(key)
                file.end += len(data)
            return
        file.end += len(data) - len(rest)
        lines: list[bytes | None] = list(whole.split(b"\n"))
        if key in self._long:
            self._long.discard(key)
            lines[0] = None
        yield from lines


def backwards(file: LogFile) -> Iterator[bytes | None]:
    """Its lines, the last first; None for one that is too long."""
    at, tail, is_long = file.end - 1, b"", False
    while at > 0:
        size = min(BLOCK, at)
        at -= size
        first, *lines = (os.pread(file.descriptor, size, at) + tail).split(b"\n")
        if is_long and lines:
            lines.pop()
            is_long = False
            yield None
        elif is_long:
            first = b""
        yield from reversed(lines)
        is_long = is_long or len(first) > LONGEST_LINE
        tail = b"" if is_long else first
    if file.end > 0:
        yield None if is_long else tail


def forwards(file: LogFile) -> Iterator[bytes | None]:
    """Its lines, the first first; None for one that is too long."""
    at, tail, is_long = 0, b"", False
    while at < file.end and (data := os.pread(file.descriptor, min(BLOCK, file.end - at), at)):
        at += len(data)
        *lines, tail = (tail + data).split(b"\n")
        if is_long and lines:
            lines.pop(0)
            is_long = False
            yield None
        yield from lines
        is_long = is_long or len(tail) > LONGEST_LINE
        tail = b"" if is_long else tail


def _wanted_backwards(file: LogFile, wanted: Wanted, tally: Tally) -> Iterator[LogLine]:
    needles = wanted.needles
    for number, raw in enumerate(backwards(file)):
        if wanted.since and raw and number % LOOK_EVERY == 0 and (time_of(raw) or wanted.since) < wanted.since:
            return
        line = _taken(raw, wanted, tally, needles)
        if line is not None:
            yield line


def _wanted_forwards(file: LogFile, wanted: Wanted, tally: Tally) -> Iterator[LogLine]:
    needles = wanted.needles
    for raw in forwards(file):
        line = _taken(raw, wanted, tally, needles)
        if line is not None:
            yield line


def _when(line: LogLine) -> str:
    return line.at


def _in_order(lines: Iterable[LogLine], *, newest_first: bool = False) -> Iterator[LogLine]:
    """Lines of one file: who took the time first did not always write first."""
    held: list[LogLine] = []
    for line in lines:
        held.append(line)
        if len(held) == 2 * NEAR:
            held.sort(key=_when, reverse=newest_first)
            yield from held[:NEAR]
            del held[:NEAR]
    yield from sorted(held, key=_when, reverse=newest_first)


def _taken(raw: bytes | None, wanted: Wanted, tally: Tally, needles: tuple[bytes, ...] = ()) -> LogLine | None:
    """The line, if it is one and is wanted."""
    if raw == b"":
        return None
    if raw is None or not looks_whole(raw):
        tally.broken += 1
        return None
    if any(needle not in raw for needle in needles):
        return None
    line = read_line(raw)
    if line is None:
        tally.broken += 1
        return None
    return line if wanted.wants(line) else None


def _open_into(files: dict[Key, LogFile], path: Path, end: int | None = None) -> Key | None:
    """Open a file that is not open yet; None when it is gone. It counts from its last whole line, unless it is new."""
    try:
        found = path.stat()
        key = (found.st_dev, found.st_ino)
        if key in files:
            return key
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    found = os.fstat(descriptor)
    key = (found.st_dev, found.st_ino)
    if key in files:
        os.close(descriptor)
    else:
        files[key] = LogFile(descriptor, _last_end(descriptor, found.st_size) if end is None else end)
    return key


def _last_end(descriptor: int, size: int) -> int:
    """Behind the last line that is whole."""
    at = size
    while at > 0:
        start = max(0, at - BLOCK)
        newline = os.pread(descriptor, at - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        at = start
    return 0
