"""WARC segments that any tool can read, from which one record can be read alone."""

from __future__ import annotations

import gzip
import random
import resource
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import brotli
import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from shoal import __version__
from shoal.errors import ArchiveUnavailable, NotFound
from shoal.store.archive import ArchiveReader, ArchiveWriter, Attachment, Exchange
from shoal.store.page_rows import ArchiveRef

AT_MS = 1_700_000_000_123
BODY = b"<p>hello</p>" * 50
EXCHANGE = Exchange(
    "http://a.example/b?c=%2F",
    200,
    "OK",
    ((b"Content-Type", b"text/html"), (b"X-b", b"1"), (b"x-B", b"2")),
    BODY,
    AT_MS,
)


def members(path: Path) -> Iterator[bytes]:
    """The gzip members of a file, each unpacked on its own."""
    rest = path.read_bytes()
    while rest:
        member = zlib.decompressobj(31)
        yield member.decompress(rest)
        assert member.eof
        rest = member.unused_data


def records(path: Path) -> list[tuple[str, dict[str, str], bytes]]:
    """(type, WARC headers, content) of each record, as warcio reads them from start to end."""
    with path.open("rb") as file:
        return [
            (record.rec_type, dict(record.rec_headers.headers), record.content_stream().read())
            for record in cast("Any", ArchiveIterator)(file)
        ]


def segments(root: Path, job: str = "job") -> list[Path]:
    return sorted((root / job).glob("*.warc.gz"))


def write(root: Path, *exchanges: Exchange, limit: int = 1_000_000) -> list[ArchiveRef]:
    writer = ArchiveWriter(root, limit)
    refs = [writer.append("job", exchange) for exchange in exchanges]
    writer.close()
    return refs


def numbered(number: int) -> Exchange:
    return replace(EXCHANGE, url=f"http://a.example/{number}", body=b"%d:" % number + BODY)


def test_a_segment_is_readable_from_start_to_end(tmp_path: Path) -> None:
    write(tmp_path, *(numbered(number) for number in range(5)))
    (path,) = segments(tmp_path)
    info, *responses = records(path)
    assert info[0] == "warcinfo"
    assert info[1]["WARC-Filename"] == path.name
    assert info[2] == f"software: Shoal/{__version__}\r\nformat: WARC File Format 1.1\r\n".encode()
    assert [(kind, headers["WARC-Target-URI"], body) for kind, headers, body in responses] == [
        ("response", f"http://a.example/{number}", b"%d:" % number + BODY) for number in range(5)
    ]


def test_each_record_has_its_identity_and_its_date(tmp_path: Path) -> None:
    write(tmp_path, EXCHANGE, EXCHANGE)
    found = records(segments(tmp_path)[0])
    ids = [headers["WARC-Record-ID"] for _, headers, _ in found]
    assert len({UUID(each.removeprefix("<urn:uuid:").removesuffix(">")) for each in ids}) == 3
    assert found[1][1]["WARC-Date"] == "2023-11-14T22:13:20.123000Z"
    assert found[1][1]["Content-Type"] == "application/http; msgtype=response"
    made = datetime.strptime(found[0][1]["WARC-Date"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - made).total_seconds()) < 60


def test_what_was_made_of_a_response_lies_beside_it(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path, 1_000_000)
    made = [
        Attachment("document", "text/html; charset=utf-8", "<p>grün\r\n\r\n</p>\r\n\r\n".encode()),
        Attachment("screenshot", "image/png", b"\x89PNG\r\n\r\n"),
        Attachment("pdf", "application/pdf", b""),
    ]
    writer.append("job", EXCHANGE)
    refs = [writer.attach("job", EXCHANGE.url, AT_MS, each) for each in made]
    writer.close()
    found = records(segments(tmp_path)[0])[2:]
    assert [(kind, headers["WARC-Target-URI"], headers["Content-Type"], body) for kind, headers, body in found] == [
        ("conversion", EXCHANGE.url, made[0].media_type, made[0].body),
        ("resource", f"urn:screenshot:{EXCHANGE.url}", "image/png", made[1].body),
        ("resource", f"urn:pdf:{EXCHANGE.url}", "application/pdf", b""),
    ]
    assert {headers["WARC-Date"] for _, headers, _ in found} == {"2023-11-14T22:13:20.123000Z"}
    reader = ArchiveReader(tmp_path)
    assert [reader.read_attachment(ref) for ref in refs] == [each.body for each in made]
    with pytest.raises(NotFound):
        reader.read_attachment(replace(refs[1], offset=refs[1].offset + 1))


def test_each_record_is_a_gzip_member_of_its_own(tmp_path: Path) -> None:
    refs = write(tmp_path, *(numbered(number) for number in range(3)))
    (path,) = segments(tmp_path)
    parts = list(members(path))
    assert [part.split(b"\r\n")[:2] for part in parts] == [
        [b"WARC/1.1", b"WARC-Type: warcinfo"],
        *[[b"WARC/1.1", b"WARC-Type: response"]] * 3,
    ]
    assert all(part.endswith(b"\r\n\r\n") for part in parts)
    raw = path.read_bytes()
    assert [gzip.decompress(raw[ref.offset : ref.offset + ref.length]) for ref in refs] == parts[1:]
    assert refs[-1].offset + refs[-1].length == len(raw)


def test_the_http_message_is_kept_without_the_framing_of_its_connection(tmp_path: Path) -> None:
    headers = (
        (b"Server", b"x"),
        (b"Transfer-Encoding", b"chunked"),
        (b"CONNECTION", b"close"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Content-Length", b"999"),
        (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
    )
    write(tmp_path, replace(EXCHANGE, status=404, http_reason="Not Found", headers=headers, body=b"gone"))
    _, message = members(segments(tmp_path)[0])
    assert message.split(b"\r\n\r\n", 1)[1] == (
        b"HTTP/1.1 404 Not Found\r\nServer: x\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
        b"Content-Length: 4\r\n\r\ngone\r\n\r\n"
    )


@pytest.mark.parametrize(
    "exchange",
    [
        EXCHANGE,
        replace(EXCHANGE, body=b""),
        replace(EXCHANGE, body=bytes(range(256)) * 300),
        replace(EXCHANGE, body=b"\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\n\r\n"),
        replace(EXCHANGE, headers=()),
        replace(EXCHANGE, headers=((b"X", b""), (b"Y", b"a: b: c"), (b"Z", b"x" * 10_000))),
        replace(EXCHANGE, headers=((b"Location", b"/caf\xe9"),)),
        replace(EXCHANGE, headers=((b"Location", "/café".encode()),)),
        replace(EXCHANGE, headers=((b"Location", "/日本".encode()), (b"X", b"\xff\xfe"))),
        replace(EXCHANGE, status=301, http_reason="Moved, for good"),
        replace(EXCHANGE, status=999, http_reason=""),
        replace(EXCHANGE, http_reason="Größe"),
        replace(EXCHANGE, url="http://[::1]:8080/?" + "x" * 2000),
    ],
)
def test_a_response_is_read_back_as_it_was_written(tmp_path: Path, exchange: Exchange) -> None:
    _, ref, _ = write(tmp_path, numbered(1), exchange, numbered(2))
    length = (b"Content-Length", b"%d" % len(exchange.body))
    read = ArchiveReader(tmp_path).read(ref)
    assert replace(read, at_ms=AT_MS) == replace(exchange, headers=(*exchange.headers, length))


@pytest.mark.parametrize("at_ms", [0, AT_MS, 4_102_444_799_999])
def test_the_time_of_a_response_is_read_back(tmp_path: Path, at_ms: int) -> None:
    (ref,) = write(tmp_path, replace(EXCHANGE, at_ms=at_ms))
    assert ArchiveReader(tmp_path).read(ref).at_ms == at_ms


def test_a_reason_that_latin_1_cannot_hold_does_not_stop_the_archive(tmp_path: Path) -> None:
    (ref,) = write(tmp_path, replace(EXCHANGE, http_reason="日本 OK"))
    assert ArchiveReader(tmp_path).read(ref).http_reason == "?? OK"


def pack_brotli(body: bytes) -> bytes:
    return cast("bytes", cast("Any", brotli).compress(body))


@pytest.mark.parametrize(
    ("encodings", "packed"),
    [
        ([b"gzip"], gzip.compress(BODY, mtime=0)),
        ([b"deflate"], zlib.compress(BODY)),
        ([b"br"], pack_brotli(BODY)),
        ([b"zstd"], zstandard.ZstdCompressor().compress(BODY)),
        ([b"gzip, br"], pack_brotli(gzip.compress(BODY, mtime=0))),
        ([b"gzip", b"br"], pack_brotli(gzip.compress(BODY, mtime=0))),
        ([b"identity"], BODY),
        ([], BODY),
    ],
)
def test_a_packed_body_is_kept_as_on_the_wire_and_unpacked_on_demand(
    tmp_path: Path, encodings: list[bytes], packed: bytes
) -> None:
    headers = tuple((b"Content-Encoding", encoding) for encoding in encodings)
    (ref,) = write(tmp_path, replace(EXCHANGE, headers=headers, body=packed))
    read = ArchiveReader(tmp_path).read(ref)
    assert read.body == packed
    assert read.unpacked() == BODY
    (path,) = segments(tmp_path)
    assert list(members(path))[1].endswith(packed + b"\r\n\r\n")


def test_a_full_segment_is_closed_and_the_next_one_opened(tmp_path: Path) -> None:
    refs = write(tmp_path, *(numbered(number) for number in range(6)), limit=1500)
    paths = segments(tmp_path)
    assert len(paths) > 1
    assert list(dict.fromkeys(ref.key for ref in refs)) == [f"job/{path.name}" for path in paths]
    for path in paths[:-1]:
        assert path.stat().st_size >= 1500
        last = max((ref for ref in refs if ref.key.endswith(path.name)), key=lambda ref: ref.offset)
        assert last.offset < 1500
    assert [kind for path in paths for kind, _, _ in records(path)].count("warcinfo") == len(paths)
    assert [ArchiveReader(tmp_path).read(ref).url[-1] for ref in refs] == list("012345")


def test_a_record_larger_than_a_segment_gets_one_to_itself(tmp_path: Path) -> None:
    refs = write(tmp_path, EXCHANGE, EXCHANGE, EXCHANGE, limit=1)
    assert len({ref.key for ref in refs}) == 3


def test_each_job_and_each_writer_has_segments_of_its_own(tmp_path: Path) -> None:
    writers = [ArchiveWriter(tmp_path, 10**6) for _ in range(2)]
    refs = [writer.append(job, EXCHANGE) for job in ("one", "two", "one") for writer in writers]
    for writer in writers:
        writer.close()
    assert len({ref.key for ref in refs}) == 4
    assert len(segments(tmp_path, "one")) == len(segments(tmp_path, "two")) == 2
    assert refs[0].key == refs[4].key


def test_one_job_can_be_closed_alone_and_goes_on_in_a_new_segment(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path, 10**6)
    one, other = writer.append("one", EXCHANGE), writer.append("other", EXCHANGE)
    writer.close("one")
    writer.close("one")
    writer.close("unknown")
    assert writer.append("other", EXCHANGE).key == other.key
    assert writer.append("one", EXCHANGE).key != one.key
    writer.close()


def test_a_record_can_be_read_as_soon_as_it_is_flushed(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path, 10**6)
    ref = writer.append("job", EXCHANGE)
    writer.flush()
    assert ArchiveReader(tmp_path).read(ref).body == BODY
    writer.close()


def tear(root: Path, lost: int) -> list[ArchiveRef]:
    """Three records, of which the last has lost bytes at its end."""
    refs = write(root, *(numbered(number) for number in range(3)))
    (path,) = segments(root)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(refs[2].offset, len(whole) - lost)])
    return refs


each_loss = pytest.mark.parametrize("lost", [1, 8, 60, 10_000])


@each_loss
def test_a_torn_tail_does_not_hurt_the_records_before_it(tmp_path: Path, lost: int) -> None:
    refs = tear(tmp_path, lost)
    assert [ArchiveReader(tmp_path).read(ref).body[:2] for ref in refs[:2]] == [b"0:", b"1:"]


@each_loss
def test_a_torn_record_is_not_taken_for_a_whole_one(tmp_path: Path, lost: int) -> None:
    torn = tear(tmp_path, lost)[2]
    with pytest.raises(NotFound):
        ArchiveReader(tmp_path).read(torn)


def test_bytes_of_a_dead_writer_behind_the_last_record_do_not_matter(tmp_path: Path) -> None:
    (ref,) = write(tmp_path, EXCHANGE)
    (path,) = segments(tmp_path)
    path.write_bytes(path.read_bytes() + b"\x1f\x8b\x08\x00torn")
    assert ArchiveReader(tmp_path).read(ref).body == BODY


@pytest.mark.parametrize(
    ("shift", "length"), [(1_000_000, 100), (3, 100), (0, 0), (0, 5)], ids=["beyond", "beside", "empty", "short"]
)
def test_a_reference_to_no_record_finds_nothing(tmp_path: Path, shift: int, length: int) -> None:
    (ref,) = write(tmp_path, EXCHANGE)
    with pytest.raises(NotFound, match=rf"^no record at {ref.offset + shift} of the archive segment {ref.key}$"):
        ArchiveReader(tmp_path).read(replace(ref, offset=ref.offset + shift, length=length))


def test_a_reference_to_the_segment_head_finds_no_response(tmp_path: Path) -> None:
    (ref,) = write(tmp_path, EXCHANGE)
    with pytest.raises(NotFound):
        ArchiveReader(tmp_path).read(ArchiveRef(ref.key, 0, ref.offset))


def test_a_segment_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"^the archive segment job/x\.warc\.gz is not there any more$"):
        ArchiveReader(tmp_path).read(ArchiveRef("job/x.warc.gz", 0, 10))


def test_an_archive_that_cannot_be_written_says_where_and_why(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("in the way")
    with pytest.raises(ArchiveUnavailable) as caught:
        ArchiveWriter(root, 10**6).append("job", EXCHANGE)
    assert str(caught.value) == f"cannot write the archive under {root}: Not a directory"


def test_after_a_failure_nothing_is_written_behind_the_torn_record(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path, 10**6)
    first = writer.append("job", EXCHANGE)
    writer.abandon()
    second = writer.append("job", EXCHANGE)
    writer.close()
    assert second.key != first.key
    assert ArchiveReader(tmp_path).read(second).body == BODY


@contextmanager
def file_size_limit(limit: int) -> Generator[None]:
    """Files cannot grow beyond this: the nearest thing to a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_failed_write_is_told_and_the_next_segment_is_whole(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path, 10**8)
    with file_size_limit(100_000):
        with pytest.raises(ArchiveUnavailable) as caught:
            writer.append("job", replace(EXCHANGE, body=random.randbytes(3_000_000)))
            writer.flush()
        writer.abandon()
    assert str(caught.value) == f"cannot write the archive under {tmp_path}: File too large"
    ref = writer.append("job", EXCHANGE)
    writer.close()
    assert ArchiveReader(tmp_path).read(ref).body == BODY
    assert [kind for kind, _, _ in records(tmp_path / ref.key)] == ["warcinfo", "response"]
