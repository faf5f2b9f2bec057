"""Segments whose writer was killed, or had no room: what rows point to can be read, and the rest is cut off."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from warcio.archiveiterator import ArchiveIterator

from shoal.store.archive import ArchiveReader, ArchiveWriter, Exchange
from shoal.store.page_rows import ArchiveRef
from shoal.store.segment import MARKERS, whole_until

WRITER = """
import random, sys
from pathlib import Path
from shoal.store.archive import ArchiveWriter, Exchange
root, size, batches = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
writer = ArchiveWriter(root, 10**9)
for batch in range(batches):
    refs = [writer.append("job", Exchange(f"http://a.test/{batch}", 200, "OK", (), random.randbytes(size), 0))
            for _ in range(2)]
    writer.flush()
    for ref in refs:
        print(ref.key, ref.offset, ref.length, flush=True)
sys.stdin.read()
"""


@contextmanager
def writing(root: Path, *, size: int, batches: int) -> Generator[subprocess.Popen[str]]:
    """A process that writes batches, names what a row could point to, and then waits to be killed."""
    command = [sys.executable, "-c", WRITER, str(root), str(size), str(batches)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def refs_of(lines: list[str]) -> list[ArchiveRef]:
    named = [line.split() for line in lines if line.endswith("\n")]
    return [ArchiveRef(key, int(offset), int(length)) for key, offset, length in named]


def killed_writer(root: Path, *, size: int, batches: int) -> list[ArchiveRef]:
    """What a process wrote before it was killed, which it was between two batches."""
    with writing(root, size=size, batches=batches) as process:
        assert process.stdout
        return refs_of([process.stdout.readline() for _ in range(2 * batches)])


def read_whole(path: Path) -> int:
    """A segment from start to end, by two readers that know nothing of ours; returns how many records it has."""
    with gzip.open(path) as file:
        unpacked = file.read()
    with path.open("rb") as file:
        records = [record.content_stream().read() for record in cast("Any", ArchiveIterator)(file)]
    assert unpacked.count(b"WARC/1.1\r\nWARC-Type: ") == len(records)
    return len(records)


def test_a_segment_that_is_cut_in_any_place_is_mended_to_its_last_whole_record(tmp_path: Path) -> None:
    refs = killed_writer(tmp_path / "whole", size=10, batches=1)
    key = refs[0].key
    whole = (tmp_path / "whole" / key).read_bytes()
    ends = [refs[0].offset, *(ref.offset + ref.length for ref in refs)]
    assert ends[-1] == len(whole)
    root = tmp_path / "torn"
    shutil.copytree(tmp_path / "whole", root)
    (marker,) = (root / MARKERS).iterdir()
    for size in range(len(whole) + 1):
        marker.touch()
        (root / key).write_bytes(whole[:size])
        kept = max((end for end in ends if end <= size), default=0)
        mended = ArchiveReader(root).mend()
        assert mended == ([] if kept == size and size else [key]), f"cut at {size}"
        assert (root / key).read_bytes() == whole[:kept] if kept else not (root / key).exists()
        assert not marker.exists()
        if kept == size and size:
            assert read_whole(root / key) == ends.index(kept) + 1


@pytest.mark.parametrize(
    "rubbish", [b"\0" * 5000, b"\x1f\x8b\x08\x00", b"\x1f", gzip.compress(b"x" * 99, mtime=0)[:-1]]
)
def test_what_a_power_cut_left_behind_the_last_record_is_cut_off(tmp_path: Path, rubbish: bytes) -> None:
    refs = killed_writer(tmp_path, size=100, batches=2)
    path = tmp_path / refs[0].key
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(rubbish)
    assert ArchiveReader(tmp_path).mend() == [refs[0].key]
    assert path.stat().st_size == size
    assert read_whole(path) == 5


@pytest.mark.parametrize("moment_s", [0.0, 0.002, 0.004, 0.008, 0.015, 0.03])
def test_kill_9_during_a_write_breaks_no_row_and_no_segment(tmp_path: Path, moment_s: float) -> None:
    with writing(tmp_path, size=700_000, batches=10_000) as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(6)]
        try:
            process.wait(moment_s)
        except subprocess.TimeoutExpired:
            process.kill()
        lines += process.stdout.readlines()
    refs = refs_of(lines)
    (key,) = {ref.key for ref in refs}
    reader = ArchiveReader(tmp_path)
    with (tmp_path / key).open("rb") as file:
        torn = whole_until(file) < (tmp_path / key).stat().st_size
    assert reader.mend() == ([key] if torn else [])
    assert reader.mend() == []
    assert read_whole(tmp_path / key) >= len(refs) + 1
    assert {len(reader.read(ref).body) for ref in refs} == {700_000}


def test_the_segment_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    with writing(tmp_path, size=100, batches=1) as process:
        assert process.stdout
        (ref, _) = refs_of([process.stdout.readline() for _ in range(2)])
        path = tmp_path / ref.key
        with path.open("ab") as file:
            file.write(b"\x1f\x8b\x08half a record")
        size = path.stat().st_size
        assert ArchiveReader(tmp_path).mend() == []
        assert path.stat().st_size == size
    assert ArchiveReader(tmp_path).mend() == [ref.key]
    assert read_whole(path) == 3


def test_a_segment_that_was_closed_is_never_looked_at_again(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path, 10**6)
    ref = writer.append("job", Exchange("http://a.test/", 200, "OK", (), b"body", 0))
    writer.flush()
    assert len(list((tmp_path / MARKERS).iterdir())) == 1
    writer.close()
    assert list((tmp_path / MARKERS).iterdir()) == []
    with (tmp_path / ref.key).open("ab") as file:
        file.write(b"\x1f\x8b\x08")
    assert ArchiveReader(tmp_path).mend() == []


def test_whole_records_behind_damaged_bytes_are_never_cut_off(tmp_path: Path) -> None:
    refs = killed_writer(tmp_path, size=2_000, batches=2)
    path = tmp_path / refs[0].key
    damaged = bytearray(path.read_bytes())
    damaged[refs[1].offset + 100] ^= 0xFF
    path.write_bytes(damaged)
    assert ArchiveReader(tmp_path).mend() == []
    assert path.read_bytes() == damaged
    assert len(ArchiveReader(tmp_path).read(refs[3]).body) == 2_000


def test_a_body_that_is_packed_itself_is_not_taken_for_a_record(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path / "a", 10**6)
    body = gzip.compress(random.randbytes(20_000))
    ref = writer.append("job", Exchange("http://a.test/", 200, "OK", (), body, 0))
    writer.close()
    torn = (tmp_path / "a" / ref.key).read_bytes()[:-1]
    (killed, *_) = killed_writer(tmp_path / "b", size=100, batches=1)
    path = tmp_path / "b" / killed.key
    path.write_bytes(torn)
    assert ArchiveReader(tmp_path / "b").mend() == [killed.key]
    assert path.stat().st_size == ref.offset


def test_mending_is_bounded_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    keys: set[str] = set()
    for _ in range(3):
        ref = killed_writer(tmp_path, size=100, batches=1)[-1]
        os.truncate(tmp_path / ref.key, ref.offset + 1)
        keys.add(ref.key)
    reader = ArchiveReader(tmp_path)
    mended = [reader.mend(most=2), reader.mend(most=2), reader.mend(most=2)]
    assert [len(found) for found in mended] == [2, 1, 0]
    assert {key for found in mended for key in found} == keys


def test_a_killed_writers_job_that_was_removed_leaves_nothing_behind(tmp_path: Path) -> None:
    killed_writer(tmp_path, size=100, batches=1)
    reader = ArchiveReader(tmp_path)
    reader.remove("job")
    assert reader.mend() == []
    assert [path.name for path in tmp_path.rglob("*")] == [MARKERS]


def test_an_archive_without_segments_needs_no_mending(tmp_path: Path) -> None:
    assert ArchiveReader(tmp_path).mend() == []


def test_a_batch_is_forced_to_the_disk_once_for_each_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut would do cannot be tried here; that the disk is waited for can be seen."""
    synced: list[str] = []
    sync = os.fdatasync

    def noted(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        sync(handle)

    monkeypatch.setattr(os, "fdatasync", noted)
    writer = ArchiveWriter(tmp_path, 10**6)
    for expected in (["one", "two"], ["one"], []):
        synced.clear()
        refs = [writer.append(job, Exchange("http://a.test/", 200, "OK", (), b"x", 0)) for job in expected * 3]
        assert synced == []
        writer.flush()
        assert sorted(synced) == sorted(str(tmp_path / key) for key in {ref.key for ref in refs})
    writer.close()
    assert synced == []


def test_a_segment_that_is_full_in_the_middle_of_a_batch_is_forced_to_the_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fdatasync

    def noted(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        sync(handle)

    monkeypatch.setattr(os, "fdatasync", noted)
    writer = ArchiveWriter(tmp_path, 1)
    refs = [writer.append("job", Exchange("http://a.test/", 200, "OK", (), b"x", 0)) for _ in range(3)]
    writer.flush()
    assert sorted(synced) == sorted((tmp_path / ref.key).stat().st_ino for ref in refs)
    writer.close()
