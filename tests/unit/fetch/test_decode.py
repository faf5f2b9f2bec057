"""Content encodings under a cap, and the charset of a page."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from time import process_time
from typing import Any, cast

import brotli
import pytest
import zstandard

from shoal.errors import FetchError
from shoal.fetch.decode import ANY_RATIO, MAX_RATIO, ZSTD_WINDOW, decode_text, find_charset, unpack

Pack = Callable[[bytes], bytes]

TEXT = b"".join(b"line %d of a page\n" % number for number in range(300))
CAP = 1_000_000


def deflate_raw(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def pack_brotli(body: bytes) -> bytes:
    return cast("bytes", cast("Any", brotli).compress(body, quality=4))


def pack_zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


PACKERS: list[tuple[str, Pack]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", deflate_raw),
    ("br", pack_brotli),
    ("zstd", pack_zstd),
]
each_encoding = pytest.mark.parametrize(
    ("name", "pack"), PACKERS, ids=["gzip", "x-gzip", "deflate", "raw deflate", "br", "zstd"]
)


def refused(body: bytes, encoding: str, cap: int = CAP) -> FetchError:
    with pytest.raises(FetchError) as caught:
        unpack(body, encoding, cap)
    return caught.value


@each_encoding
def test_every_encoding_is_unpacked(name: str, pack: Pack) -> None:
    assert unpack(pack(TEXT), name, CAP) == TEXT
    assert unpack(pack(b""), name, CAP) == b""
    assert unpack(b"", name, CAP) == b""


@each_encoding
def test_the_cap_is_the_last_size_that_is_taken(name: str, pack: Pack) -> None:
    assert unpack(pack(TEXT), name, len(TEXT)) == TEXT
    error = refused(pack(TEXT), name, len(TEXT) - 1)
    assert (error.reason, error.detail) == ("too_large", f"more than {len(TEXT) - 1} bytes after unpacking {name}")


@each_encoding
def test_a_bomb_is_refused_before_it_fills_the_memory(name: str, pack: Pack) -> None:
    bomb = pack(bytes(40_000_000))
    tracemalloc.start()
    try:
        assert refused(bomb, name).reason == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@each_encoding
def test_what_is_not_packed_as_it_says_is_refused(name: str, pack: Pack) -> None:
    error = refused(b"<!doctype html><p>plain", name)
    assert error.reason == "bad_encoding"
    assert error.detail.startswith(f"the {name} data is damaged: ")


@each_encoding
def test_a_truncated_body_gives_what_it_has(name: str, pack: Pack) -> None:
    packed = pack(TEXT)
    for length in (1, 4, len(packed) // 2, len(packed) - 1):
        assert TEXT.startswith(unpack(packed[:length], name, CAP))


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_truncated_body_gives_most_of_it(name: str, pack: Pack) -> None:
    packed = pack(TEXT)
    assert len(unpack(packed[: len(packed) * 3 // 4], name, CAP)) > len(TEXT) // 2


def test_a_wrong_checksum_is_damage() -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-5] ^= 0xFF
    assert refused(bytes(packed), "gzip").reason == "bad_encoding"


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", pack_zstd)])
def test_all_members_are_unpacked(name: str, pack: Pack) -> None:
    assert unpack(pack(TEXT) + pack(b"") + pack(TEXT), name, CAP) == TEXT + TEXT


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", pack_zstd)])
def test_members_are_capped_together(name: str, pack: Pack) -> None:
    body = pack(bytes(CAP // 2)) * 3
    assert refused(body, name).reason == "too_large"
    assert unpack(pack(bytes(CAP // 2)) * 2, name, CAP) == bytes(CAP)


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", pack_zstd)])
def test_many_empty_members_do_not_hold_up_the_crawl(name: str, pack: Pack) -> None:
    """A megabyte of them: refused or unpacked, but not in time that grows with its square."""
    member = pack(b"")
    body = member * (1_000_000 // len(member))
    started = process_time()
    try:
        assert unpack(body, name, CAP) == b""
    except FetchError as error:
        assert error.reason == "bad_encoding"
    assert process_time() - started < 0.4


@pytest.mark.parametrize("padding", [b"\0" * 512, b"\r\n", b"<!-- served by -->", b"\x1f"])
def test_padding_behind_gzip_is_ignored(padding: bytes) -> None:
    assert unpack(gzip.compress(TEXT) + padding, "gzip", CAP) == TEXT


def test_a_zstd_window_that_needs_too_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    assert refused(packer.compress(TEXT) + packer.flush(), "zstd").reason == "bad_encoding"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip, br", pack_brotli(gzip.compress(TEXT, mtime=0))),
        ("GZIP ,  BR", pack_brotli(gzip.compress(TEXT, mtime=0))),
        ("identity, gzip", gzip.compress(TEXT, mtime=0)),
        ("gzip,,", gzip.compress(TEXT, mtime=0)),
        ("deflate, gzip, zstd", pack_zstd(gzip.compress(zlib.compress(TEXT), mtime=0))),
        ("identity", TEXT),
        ("", TEXT),
        (" , ", TEXT),
    ],
)
def test_encodings_are_taken_off_from_the_last_to_the_first(encoding: str, body: bytes) -> None:
    assert unpack(body, encoding, CAP) == TEXT


def test_a_bomb_inside_another_encoding_is_refused_at_each_step() -> None:
    assert refused(gzip.compress(gzip.compress(bytes(40_000_000))), "gzip, gzip").reason == "too_large"
    outer = gzip.compress(pack_brotli(TEXT) + bytes(10 * CAP))
    assert refused(outer, "br, gzip").detail == f"more than {CAP} bytes after unpacking gzip"


def test_more_than_three_encodings_are_refused() -> None:
    error = refused(TEXT, "gzip, gzip, gzip, gzip")
    assert (error.reason, error.detail) == ("bad_encoding", "4 content encodings on top of each other")


@pytest.mark.parametrize("name", ["compress", "bzip2", "utf-8", "gzip;q=1", "x" * 500])
def test_an_unknown_encoding_is_refused_by_name(name: str) -> None:
    error = refused(TEXT, name)
    assert (error.reason, error.detail) == ("bad_encoding", f"unknown content encoding {name[:40]!r}")


MARK = "\ufeff<p>ü"


@pytest.mark.parametrize(
    ("content_type", "body", "charset"),
    [
        ("text/html", MARK.encode("utf-8"), "utf-8"),
        ("text/html", b"\xff\xfe" + "ü".encode("utf-16-le"), "utf-16"),
        ("text/html", b"\xfe\xff" + "ü".encode("utf-16-be"), "utf-16"),
        ("text/html", MARK.encode("utf-32"), "utf-32"),
        ("text/html; charset=koi8-r", MARK.encode("utf-8"), "utf-8"),
        ("text/html; charset=utf-8", MARK.encode("utf-16"), "utf-16"),
    ],
)
def test_a_byte_order_mark_goes_before_everything(content_type: str, body: bytes, charset: str) -> None:
    assert find_charset(content_type, body) == charset
    assert decode_text(body, charset).endswith("ü")
    assert not decode_text(body, charset).startswith("\ufeff")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/html; charset=koi8-r",
        "text/html;charset=KOI8-R",
        'text/html; charset="koi8-r"',
        "text/html; charset='koi8-r'",
        "text/html; charset = koi8-r",
        "text/html; boundary=x; charset=koi8-r; x=y",
        "text/html; charset=koi8-r, text/html",
    ],
)
def test_the_header_goes_before_the_page(content_type: str) -> None:
    assert find_charset(content_type, b"<meta charset=utf-8>") == "koi8-r"


@pytest.mark.parametrize(
    "head",
    [
        b"<meta charset=koi8-r>",
        b"<META CHARSET='KOI8-R'>",
        b'<meta charset="koi8-r"/>',
        b"<meta charset = koi8-r >",
        b"<meta name=x charset=koi8-r>",
        b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>",
        b'<meta content="text/html;charset=koi8-r" http-equiv="Content-Type">',
        b"<!doctype html>" + b"\n" * 900 + b"<meta charset=koi8-r>",
        b"<meta name=viewport content=x><meta charset=koi8-r>",
    ],
)
@pytest.mark.parametrize("content_type", ["text/html", "", "text/html; charset=", "text/html; charset=no-such-name"])
def test_the_page_is_asked_when_the_header_does_not_know(content_type: str, head: bytes) -> None:
    assert find_charset(content_type, head + b"\xd0\xff") == "koi8-r"


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        (b"", "utf-8"),
        (b"plain", "utf-8"),
        ("größer".encode(), "utf-8"),
        ("größer 表".encode()[:-1], "utf-8"),
        ("größer \U0001f600".encode()[:-1], "utf-8"),
        (b" " * 1100 + b"<meta charset=koi8-r>", "utf-8"),
        (b"<p charset=koi8-r>", "utf-8"),
        (b"<meta charset=no-such-name>", "utf-8"),
        (b"<meta charset=no-such-name>\xe9t\xe9.", "windows-1252"),
        (b"\xe9t\xe9.", "windows-1252"),
        (b"\x93quoted\x94 text", "windows-1252"),
        ("größer".encode() + b" \xff ", "windows-1252"),
    ],
)
def test_without_a_name_valid_utf_8_is_utf_8_and_the_rest_is_windows_1252(body: bytes, charset: str) -> None:
    assert find_charset("text/html", body) == charset


@pytest.mark.parametrize("name", ["utf-16", "UTF-16LE", "utf-16be", "utf-32", "utf-7"])
def test_a_page_that_could_be_read_as_ascii_is_not_what_it_says(name: str) -> None:
    assert find_charset("text/html", f"<meta charset={name}>größer".encode()) == "utf-8"


WESTERN = ["iso-8859-1", "ISO8859-1", "iso_8859-1", "latin1", "latin-1", "l1", "us-ascii", "ascii", "windows-1252"]


@pytest.mark.parametrize(
    ("name", "packed", "text"),
    [
        *((name, b"\x93\xe9\x94 \x80", "“é” €") for name in ("iso-8859-1", "latin1", "us-ascii", "ascii", "latin-1")),
        *(
            (name, b"\x93\xe9\x94 \x80", "“é” €")
            for name in ("ISO8859-1", "iso_8859-1", "l1", "windows-1252", "cp1252")
        ),
        ("iso-8859-15", b"\xa4", "€"),
        ("gb2312", "表紙é鎔".encode("gb18030"), "表紙é鎔"),
        ("gbk", "表紙€".encode("gb18030"), "表紙€"),
        *((name, "①髙".encode("cp932"), "①髙") for name in ("shift_jis", "Shift-JIS", "x-sjis", "sjis")),
        *((name, "똠".encode("cp949"), "똠") for name in ("euc-kr", "ks_c_5601-1987", "ks_c_5601")),
        ("utf8", "é".encode(), "é"),
        ("UTF-8", "é".encode(), "é"),
        ("utf-16le", "é".encode("utf-16-le"), "é"),
        ("windows-1251", "Ж".encode("cp1251"), "Ж"),
        ("koi8-r", "Ж".encode("koi8-r"), "Ж"),
        ("big5", "表".encode("big5"), "表"),
        ("euc-jp", "表紙".encode("euc-jp"), "表紙"),
        ("iso-2022-jp", "表紙".encode("iso-2022-jp"), "表紙"),
    ],
)
def test_names_mean_what_the_web_means_by_them(name: str, packed: bytes, text: str) -> None:
    assert decode_text(packed, find_charset(f"text/html; charset={name}", packed)) == text


PYTHON_ONLY = ["base64", "hex", "rot13", "zlib", "bz2", "uu", "quopri", "undefined", "idna", "punycode", "charmap"]
UNSAFE = ["unicode_escape", "raw_unicode_escape", "utf-7"]
NO_CODEC = ["aliases", "__init__", "none", "x" * 40]


@pytest.mark.parametrize("name", PYTHON_ONLY + UNSAFE + NO_CODEC)
def test_python_codecs_that_the_web_does_not_know_are_unknown_names(name: str) -> None:
    body = rb"<p>\u0041 +AGE- caf" + b"\xe9</p>"
    assert find_charset(f"text/html; charset={name}", body) == "windows-1252"
    assert find_charset("text/html", f"<meta charset={name}>".encode() + body) == "windows-1252"


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"caf\xe9!", "utf-8", "caf\ufffd!"),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "utf-8", "café"),
        (b"\x81", "windows-1252", "\ufffd"),
        (b"\x00\xd8", "utf-16-le", "\ufffd"),
        (b"x", "utf-16-le", "\ufffd"),
        (b"\xff", "ascii", "\ufffd"),
    ],
)
def test_what_cannot_be_decoded_becomes_a_replacement_character(body: bytes, charset: str, text: str) -> None:
    assert decode_text(body, charset) == text


def test_far_more_than_a_thousand_times_what_was_sent_is_refused() -> None:
    packed = zstandard.ZstdCompressor().compress(bytes(10 * ANY_RATIO))
    assert len(packed) * MAX_RATIO < 10 * ANY_RATIO
    assert refused(packed, "zstd", 100 * ANY_RATIO).reason == "too_large"


def test_a_small_page_may_have_any_ratio() -> None:
    packed = pack_brotli(bytes(ANY_RATIO))
    assert len(packed) * MAX_RATIO < ANY_RATIO
    assert unpack(packed, "br", 2 * ANY_RATIO) == bytes(ANY_RATIO)


def test_the_ratio_counts_from_the_wire_over_all_encodings() -> None:
    inner = gzip.compress(bytes(20 * ANY_RATIO))
    assert len(unpack(inner, "gzip", 100 * ANY_RATIO)) == 20 * ANY_RATIO
    assert refused(gzip.compress(inner), "gzip, gzip", 100 * ANY_RATIO).reason == "too_large"


def test_a_zstd_window_beyond_that_of_browsers_is_refused() -> None:
    def pack(log: int) -> bytes:
        parameters = zstandard.ZstdCompressionParameters(compression_level=1, window_log=log, enable_ldm=False)
        packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        return packer.compress(TEXT) + packer.flush()

    assert unpack(pack(ZSTD_WINDOW.bit_length() - 1), "zstd", CAP) == TEXT
    assert refused(pack(ZSTD_WINDOW.bit_length()), "zstd").reason == "bad_encoding"


def test_utf_8_is_recognised_over_the_borders_of_pieces() -> None:
    body = b"x" + "ü".encode() * 300_000
    assert find_charset("", body) == "utf-8"
    assert find_charset("", body[:-1]) == "utf-8"
    assert find_charset("", body + b"\xff") == "windows-1252"


def test_a_header_full_of_spaces_takes_no_time() -> None:
    assert find_charset("text/html; charset=" + " " * 32_000 + "!", b"plain") == "utf-8"


@pytest.mark.parametrize("name", ["cp037", "cp500", "cp1140"])
def test_a_charset_in_which_markup_looks_like_none_is_not_known(name: str) -> None:
    assert find_charset(f"text/html; charset={name}", b"plain") == "utf-8"
