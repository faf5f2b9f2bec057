"""The archive over a shared folder and over a real S3 API: the same words, whoever reads from whatever machine."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from shoal.core.output import Place
from shoal.errors import ArchiveUnavailable, NotFound
from shoal.store import archive as archive_module
from shoal.store import object_store
from shoal.store import parts as parts_module
from shoal.store.archive import ArchiveReader, ArchiveWriter, Attachment, Exchange
from shoal.store.folders import ArchiveFolders
from shoal.store.objects import Found, Objects
from shoal.store.owner import Owner
from shoal.store.page_rows import ArchiveRef
from shoal.store.parts import PARTS, Parts
from shoal.store.remote import SPOOL, RemoteFolders, RemoteReader, RemoteWriter
from shoal.store.segment import SUFFIX
from tests.s3 import S3
from tests.waiting import wait_until

SHORTLY = timedelta(seconds=20)


@dataclass
class Shared:
    """An archive that several machines use, each with a folder of its own."""

    tmp: Path
    s3: S3 | None
    stack: ExitStack
    bucket: str = ""

    def root(self, machine: str) -> Path:
        """A shared folder is the same for all."""
        return self.tmp / (machine if self.s3 else "shared")

    @property
    def objects(self) -> Objects:
        return Objects(Place("s3", self.bucket, "some/prefix"))

    def writer(
        self,
        machine: str = "a",
        size: int = 10**9,
        owner: str = "",
        age: timedelta = timedelta(minutes=15),
    ) -> ArchiveWriter:
        root = self.root(machine)
        if self.s3:
            writer: ArchiveWriter = RemoteWriter(root, self.objects, size, owner, segment_age=age)
        else:
            writer = ArchiveWriter(root, size, owner, segment_age=age)
        self.stack.callback(writer.end)
        return writer

    def reader(self, machine: str = "b") -> ArchiveReader:
        root = self.root(machine)
        return RemoteReader(root, self.objects) if self.s3 else ArchiveReader(root)

    def folders(self, name: str = "me", former: str = "") -> ArchiveFolders:
        root, owner = self.root("c"), Owner(name, former)
        return RemoteFolders(root, self.objects, owner) if self.s3 else ArchiveFolders(root, owner)

    def segments(self, job: str = "job") -> list[str]:
        """Keys of whole segments."""
        if self.s3:
            return [found.name for found in self.objects.listed(job)]
        return sorted(f"{job}/{path.name}" for path in (self.root("") / job).glob(f"*{SUFFIX}"))


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Shared]:
    with ExitStack() as stack:
        if request.param == "folder":
            yield Shared(tmp_path, None, stack)
            return
        server: S3 = request.getfixturevalue("s3")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield Shared(tmp_path, server, stack, server.new_bucket())


@pytest.fixture
def bucket(tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> Generator[Shared]:
    """Only over S3."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        yield Shared(tmp_path, s3, stack, s3.new_bucket())


def exchange(number: int, size: int = 500) -> Exchange:
    body = random.Random(number).randbytes(size)
    headers = ((b"Content-Type", b"text/html"), (b"Content-Length", b"%d" % size))
    return Exchange(f"http://a.example/{number}", 200, "OK", headers, body, 1_700_000_000_000)


def write(writer: ArchiveWriter, *numbers: int, job: str = "job", size: int = 500) -> list[ArchiveRef]:
    """One batch."""
    refs = [writer.append(job, exchange(number, size)) for number in numbers]
    writer.flush()
    return refs


def read(reader: ArchiveReader, refs: list[ArchiveRef]) -> list[Exchange]:
    return [reader.read(ref) for ref in refs]


# --- what holds for both ----------------------------------------------------------------------------------------------


def test_what_is_flushed_can_be_read_at_once_on_another_machine(place: Shared) -> None:
    writer = place.writer("a")
    refs = [*write(writer, 1, 2, 3), *write(writer, 4), *write(writer, 5, 6)]
    assert read(place.reader("b"), refs) == [exchange(number) for number in range(1, 7)]
    writer.close()
    assert read(place.reader("b"), refs) == [exchange(number) for number in range(1, 7)]


def test_attachments_lie_beside_their_response(place: Shared) -> None:
    writer, shot = place.writer(), Attachment("screenshot", "image/png", b"\x89PNG" * 1000)
    writer.append("job", exchange(1))
    ref = writer.attach("job", "http://a.example/1", 5, shot)
    writer.flush()
    assert place.reader().read_attachment(ref) == shot.body


@pytest.mark.parametrize("closed", [False, True])
def test_who_reads_many_records_gets_each_of_them(place: Shared, closed: bool) -> None:
    writer = place.writer(size=50_000)
    refs = [ref for batch in range(10) for ref in write(writer, *range(batch * 10, batch * 10 + 10), size=3_000)]
    if closed:
        writer.close()
        wait_until(lambda: len(place.segments()) == len({ref.key for ref in refs}), within=SHORTLY)
    order = list(enumerate(refs))
    random.Random(1).shuffle(order)
    with place.reader().kept_open(2) as reader:
        for number, ref in [*enumerate(refs), *order]:
            assert reader.read(ref) == exchange(number, 3_000)


def test_a_segment_is_closed_at_its_size(place: Shared) -> None:
    writer = place.writer(size=10_000)
    refs = [ref for number in range(8) for ref in write(writer, number, size=6_000)]
    assert [ref.key for ref in refs[::2]] == [ref.key for ref in refs[1::2]]
    assert len({ref.key for ref in refs}) == 4
    writer.close()
    wait_until(lambda: len(place.segments()) == 4, within=SHORTLY)
    assert read(place.reader(), refs) == [exchange(number, 6_000) for number in range(8)]


def test_a_segment_is_closed_at_its_age(place: Shared) -> None:
    writer = place.writer(age=timedelta(seconds=1))
    (first,) = write(writer, 1)
    (second,) = write(writer, 2)
    assert first.key == second.key
    later: list[ArchiveRef] = []

    def has_another() -> bool:
        later.extend(write(writer, 3))
        return later[-1].key != first.key

    wait_until(has_another, within=SHORTLY)
    third = later[-1]
    wait_until(lambda: first.key in place.segments(), within=SHORTLY)
    assert read(place.reader(), [first, second, third]) == [exchange(number) for number in (1, 2, 3)]


def test_whole_segments_are_warc_files_for_everybody(place: Shared, tmp_path: Path) -> None:
    writer = place.writer()
    for number in range(20):
        write(writer, number)
    writer.close()
    wait_until(lambda: len(place.segments()) == 1, within=SHORTLY)
    (key,) = place.segments()
    path = tmp_path / "copy.warc.gz"
    content = place.objects.get(key, 0, 10**9) if place.s3 else (place.root("") / key).read_bytes()
    path.write_bytes(content or b"")
    with path.open("rb") as file:
        found = [record.rec_headers.get_header("WARC-Target-URI") for record in ArchiveIterator(file)]
    assert found == [None, *(f"http://a.example/{number}" for number in range(20))]


def test_what_was_abandoned_goes_and_what_was_flushed_stays(place: Shared) -> None:
    writer = place.writer()
    kept = write(writer, 1, 2)
    lost = writer.append("job", exchange(3))
    writer.abandon()
    later = write(writer, 4)
    assert later[0].key != kept[0].key
    writer.close()
    assert read(place.reader(), [*kept, *later]) == [exchange(1), exchange(2), exchange(4)]
    with pytest.raises(NotFound):
        place.reader().read(lost)


def test_what_is_discarded_was_never_there(place: Shared) -> None:
    writer = place.writer()
    (gone,), (stays,) = write(writer, 1, job="gone"), write(writer, 2, job="stays")
    writer.discard("gone")
    writer.close()
    assert place.reader().read(stays) == exchange(2)
    with pytest.raises(NotFound):
        place.reader().read(gone)
    assert place.folders().jobs() == ["stays"]


def test_removing_a_job_removes_all_of_it_and_nothing_else(place: Shared) -> None:
    writer = place.writer(size=5_000)
    for number in range(20):
        write(writer, number, job="job1", size=2_000)
    (other,), (longer,) = write(writer, 1, job="job2"), write(writer, 2, job="job10")
    writer.close()
    open_still = place.writer("d")
    (part,) = write(open_still, 50, job="job1")
    reader = place.reader()
    assert reader.read(part) == exchange(50)
    wait_until(lambda: len(place.segments("job1")) >= 7, within=SHORTLY)
    reader.remove("job1")
    assert place.folders().jobs() == ["job10", "job2"]
    assert read(reader, [other, longer]) == [exchange(1), exchange(2)]
    reader.remove("job1")
    reader.remove("never")


def test_what_is_not_there_is_not_found(place: Shared) -> None:
    reader = place.reader()
    with pytest.raises(NotFound):
        reader.read(ArchiveRef(f"job/none{SUFFIX}", 0, 10))
    (ref,) = write(place.writer(), 1)
    for wrong in (
        replace(ref, offset=ref.offset + 1),
        replace(ref, offset=10**9),
        replace(ref, length=ref.length - 1),
    ):
        with pytest.raises(NotFound):
            reader.read(wrong)


def test_the_size_of_a_segment_says_how_far_it_can_be_read(place: Shared) -> None:
    assert place.reader().size(f"job/none{SUFFIX}") == -1
    writer = place.writer()
    refs = write(writer, 0)
    for number in range(1, 4):
        refs += write(writer, number)
        assert place.reader("b").size(refs[-1].key) == refs[-1].offset + refs[-1].length
    writer.close()
    assert place.reader("b").size(refs[-1].key) == refs[-1].offset + refs[-1].length


def test_folders_tell_what_is_there(place: Shared) -> None:
    folders = place.folders()
    assert folders.jobs() == []
    writer = place.writer(size=2_000)
    refs = [ref for number in range(4) for ref in write(writer, number, job="job1", size=1_500)]
    write(writer, 9, job="job2")
    assert folders.jobs() == ["job1", "job2"]
    wait_until(lambda: not place.s3 or len(place.segments("job1")) == len(refs) - 1, within=SHORTLY)
    wait_until(lambda: not place.s3 or len(place.segments(f"{PARTS}/job1")) == 1, within=SHORTLY)
    found = {segment.key: segment for segment in folders.segments("job1")}
    assert set(found) == {ref.key for ref in refs}
    assert sum(segment.size for segment in found.values()) == folders.size("job1")
    assert all(segment.idle < timedelta(minutes=1) for segment in found.values())
    newest, oldest = folders.idle("job1")
    assert timedelta() <= newest <= oldest < timedelta(minutes=1)
    folders.remove_segment(refs[0].key)
    assert refs[0].key not in {segment.key for segment in folders.segments("job1")}
    with pytest.raises(NotFound):
        place.reader().read(refs[0])
    assert folders.segments("none") == []
    assert folders.size("none") == 0


def test_owners_are_written_down_before_the_first_segment(place: Shared) -> None:
    writer = place.writer("a", owner="one")
    writer.append("job", exchange(1))
    assert place.folders("one").is_ours_alone()
    assert timedelta() <= place.folders("one").owned() < timedelta(minutes=1)
    assert not place.folders("two").is_ours_alone()
    assert not place.folders("one").is_ours_alone()
    assert place.folders().jobs() == [] or not place.s3  # owners are no jobs


def test_a_database_that_was_written_down_by_its_former_name_is_the_only_owner(place: Shared) -> None:
    place.writer("a", owner="former").append("job", exchange(1))
    assert place.folders("me", "former").is_ours_alone()
    assert place.folders("me").is_ours_alone()  # there is nothing else now


def test_while_anybody_goes_by_the_former_name_it_is_as_if_the_database_had_just_come(place: Shared) -> None:
    """It may be another one, of a version that knows no other names, in whose network ours is called the same."""
    folders, long = place.folders("me", "former"), timedelta(seconds=2)
    place.writer("a", owner="me").append("job", exchange(1))
    wait_until(lambda: folders.owned() >= long, within=SHORTLY)
    assert folders.is_ours_alone()
    assert folders.owned() >= long
    place.writer("b", owner="former").append("job", exchange(1))
    assert folders.is_ours_alone()
    assert folders.owned() < long


def test_two_databases_with_the_same_former_name_are_two_owners(place: Shared) -> None:
    place.writer("a", owner="former").append("job", exchange(1))
    one, other = place.folders("one", "former"), place.folders("other", "former")
    assert one.is_ours_alone()
    assert not other.is_ours_alone()
    assert not one.is_ours_alone()


def test_several_jobs_and_writers_do_not_meet(place: Shared) -> None:
    writers = [place.writer(machine) for machine in ("a", "b", "c")]
    refs: list[tuple[int, ArchiveRef]] = []
    lock = threading.Lock()

    def work(writer: ArchiveWriter, first: int) -> None:
        for number in range(first, first + 10):
            ref = writer.append(f"job{number % 3}", exchange(number))
            if number % 2:
                writer.flush()
            with lock:
                refs.append((number, ref))

    threads = [threading.Thread(target=work, args=(writer, 100 * index)) for index, writer in enumerate(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refs) == 30
    assert all(place.reader("z").read(ref) == exchange(number) for number, ref in refs)


# --- what only an object store has to see to -------------------------------------------------------------------------


def test_nobody_closes_a_segment_whose_bytes_were_not_flushed(place: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who flushes must hear whether they have come to a safe place: only then rows may point to them."""
    monkeypatch.setattr(archive_module, "MAX_OPEN", 1)
    writer = place.writer()
    refs = [writer.append(f"job{n}", exchange(n)) for n in range(5)]
    writer.close_idle()
    assert len(writer._open) == 5  # pyright: ignore[reportPrivateUsage]
    writer.flush()
    assert [place.reader().read(ref) for ref in refs] == [exchange(n) for n in range(5)]
    writer.close()


def test_a_closed_segment_is_one_object_and_nothing_else_is_left(bucket: Shared) -> None:
    writer = bucket.writer()
    for number in range(5):
        write(writer, number)
    assert len(bucket.segments(PARTS)) == 5
    writer.close()
    wait_until(lambda: bucket.segments(PARTS) == [] and len(bucket.segments()) == 1, within=SHORTLY)
    spool = bucket.root("a") / SPOOL
    wait_until(lambda: not [name for _, _, names in os.walk(spool) for name in names], within=SHORTLY)


def test_a_batch_is_one_object_however_many_pages_it_has(bucket: Shared) -> None:
    writer = bucket.writer()
    write(writer, *range(64))
    assert len(bucket.segments(PARTS)) == 1
    writer.flush()
    assert len(bucket.segments(PARTS)) == 1


def test_a_batch_above_the_size_of_one_upload_is_one_object_too(bucket: Shared) -> None:
    writer = bucket.writer()
    refs = write(writer, 1, 2, 3, size=9_000_000)
    assert len(bucket.segments(PARTS)) == 1
    assert read(bucket.reader(), refs) == [exchange(number, 9_000_000) for number in (1, 2, 3)]
    writer.close()
    wait_until(lambda: len(bucket.segments()) == 1, within=timedelta(seconds=60))
    assert read(bucket.reader(), refs) == [exchange(number, 9_000_000) for number in (1, 2, 3)]


def test_a_segment_of_a_machine_that_is_gone_is_put_together_from_its_parts(
    bucket: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = bucket.writer()
    refs = [ref for number in range(5) for ref in write(writer, number)]
    reader = bucket.reader()
    assert reader.gather() == []  # it may be written to
    monkeypatch.setattr(parts_module, "GATHER_AFTER", timedelta())
    assert reader.gather() == [refs[0].key]
    assert bucket.segments() == [refs[0].key]
    assert bucket.segments(PARTS) == []
    assert read(reader, refs) == [exchange(number) for number in range(5)]
    assert reader.gather() == []


def test_what_cannot_be_put_together_is_in_nobodys_way(bucket: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "GATHER_AFTER", timedelta())
    objects = bucket.objects
    for number in range(3):  # of which the first part is missing
        objects.put(f"{PARTS}/a{number}/x{SUFFIX}/{9:015d}", b"tail")
    objects.put(f"{PARTS}/a3/x{SUFFIX}/notes.txt", b"somebody's")
    objects.put(f"{PARTS}/b/x{SUFFIX}/{4:015d}", b"good")
    assert Parts(objects).gather(1) == [f"b/x{SUFFIX}"]
    assert objects.get(f"b/x{SUFFIX}", 0, 4) == b"good"


def test_a_writer_that_comes_back_after_that_loses_nothing(bucket: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = bucket.writer()
    refs = [*write(writer, 1), *write(writer, 2)]
    monkeypatch.setattr(parts_module, "GATHER_AFTER", timedelta())
    bucket.reader().gather()
    refs += write(writer, 3)
    assert read(bucket.reader(), refs) == [exchange(number) for number in (1, 2, 3)]
    writer.close()
    wait_until(lambda: bucket.segments(PARTS) == [], within=SHORTLY)
    assert read(bucket.reader(), refs) == [exchange(number) for number in (1, 2, 3)]


def test_a_writer_that_was_frozen_does_not_trust_its_part(bucket: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have made the segment whole without it; so no row may point to it."""
    writer = bucket.writer()
    kept = write(writer, 1)
    monkeypatch.setattr("shoal.store.spool.OVERDUE_S", -1.0)
    with pytest.raises(ArchiveUnavailable, match="too long"):
        write(writer, 2)
    writer.abandon()
    monkeypatch.undo()
    for name, value in (bucket.s3.environment if bucket.s3 else {}).items():
        monkeypatch.setenv(name, value)
    later = write(writer, 2)
    assert later[0].key != kept[0].key
    assert read(bucket.reader(), [*kept, *later]) == [exchange(1), exchange(2)]


def test_the_parts_win_over_a_file_that_has_less(bucket: Shared) -> None:
    """After a power cut, say, on a disk that lies."""
    writer = bucket.writer()
    refs = [ref for number in range(3) for ref in write(writer, number)]
    short = bucket.tmp / "short"
    short.write_bytes((bucket.root("a") / SPOOL / refs[0].key).read_bytes()[: refs[1].offset])
    Parts(bucket.objects).make_whole(refs[0].key, short)
    assert bucket.segments(PARTS) == []
    assert read(bucket.reader(), refs) == [exchange(number) for number in range(3)]


def test_a_part_that_comes_late_is_added_to_the_whole_segment(bucket: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that was killed while it was put: no row points to it, and it is not left lying about."""
    writer = bucket.writer()
    refs = [*write(writer, 1), *write(writer, 2)]
    key = refs[0].key
    late = Parts(bucket.objects).of(key)[-1]
    content = bucket.objects.get(late.name, 0, 10**6)
    bucket.objects.remove([late.name])
    Parts(bucket.objects).make_whole(key)
    assert content
    bucket.objects.put(late.name, content)
    monkeypatch.setattr(parts_module, "GATHER_AFTER", timedelta())
    assert bucket.reader().gather() == [key]
    assert bucket.segments(PARTS) == []
    assert read(bucket.reader(), refs) == [exchange(1), exchange(2)]


def test_parts_with_a_hole_are_left_as_they_are(bucket: Shared) -> None:
    writer = bucket.writer()
    refs = [ref for number in range(3) for ref in write(writer, number)]
    parts = Parts(bucket.objects)
    bucket.objects.remove([parts.of(refs[0].key)[1].name])
    parts.make_whole(refs[0].key)
    assert bucket.segments() == []
    assert read(bucket.reader(), [refs[0], refs[2]]) == [exchange(0), exchange(2)]
    with pytest.raises(NotFound):
        bucket.reader().read(refs[1])


def test_a_removed_job_does_not_come_back_with_a_file_that_was_still_to_be_shipped(bucket: Shared) -> None:
    writer = bucket.writer()
    write(writer, 1)
    bucket.reader().remove("job")
    writer.close()
    spool = bucket.root("a") / SPOOL
    wait_until(lambda: not [name for _, _, names in os.walk(spool) for name in names], within=SHORTLY)
    assert bucket.folders().jobs() == []


def test_idle_segments_are_shipped_though_nobody_writes(bucket: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "IDLE_S", 0.1)
    (ref,) = write(bucket.writer(), 1)
    wait_until(lambda: bucket.segments() == [ref.key], within=SHORTLY)
    assert bucket.reader().read(ref) == exchange(1)


def test_records_from_before_the_object_store_are_read_from_the_folder(bucket: Shared) -> None:
    before = ArchiveWriter(bucket.root("a"), 10**6)
    old = write(before, 1)
    before.close()
    new = write(bucket.writer("a"), 2)
    assert read(bucket.reader("a"), [*old, *new]) == [exchange(1), exchange(2)]
    assert bucket.reader("a").size(old[0].key) == old[0].offset + old[0].length


def test_a_store_that_is_away_is_unavailable_and_leaves_nothing_on_the_disk(
    bucket: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Objects(Place("s3", "no-such-bucket", ""))
    writer = RemoteWriter(bucket.root("x"), away, 10**6, "me")
    bucket.stack.callback(writer.end)
    for _ in range(3):
        with pytest.raises(ArchiveUnavailable, match="no-such-bucket"):
            write(writer, 1, size=100_000)
        writer.abandon()
    assert not [path for path in bucket.root("x").rglob(f"*{SUFFIX}") if path.is_file()]
    reader = RemoteReader(bucket.root("x"), away)
    with pytest.raises(ArchiveUnavailable):
        reader.read(ArchiveRef(f"job/none{SUFFIX}", 0, 10))
    with pytest.raises(ArchiveUnavailable):
        reader.ping()
    assert reader.size(f"job/none{SUFFIX}") == -1
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(ArchiveUnavailable):
        RemoteReader(bucket.root("x"), Objects(Place("s3", bucket.bucket, ""))).ping()


def test_errors_tell_no_secrets(bucket: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-of-mine")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:s3cret-of-mine@127.0.0.1:9")
    with pytest.raises(ArchiveUnavailable) as caught:
        Objects(Place("s3", bucket.bucket, "")).try_out()
    assert "s3cret" not in str(caught.value)


def test_a_process_that_was_forked_from_a_user_is_told_so(bucket: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for threads that there are not."""
    monkeypatch.setattr(object_store, "_users", {1})
    with pytest.raises(ArchiveUnavailable, match="forked"):
        bucket.objects.ping()


def test_a_store_can_be_tried_out(bucket: Shared) -> None:
    bucket.objects.try_out()
    assert bucket.objects.is_empty()


class _Meanwhile(Objects):
    """A store in which something happens after so many looks at it."""

    def __init__(self, place: Place, looks: int, happens: Callable[[], object]) -> None:
        super().__init__(place)
        self._left = looks
        self._happens = happens

    def look(self, name: str) -> Found | None:
        found = super().look(name)
        self._looked()
        return found

    def listed(self, folder: str, after: str = "") -> Iterator[Found]:
        found = list(super().listed(folder, after))
        self._looked()
        return iter(found)

    def _looked(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._happens()


@pytest.mark.parametrize("looks", [1, 2])
def test_a_segment_that_is_made_whole_between_two_looks_is_as_long_as_it_is(bucket: Shared, looks: int) -> None:
    (ref,) = write(bucket.writer(), 1)
    store = _Meanwhile(bucket.objects.place, looks, lambda: Parts(bucket.objects).make_whole(ref.key))
    assert Parts(store).size(ref.key) == ref.offset + ref.length
    assert bucket.segments() == [ref.key]
