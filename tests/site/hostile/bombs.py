"""Bombs: ten gigabytes of zeros in a few kilobytes, in every content encoding and in several at once.

Nobody packs ten gigabytes for that. A piece that stands for a megabyte or more is packed once so that it depends on
nothing before it, and is repeated. Checksums at the end are left out: who comes as far as that has lost already.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import brotli
import zstandard

from tests.site.hostile.case import Act, Case, Visit, answers

SIZE = 10_000_000_000
_MEGABYTE = bytes(1_000_000)
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK = 128 << 10
_RAW = -15


def deflated(size: int = SIZE) -> bytes:
    """Raw deflate, without the end: 1,030 to 1, the most that it can do."""
    packer = zlib.compressobj(9, zlib.DEFLATED, _RAW)
    piece = packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    return piece * (size // len(_MEGABYTE))


@cache
def gzipped(size: int = SIZE) -> bytes:
    """One member."""
    return _GZIP_HEAD + deflated(size)


def gzip_members(size: int = SIZE) -> bytes:
    """Members of nine megabytes, all of them correct: the first is under most caps."""
    part = _MEGABYTE * 9
    return gzip.compress(part, mtime=0) * (size // len(part))


def zlibbed(size: int = SIZE) -> bytes:
    """What the standard means by deflate."""
    return b"\x78\xda" + deflated(size)


def brotlied(size: int = SIZE) -> bytes:
    """After the first piece all others are alike: a copy of what stands before."""
    packer = cast("Any", brotli).Compressor(quality=5)
    first, second, third = (packer.process(_MEGABYTE) + packer.flush() for _ in range(3))
    return first + second + third * (size // len(_MEGABYTE) - 2)


def zstandarded(size: int = SIZE, window_log: int = 23) -> bytes:
    """One frame of blocks that say `128 KiB of this byte`; it asks for a window of 2 ^ `window_log` bytes."""
    head = _ZSTD_MAGIC + bytes([0x00, (window_log - 10) << 3])
    block = (_ZSTD_BLOCK << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return head + block * (size // _ZSTD_BLOCK)


def zstandard_frames(size: int = SIZE) -> bytes:
    """A frame for each megabyte, all of them correct."""
    return zstandard.ZstdCompressor().compress(_MEGABYTE) * (size // len(_MEGABYTE))


def twice_gzipped() -> bytes:
    """The inner one is under most caps on the wire; the outer one makes it small there as well."""
    return gzip.compress(gzipped(), mtime=0)


def _brotli_in_gzip() -> bytes:
    return gzip.compress(brotlied(), mtime=0)


def _gzip_in_zstd() -> bytes:
    return zstandard.ZstdCompressor().compress(gzipped())


def _gzip_in_brotli_in_zstd() -> bytes:
    return zstandard.ZstdCompressor().compress(cast("Any", brotli).compress(gzipped(), quality=5))


def _sends(make: Callable[[], bytes], encoding: str) -> Act:
    """Made when it is first asked for."""
    made = cache(make)

    async def act(visit: Visit) -> None:
        await answers(made(), f"Content-Encoding: {encoding}")(visit)

    return act


def _bomb(name: str, make: Callable[[], bytes], encoding: str) -> Case:
    return Case(f"bomb-{name}", _sends(make, encoding), ("too_large",))


CASES = (
    _bomb("gzip", gzipped, "gzip"),
    _bomb("gzip-members", gzip_members, "gzip"),
    _bomb("deflate", zlibbed, "deflate"),
    _bomb("deflate-raw", deflated, "deflate"),
    _bomb("brotli", brotlied, "br"),
    _bomb("zstd", zstandarded, "zstd"),
    _bomb("zstd-frames", zstandard_frames, "zstd"),
    _bomb("gzip-in-gzip", twice_gzipped, "gzip, gzip"),
    _bomb("brotli-in-gzip", _brotli_in_gzip, "br, gzip"),
    _bomb("gzip-in-zstd", _gzip_in_zstd, "gzip, zstd"),
    _bomb("gzip-in-brotli-in-zstd", _gzip_in_brotli_in_zstd, "gzip, br, zstd"),
    Case("bomb-gzip-crumbs", _sends(lambda: gzip.compress(b"", mtime=0) * 100_000, "gzip"), ("bad_encoding",)),
    Case(
        "bomb-zstd-window",
        _sends(lambda: zstandarded(window_log=27), "zstd"),
        ("too_large", "bad_encoding"),  # a window of 128 MiB is more than the web allows (RFC 9659)
    ),
)
