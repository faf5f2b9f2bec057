"""The archive: raw responses as WARC segments, a gzip member per record.

One process writes one segment per job at a time, so no two writers share a file; a segment is closed when it is large
or old enough.
A row points into a segment (key, offset, length) and is written after the bytes are on the disk. What a killed process
left behind the last row's record is a torn tail that nothing points to, and is cut off.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import RLock
from typing import BinaryIO, TypeVar
from uuid import uuid4

from isal import igzip, isal_zlib

from shoal import __version__
from shoal.core.frozen import frozen
from shoal.errors import ArchiveUnavailable, NotFound
from shoal.fetch.decode import unpack
from shoal.store.folders import register
from shoal.store.page_rows import ArchiveRef
from shoal.store.segment import SUFFIX, Segment, mend

T = TypeVar("T")

COMPRESSION = 1
MAX_UNPACKED = 1_000_000_000
MAX_OPEN = 32
IDLE_S = 60.0
SEGMENT_AGE = timedelta(minutes=15)
MEND_AT_ONCE = 20
GZIP = 31
"""To zlib: what it is given is a gzip member."""
READ_AHEAD = 1 << 20
"""Bytes of a segment that is read on and on."""
_HOP_HEADERS = frozenset({b"transfer-encoding", b"content-length", b"connection", b"keep-alive"})


@frozen
class Exchange:
    """One response as it came on the wire."""

    url: str
    status: int
    http_reason: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    at_ms: int

    def unpacked(self, limit: int = MAX_UNPACKED) -> bytes:
        """The body without its content encodings."""
        encoding = b",".join(value for name, value in self.headers if name.lower() == b"content-encoding")
        return unpack(self.body, encoding.decode("latin-1"), limit) if encoding else self.body


@frozen
class Attachment:
    """Something that was made of a response: its document after all scripts, a picture, a print."""

    kind: str
    """`document`, `screenshot` or `pdf`."""
    media_type: str
    body: bytes


class ArchiveWriter:
    """The segments that this process has open: those of the jobs it has lately worked for."""

    def __init__(
        self, root: Path, segment_bytes: int, owner: str = "", *, segment_age: timedelta = SEGMENT_AGE
    ) -> None:
        self._root = root
        self._segment_bytes = segment_bytes
        self._segment_s = segment_age.total_seconds()
        self._owner = owner
        """The database whose rows will point here; written down before the first segment. '' is nobody's."""
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._number = 0
        self._open: dict[str, Segment] = {}
        """The least recently used first."""
        self._lock = RLock()
        """Who closes idle segments may be another thread."""

    def append(self, job: str, exchange: Exchange) -> ArchiveRef:
        """Add one response to the job's segment."""
        with self._lock, translated(self._root):
            return self._segment(job).append(_packed(_response_record(exchange)))

    def attach(self, job: str, url: str, at_ms: int, attachment: Attachment) -> ArchiveRef:
        """Add to the job's segment what was made of the response of this URL and moment."""
        with self._lock, translated(self._root):
            return self._segment(job).append(_packed(_attachment_record(url, at_ms, attachment)))

    def flush(self) -> None:
        """Bring all bytes to where they are safe; rows that point to them may be written after this."""
        with self._lock:
            with translated(self._root):
                for segment in self._open.values():
                    segment.write()
                self._sync(list(self._open.values()))
            self.close_idle()

    def close(self, job: str | None = None) -> None:
        """Close the segment of a job, or all."""
        with self._lock, translated(self._root):
            for name in [job] if job is not None else list(self._open):
                if segment := self._open.pop(name, None):
                    segment.close()

    def end(self) -> None:
        """The process is about to end."""
        self.close()

    def abandon(self) -> None:
        """After a failed write: what was not flushed is taken back, and what comes next goes into new segments."""
        with self._lock:
            for segment in self._open.values():
                segment.cut()
            self._open.clear()

    def discard(self, job: str) -> None:
        """The job is gone: so is what this process has written for it of late."""
        with self._lock:
            if segment := self._open.pop(job, None):
                segment.discard()

    def close_idle(self) -> None:
        """Another process may have ended the job; nobody tells us, so time and number are the limits."""
        with self._lock:
            oldest = time.monotonic() - IDLE_S
            for job, segment in list(self._open.items()):
                if segment.is_safe and (segment.used_at < oldest or len(self._open) > MAX_OPEN):
                    self.close(job)  # of others, who flushes must hear whether their bytes have come to a safe place

    def _sync(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            segment.sync()

    def _segment(self, job: str) -> Segment:
        segment = self._open.pop(job, None)
        if segment:
            self._open[job] = segment
            if segment.size < self._segment_bytes and time.monotonic() - segment.begun_at < self._segment_s:
                return segment
            self.close(job)
        self._open[job] = segment = self._new_segment(job)
        return segment

    def _new_segment(self, job: str) -> Segment:
        if self._owner:
            self._register(self._owner)
        segment = None
        while segment is None:
            self._number += 1
            segment = self._create(f"{job}/{self._name}-{self._number:04d}{SUFFIX}")
        segment.append(_packed(_warcinfo(segment.key.split("/")[-1])))
        return segment

    def _register(self, owner: str) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        register(self._root, owner)

    def _create(self, key: str) -> Segment | None:
        return Segment.create(self._root, key)


class ArchiveReader:
    """Reads single responses back, and removes what nobody wants any more."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def ping(self) -> None:
        """Raises ArchiveUnavailable when the archive cannot be reached or written."""
        with translated(self._root), NamedTemporaryFile(dir=self._root, prefix=".probe-"):
            pass

    def prepare(self) -> None:
        """Make the folder, once: if it is away later, that is worth knowing."""
        with translated(self._root):
            self._root.mkdir(parents=True, exist_ok=True)

    def remove(self, job: str) -> None:
        """Delete all segments of a job."""
        with translated(self._root):
            if (self._root / job).is_dir():
                shutil.rmtree(self._root / job)

    def gather(self) -> list[str]:
        """Make segments whole that are in parts, and whose writers are gone; returns their keys."""
        return []

    def mend(self, most: int = MEND_AT_ONCE) -> list[str]:
        """Cut the torn tails off segments whose writers were killed, of at most so many; returns the keys of the cut.

        Cheap when there is nothing to do; safe to repeat, and to call from several processes.
        """
        with translated(self._root):
            return mend(self._root, most)

    def size(self, key: str) -> int:
        """Bytes of a segment that can be read; -1 when it is not there, or cannot be opened."""
        try:
            with (self._root / key).open("rb", buffering=0) as file:
                return os.fstat(file.fileno()).st_size
        except OSError:
            return -1

    def read(self, ref: ArchiveRef) -> Exchange:
        """The response that a page row points to."""
        return self._read(ref, _exchange)

    def read_attachment(self, ref: ArchiveRef) -> bytes:
        """The document, picture or print that a page row points to."""
        return self._read(ref, _block)

    @contextmanager
    def kept_open(self, most: int) -> Generator[ArchiveReader]:
        """For who reads many records, mostly one behind the other: so many segments stay open meanwhile."""
        with ExitStack() as stack:
            yield _SteadyReader(self._root, most, stack)

    def _member(self, ref: ArchiveRef) -> bytes:
        with (self._root / ref.key).open("rb") as file:
            file.seek(ref.offset)
            return file.read(ref.length)

    def _read(self, ref: ArchiveRef, parse: Callable[[bytes], T]) -> T:
        try:
            member = self._member(ref)
        except FileNotFoundError as exc:
            raise NotFound(f"the archive segment {ref.key} is not there any more") from exc
        except OSError as exc:
            raise ArchiveUnavailable(f"cannot read the archive segment {ref.key}: {exc.strerror or exc}") from exc
        try:
            return parse(_unpacked(member))
        except (OSError, EOFError, isal_zlib.error, zlib.error, ValueError, KeyError, IndexError) as exc:
            raise NotFound(f"no record at {ref.offset} of the archive segment {ref.key}") from exc


class _SteadyReader(ArchiveReader):
    """Buffers what comes next in each of the segments that it has open."""

    def __init__(self, root: Path, most: int, stack: ExitStack) -> None:
        super().__init__(root)
        self._most = most
        self._files: dict[str, BinaryIO] = {}
        """The least recently used first."""
        stack.callback(self._close)

    def _member(self, ref: ArchiveRef) -> bytes:
        file = self._files.pop(ref.key, None) or (self._root / ref.key).open("rb", buffering=READ_AHEAD)
        self._files[ref.key] = file
        if len(self._files) > self._most:
            self._files.pop(next(iter(self._files))).close()
        file.seek(ref.offset)
        return file.read(ref.length)

    def _close(self) -> None:
        for file in self._files.values():
            file.close()


def _unpacked(member: bytes) -> bytes:
    stream = isal_zlib.decompressobj(GZIP)
    record = stream.decompress(member)
    if not stream.eof:
        raise EOFError("the record is torn")
    return record


def _packed(record: bytes) -> bytes:
    return igzip.compress(record, compresslevel=COMPRESSION)


def _exchange(record: bytes) -> Exchange:
    """The response in a record that `_response_record` has written."""
    warc_head, _, block = record.partition(b"\r\n\r\n")
    head, _, body = block.removesuffix(b"\r\n\r\n").partition(b"\r\n\r\n")
    warc = dict(line.split(": ", 1) for line in warc_head.decode().split("\r\n")[1:])
    first, *lines = head.split(b"\r\n")
    _, status, reason = first.decode("latin-1").split(" ", 2)
    headers = tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines))
    at = datetime.fromisoformat(warc["WARC-Date"])
    return Exchange(warc["WARC-Target-URI"], int(status), reason, headers, body, round(at.timestamp() * 1000))


def _block(record: bytes) -> bytes:
    return record.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n\r\n")


def _attachment_record(url: str, at_ms: int, attachment: Attachment) -> bytes:
    """A document is a conversion of the response; pictures and prints are resources with names of their own."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    if attachment.kind == "document":
        named = {"WARC-Target-URI": url, "Content-Type": attachment.media_type}
        return _record("conversion", at, named, attachment.body)
    named = {"WARC-Target-URI": f"urn:{attachment.kind}:{url}", "Content-Type": attachment.media_type}
    return _record("resource", at, named, attachment.body)


def _response_record(exchange: Exchange) -> bytes:
    head = b"".join(b"%b: %b\r\n" % header for header in exchange.headers if header[0].lower() not in _HOP_HEADERS)
    status = f"HTTP/1.1 {exchange.status} {exchange.http_reason}\r\n".encode("latin-1", "replace")
    length = b"Content-Length: %d\r\n" % len(exchange.body)
    block = b"".join((status, head, length, b"\r\n", exchange.body))
    named = {
        "WARC-Target-URI": exchange.url,
        "Content-Type": "application/http; msgtype=response",
    }
    return _record("response", datetime.fromtimestamp(exchange.at_ms / 1000, UTC), named, block)


def _warcinfo(name: str) -> bytes:
    body = f"software: Shoal/{__version__}\r\nformat: WARC File Format 1.1\r\n".encode()
    named = {"WARC-Filename": name, "Content-Type": "application/warc-fields"}
    return _record("warcinfo", datetime.now(UTC), named, body)


def _record(kind: str, at: datetime, named: Mapping[str, str], block: bytes) -> bytes:
    lines = [
        "WARC/1.1",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: <urn:uuid:{uuid4()}>",
        f"WARC-Date: {at.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}",
        *(f"{name}: {value}" for name, value in named.items()),
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


@contextmanager
def translated(root: Path) -> Generator[None]:
    """Trouble with the disk as our own error."""
    try:
        yield
    except OSError as exc:
        raise ArchiveUnavailable(f"cannot write the archive under {root}: {exc.strerror or exc}") from exc
