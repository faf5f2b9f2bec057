"""From bytes on the wire to text: content encodings unpacked under a cap, and the charset found.

Charset, in this order: byte order mark, Content-Type header, `<meta>` within the first kilobyte, UTF-8 when the bytes
are valid UTF-8, else windows-1252.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO

import brotli
import zstandard
from isal import isal_zlib

from shoal.errors import FetchError

MAX_ENCODINGS = 3
"""On top of each other."""
MAX_RATIO = 1_100
"""Bytes of output for one on the wire, over all encodings; gzip alone cannot reach more than 1,032."""
ANY_RATIO = 1 << 20
"""Bytes of output up to which the ratio does not matter."""
MAX_MEMBERS = 1_000
"""Of one gzip body."""
_AT_ONCE = 1 << 20
"""What is unpacked at once: what is left of it behind the end of a member is a copy."""
ZSTD_WINDOW = 8 << 20
"""Bytes that a decoder for the web has to remember (RFC 9659); frames that ask for more are refused."""
_PIECE = 1 << 18
_HEAD = 1024
_TYPE_CHARS = 300
"""Of a Content-Type, that are looked at."""
_META = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_PARAMETER = re.compile(r"""charset\s{0,5}=\s{0,5}["']?\s{0,5}([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MARKED = frozenset(mark[:1] for mark, _ in _MARKS)
"""Bytes that a marked text begins with."""
# What the web means by Python's codecs, and names that only the web knows.
_MEANT = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-8-sig": "utf-8",
}
_MARKUP = "<a href='/x'>&"
_ALIASES = {"x-sjis": "cp932", "ks_c_5601-1987": "cp949"}
_OPAQUE = ("utf-16", "utf-32", "iso2022", "hz", "johab", "shift_jis_2004", "shift_jisx0213")
"""In these, bytes of ASCII may be something else, and markup may be written so that it cannot be seen in the bytes."""
_UNFIT = frozenset({"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"})


def unpack(body: bytes, content_encoding: str, cap: int) -> bytes:
    """The body without its content encodings; more than `cap` bytes of output are refused."""
    names = [name for part in content_encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(names) > MAX_ENCODINGS:
        raise FetchError("bad_encoding", f"{len(names)} content encodings on top of each other")
    most = max(ANY_RATIO, len(body) * MAX_RATIO)
    for name in reversed(names):
        unpacker = _UNPACKERS.get(name)
        if unpacker is None:
            raise FetchError("bad_encoding", f"unknown content encoding {name[:40]!r}")
        body = _bounded(unpacker, body, min(cap, most), name)
    return body


def _bounded(unpacker: Callable[[bytes, int], bytes], body: bytes, cap: int, name: str) -> bytes:
    if not body:
        return body
    try:
        unpacked = unpacker(body, cap + 1)
    except (zlib.error, isal_zlib.error, brotli.error, zstandard.ZstdError, EOFError) as exc:
        raise FetchError("bad_encoding", f"the {name} data is damaged: {exc}") from exc
    if len(unpacked) > cap:
        raise FetchError("too_large", f"more than {cap} bytes after unpacking {name}")
    return unpacked


def gunzip(body: bytes, limit: int) -> bytes:
    """The beginning of what is packed in a file, up to so many bytes."""
    try:
        return _gunzip(body, limit)
    except isal_zlib.error as exc:
        raise FetchError("bad_encoding", f"the gzip data is damaged: {exc}") from exc


def codec_named(name: str) -> str | None:
    """What the web means by the name of a charset; None when that is nothing that can be read."""
    return _codec(name)


def _gunzip(body: bytes, limit: int) -> bytes:
    """All members; a truncated last one gives what it has, as browsers do."""
    parts: list[bytes] = []
    size = at = members = 0
    while at < len(body) and size < limit:
        if at and body[at : at + 2] != b"\x1f\x8b":
            break  # padding behind the last member
        if members >= MAX_MEMBERS:
            raise FetchError("bad_encoding", f"more than {MAX_MEMBERS} gzip members")
        members += 1
        member = isal_zlib.decompressobj(31)
        while not member.eof and at < len(body) and size < limit:
            piece = body[at : at + _AT_ONCE]
            parts.append(member.decompress(piece, limit - size))
            size += len(parts[-1])
            at += len(piece) - len(member.unused_data)
    return b"".join(parts)


def _inflate(body: bytes, limit: int) -> bytes:
    """zlib as the standard says, or raw deflate as some servers send."""
    try:
        return isal_zlib.decompressobj(15).decompress(body, limit)
    except isal_zlib.error:
        return isal_zlib.decompressobj(-15).decompress(body, limit)


def _unbrotli(body: bytes, limit: int) -> bytes:
    decompressor = brotli.Decompressor()
    parts = [decompressor.process(body, output_buffer_limit=limit)]
    size = len(parts[0])
    while not decompressor.is_finished() and not decompressor.can_accept_more_data() and size < limit:
        parts.append(decompressor.process(b"", output_buffer_limit=limit - size))
        size += len(parts[-1])
    return b"".join(parts)


def _unzstd(body: bytes, limit: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(
        BytesIO(body), read_across_frames=True
    )
    parts: list[bytes] = []
    size = 0
    while size < limit and (part := reader.read(min(1 << 20, limit - size))):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


_UNPACKERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}


def find_charset(content_type: str, body: bytes) -> str:
    """The name of a codec that Python knows."""
    if body[:1] in _MARKED:
        for mark, name in _MARKS:
            if body.startswith(mark):
                return name
    if declared := _declared(content_type[:_TYPE_CHARS]):
        return declared
    meta = _META.search(body, 0, _HEAD)
    if meta and (codec := _codec(meta[1].decode("ascii"))):
        return "utf-8" if codec.startswith(("utf-16", "utf-32")) else codec  # the bytes were read as ASCII just now
    return "utf-8" if _is_utf8(body) else "windows-1252"


def shows_markup(charset: str) -> bool:
    """Does each character of markup stand in the bytes as itself, next to those that it is next to?"""
    return not charset.startswith(_OPAQUE)


def decode_text(body: bytes, charset: str) -> str:
    """Text, whatever the bytes: what cannot be decoded becomes U+FFFD."""
    return body.decode(charset, "replace").removeprefix("\ufeff")


@lru_cache(maxsize=1000)
def _declared(content_type: str) -> str | None:
    match = _PARAMETER.search(content_type)
    return _codec(match[1]) if match else None


@lru_cache(maxsize=1000)
def _codec(name: str) -> str | None:
    plain = name.strip().lower()
    try:
        codec = codecs.lookup(_ALIASES.get(plain, plain))
        "".encode(codec.name)  # refused for codecs that are not between bytes and text
    except (LookupError, UnicodeError):
        return None
    if not codec.name.startswith(("utf-16", "utf-32")) and not _is_like_ascii(codec.name):
        return None
    return None if codec.name in _UNFIT else _MEANT.get(codec.name, codec.name)


def _is_like_ascii(codec: str) -> bool:
    """Markup must look like markup in the bytes: no browser knows those of mainframes."""
    try:
        return _MARKUP.encode(codec) == _MARKUP.encode()
    except UnicodeError:
        return False


def _is_utf8(body: bytes) -> bool:
    """Piece by piece: the text of a large body is not needed as a whole. A character may be cut off at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _PIECE):
            decoder.decode(body[start : start + _PIECE])
    except UnicodeDecodeError:
        return False
    return True
