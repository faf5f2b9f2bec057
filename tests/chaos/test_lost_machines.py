"""The archive in an object store, and machines that die: what a row can point to is read from another one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from shoal.core.output import Place
from shoal.store import parts as parts_module
from shoal.store.archive import Exchange
from shoal.store.objects import Objects
from shoal.store.page_rows import ArchiveRef
from shoal.store.parts import PARTS
from shoal.store.remote import SPOOL, RemoteReader, RemoteWriter
from tests.s3 import S3
from tests.waiting import wait_until

WRITER = """
import sys
from pathlib import Path
from random import Random
from shoal.core.output import Place
from shoal.store.archive import Exchange
from shoal.store.objects import Objects
from shoal.store.remote import RemoteWriter
root, bucket, size, segment = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
writer = RemoteWriter(root, Objects(Place("s3", bucket, "archive")), segment)
number = 0
while True:
    refs = []
    for _ in range(3):
        body = Random(number).randbytes(size)
        refs.append(writer.append(f"job{number % 2}", Exchange(f"http://a.test/{number}", 200, "OK", (), body, 0)))
        number += 1
    writer.flush()
    for ref in refs:
        print(ref.key, ref.offset, ref.length, file=sys.stderr, flush=True)
"""
SHORTLY = timedelta(seconds=30)


@pytest.fixture
def objects(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Objects:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return Objects(Place("s3", s3.new_bucket(), "archive"))


@contextmanager
def writing(objects: Objects, root: Path, *, size: int, segment: int) -> Generator[subprocess.Popen[bytes]]:
    """A process that writes batches for as long as it lives, and names what rows may point to."""
    command = [sys.executable, "-c", WRITER, str(root), objects.place.bucket, str(size), str(segment)]
    with (root.parent / f"{root.name}.refs").open("wb") as named:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=named)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def refs_of(root: Path) -> list[ArchiveRef]:
    lines = (root.parent / f"{root.name}.refs").read_text().splitlines(keepends=True)
    named = [line.split() for line in lines if line.endswith("\n")]
    return [ArchiveRef(key, int(offset), int(length)) for key, offset, length in named]


def assert_all_is_read(objects: Objects, root: Path, refs: list[ArchiveRef], size: int) -> None:
    reader = RemoteReader(root, objects)
    with reader.kept_open(4) as steady:
        for number, ref in enumerate(refs):
            expected = (f"http://a.test/{number}", Random(number).randbytes(size))
            for each in (reader, steady):
                found = each.read(ref)
                assert (found.url, found.body) == expected


def spooled(root: Path) -> list[Path]:
    """Folders may go while they are looked through."""
    return [Path(folder) / name for folder, _, names in os.walk(root / SPOOL) for name in names]


@pytest.mark.parametrize("records", [31, 52, 80])
def test_a_writer_that_is_killed_leaves_everything_that_a_row_points_to(
    objects: Objects, tmp_path: Path, records: int
) -> None:
    """Killed at any moment: in a record, in a batch that is put, while segments are made whole."""
    root = tmp_path / "one"
    with writing(objects, root, size=20_000, segment=400_000) as process:
        wait_until(lambda: len(refs_of(root)) >= records, within=SHORTLY)
        process.kill()
        process.wait()
    refs = refs_of(root)
    assert_all_is_read(objects, tmp_path / "other", refs, 20_000)
    successor = RemoteWriter(root, objects, 10**9)  # the next worker of this machine
    try:
        wait_until(lambda: not spooled(root), within=SHORTLY)
    finally:
        successor.end()
    assert list(objects.listed(PARTS)) == []
    assert_all_is_read(objects, tmp_path / "other", refs, 20_000)


def test_a_machine_that_is_lost_for_good_takes_nothing_along(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "one"
    with writing(objects, root, size=20_000, segment=400_000) as process:
        wait_until(lambda: len(refs_of(root)) > 100, within=SHORTLY)
        process.kill()
        process.wait()
    shutil.rmtree(root)
    refs = refs_of(root)
    assert_all_is_read(objects, tmp_path / "other", refs, 20_000)
    assert list(objects.listed(PARTS))
    monkeypatch.setattr(parts_module, "GATHER_AFTER", timedelta())
    assert RemoteReader(tmp_path / "other", objects).gather()
    assert list(objects.listed(PARTS)) == []
    assert_all_is_read(objects, tmp_path / "other", refs, 20_000)


def test_a_writer_that_is_killed_in_an_upload_is_finished_by_the_next(objects: Objects, tmp_path: Path, s3: S3) -> None:
    """A whole segment goes up in many pieces; until the last one is there, nobody sees any of it."""
    root = tmp_path / "one"
    with writing(objects, root, size=3_000_000, segment=60_000_000) as process:
        wait_until(lambda: _uploads(s3, objects) > 0, within=timedelta(seconds=90))  # batches go up in one piece
        os.kill(process.pid, signal.SIGSTOP)
        halves = _uploads(s3, objects)
        process.kill()
        process.wait()
    assert halves
    refs = refs_of(root)
    unfinished = [path for path in spooled(root) if path.name.endswith(".warc.gz")]
    assert unfinished
    assert_all_is_read(objects, tmp_path / "other", refs, 3_000_000)
    torn = RemoteReader(root, objects).mend()
    assert set(torn) <= {f"{path.parent.name}/{path.name}" for path in unfinished}
    assert spooled(root) == []
    assert list(objects.listed(PARTS)) == []
    assert_all_is_read(objects, tmp_path / "other", refs, 3_000_000)


def test_what_two_ship_at_once_is_there_once(objects: Objects, tmp_path: Path) -> None:
    root = tmp_path / "one"
    with writing(objects, root, size=5_000, segment=10**9) as process:
        wait_until(lambda: len(refs_of(root)) > 20, within=SHORTLY)
        process.kill()
        process.wait()
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    refs = refs_of(root)
    for each in (root, copy, copy):
        RemoteReader(each, objects).mend()
        assert_all_is_read(objects, tmp_path / "other", refs, 5_000)
    assert sorted(found.name for found in objects.listed("")) == sorted({ref.key for ref in refs})


def test_readers_meet_no_moment_at_which_a_record_is_nowhere(objects: Objects, tmp_path: Path) -> None:
    """While segments become whole and their parts go."""
    writer = RemoteWriter(tmp_path / "one", objects, 30_000)
    reader = RemoteReader(tmp_path / "other", objects)
    try:
        refs: list[ArchiveRef] = []
        for number in range(60):
            refs.append(writer.append("job", Exchange(f"http://a.test/{number}", 200, "OK", (), b"x" * 10, 0)))
            writer.append("job", Exchange("http://a.test/fill", 200, "OK", (), Random(number).randbytes(9_000), 0))
            writer.flush()
            for behind in {number, max(0, number - 3), number // 2}:
                assert reader.read(refs[behind]).url == f"http://a.test/{behind}"
        assert len({ref.key for ref in refs}) > 10
    finally:
        writer.end()


def _uploads(s3: S3, objects: Objects) -> int:
    with urllib.request.urlopen(f"{s3.url}/{objects.place.bucket}?uploads", timeout=10) as answer:
        return answer.read().count(b"<Upload>")
