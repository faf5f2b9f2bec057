"""Answers of servers that break the rules of HTTP, or just keep them: strategies that make them for hypothesis."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import brotli
import zstandard
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st


class Ending(StrEnum):
    """What a server does when it has said everything."""

    CLOSES = "closes"
    RESETS = "resets"
    STAYS = "stays"
    """And takes the next request on the same connection."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The bytes of an answer, in the pieces in which they are sent."""

    pieces: tuple[bytes, ...]
    ending: Ending
    late: bytes = b""
    """Comes when the client may believe that the answer is complete."""

    @property
    def wire(self) -> bytes:
        return b"".join(self.pieces)


def answers_of_seed(number: int, count: int) -> list[RawAnswer]:
    """The same ones each time, for tests that cannot make them one by one."""
    found: list[RawAnswer] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(raw_answers())
    def collect(answer: RawAnswer) -> None:
        found.append(answer)

    collect()
    return found


# --- heads ----------------------------------------------------------------------------------------------------------


Bytes = st.SearchStrategy[bytes]


def one_of(*values: bytes) -> Bytes:
    return st.sampled_from(values)


def mostly(usual: Bytes, odd: Bytes, one_in: int = 10) -> Bytes:
    """The odd one once in a while, and never when a case is made simpler."""
    return st.integers(0, one_in - 1).flatmap(lambda number: odd if number == one_in // 2 else usual)


def header(name: bytes, values: Bytes) -> Bytes:
    return values.map(lambda value: name + b": " + value)


junk = st.binary(max_size=30)
versions = mostly(
    one_of(b"HTTP/1.1", b"HTTP/1.0"),
    one_of(b"HTTP/0.9", b"HTTP/2", b"HTTP/3.0", b"http/1.1", b"HTTP/1.10", b"HTTP/", b"ICY"),
)
usual_statuses = one_of(
    *(b"200", b"100", b"101", b"102", b"103", b"199", b"201", b"204", b"205", b"206", b"299", b"301", b"302", b"304"),
    *(b"400", b"401", b"404", b"407", b"408", b"418", b"429", b"451", b"500", b"501", b"503", b"505", b"600", b"999"),
)
odd_statuses = one_of(
    *(b"", b"0", b"20", b"2000", b"-200", b"2OO", b"200.5", b"+20", b"\xb2\xb2\xb2", b"000", b"99999999999999999999"),
)
statuses = mostly(usual_statuses, odd_statuses)
reasons = one_of(b"OK", b"", b"Not \xff\xfe here", b"a" * 300, b"tab\there", b"nul\0", b"\x1b[31m") | junk
odd_status_lines = one_of(
    *(b"", b"HTTP/1.1", b"HTTP/1.1200 OK", b" HTTP/1.1 200 OK", b"\0", b"200 OK"),
    *(b"SSH-2.0-x", b"220 ftp", b"GET / HTTP/1.1"),
)
regular_status_lines = st.builds(lambda *words: b" ".join(words), versions, statuses, reasons)
status_lines = mostly(mostly(one_of(b"HTTP/1.1 200 OK"), regular_status_lines, 3), odd_status_lines | junk)

lengths = one_of(
    *(b"0", b"1", b"5", b"00005", b"-1", b"+5", b"0x5", b"5, 5", b"5,6", b"1e3", b"", b" "),
    *(b"9" * 30, b"18446744073709551616"),
)
transfer_encodings = one_of(
    *(b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity"),
    *(b"xchunked", b"\x0bchunked"),
)
content_encodings = one_of(
    *(b"gzip", b"x-gzip", b"deflate", b"br", b"zstd", b"identity", b"compress", b"\xff"),
    *(b"gzip, br", b"gzip, gzip, gzip, gzip"),
)
media_types = one_of(
    *(b"text/html", b"text/html; charset=utf-8", b"text/html; charset=nonsense", b"text/html; charset=utf-16"),
    *(b"text/html;charset=utf-7", b"text/html; charset=idna", b"text/html; charset=\xff", b"application/xml"),
    *(b"text/html; charset=rot13", b"text/html; charset=unicode_escape", b"text/html; charset=utf-32-be"),
    *(b";;;", b"", b"image/png"),
)
locations = one_of(
    *(b"/", b"/next", b"", b"//", b"http://", b"http://[::1", b"http://a b/", b"javascript:alert(1)", b"\xff\xfe"),
    *(b"?", b"/" + b"a" * 5000, b"file:///etc/passwd", b"http://127.0.0.1:99999/", b"http:///x", b"http://user@/"),
    b"\\\\127.0.0.1:1\\x",
)
dates = one_of(
    *(b"5", b"-5", b"9" * 40, b"Wed, 21 Oct 2037 07:28:00 GMT", b"Wed, 99 Oct 2037", b"soon", b"", b"\xff", b"1e9"),
)
regular_lines = st.one_of(
    header(b"Content-Length", lengths),
    header(b"Transfer-Encoding", transfer_encodings),
    header(b"Content-Encoding", content_encodings),
    header(b"Content-Type", media_types),
    header(b"Location", locations),
    header(b"Retry-After", dates),
    header(b"Date", dates),
    header(b"Connection", one_of(b"close", b"keep-alive", b"upgrade", b"close, keep-alive", b"\0")),
    header(b"Upgrade", one_of(b"websocket", b"h2c", b"TLS/1.3", b"")),
    header(b"Set-Cookie", one_of(b"a=1", b"=", b";;", b"a=" + b"x" * 5000, b"a=\xff; expires=never")),
    header(b"X-Robots-Tag", one_of(b"noindex", b"none, nofollow", b"unavailable_after: 1", b"\xff:")),
    header(b"Content-Range", one_of(b"bytes 0-1/2", b"bytes */0", b"x")),
)
odd_lines = one_of(
    *(b"no colon", b": no name", b"a b: c", b" folded", b"\tfolded", b"X:\0", b"X: a\rb", b"X: a\nb", b"\xff: \xff"),
    *(b"X :y", b"X: " + b"y" * 40_000, b"x" * 40_000 + b": y", b"X" + b":" * 100),
)
header_lines = mostly(regular_lines, odd_lines | junk)
line_ends = mostly(one_of(b"\r\n"), one_of(b"\n", b"\r", b"\n\r", b"\r\r\n", b"\0"))


# --- bodies ---------------------------------------------------------------------------------------------------------

fragments = one_of(
    *(b"<h1>Title</h1>", b"<a href=/x>x</a>", b"<a href='http://[::1/'>x</a>", b"<a href=//\\\\127.0.0.1:1>"),
    *(b"<base href='::'>", b"<meta charset=utf-16>", b"<meta charset=nonsense>", b"<meta name=robots content=none>"),
    *(b"<link rel=canonical href=%>", b"<p class=price>\xff\xfe</p>", b"&#0;&#xd800;&#x110000;&bogus;", b"<!--"),
    *(b"<![CDATA[", b"</", b"<svg><a href=/y>", b"<a href='/\xed\xa0\x80'>", b"<a href='/\0'>", b"<h1>" * 50),
    *(b"\xef\xbb\xbf", b"\xff\xfe<\0h\0", b"\x1f\x8b", b"\0" * 20),
)
documents = st.lists(fragments | junk, max_size=8).map(b"".join)


def as_chunks(body: bytes, size: int, extension: bytes, trailer: bytes) -> bytes:
    """A body in chunks, as the rules want them, but for what extension and trailer say."""
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)
    return chunks + b"0\r\n" + trailer + b"\r\n"


extensions = mostly(one_of(b""), one_of(b";a=b", b";", b" ", b";" + b"x" * 20_000, b"\t;\xff", b"\r", b"g"))
odd_trailers = one_of(b"X: y\r\n", b"Content-Length: 3\r\n", b"no colon\r\n", b"X: y\r\n" * 300, b"\0\r\n")
trailers = mostly(one_of(b""), odd_trailers)
odd_chunks = one_of(
    *(b"-1\r\nx\r\n", b"zz\r\n", b"fffffffffffffffff\r\n", b"5\r\nab\r\n0\r\n\r\n", b"0x5\r\nhello\r\n"),
    *(b"5\nhello\n0\n\n", b"\r\n"),
)

_PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": lambda body: gzip.compress(body) + gzip.compress(body),
    b"deflate": zlib.compress,
    b" deflate": lambda body: zlib.compress(body)[2:-4],
    b"br": brotli.compress,
    b"zstd": zstandard.ZstdCompressor().compress,
    b"gzip, br": lambda body: brotli.compress(gzip.compress(body)),
}


# --- answers --------------------------------------------------------------------------------------------------------


@st.composite
def framed_bodies(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Header lines about a body, and the body; mostly they agree with each other."""
    lines, body = [b"Content-Type: " + draw(media_types)], draw(documents)
    if draw(st.integers(0, 3)) == 0:
        packer = draw(st.sampled_from(sorted(_PACKERS)))
        lines.append(b"Content-Encoding: " + packer)
        body = damaged(draw, _PACKERS[packer](body)) if draw(st.booleans()) else _PACKERS[packer](body)
    framing = draw(st.integers(0, 7))
    if framing in (0, 1, 7):
        lines.append(b"Content-Length: %d" % len(body))
    elif framing <= 3:
        lines.append(b"Transfer-Encoding: chunked")
        body = as_chunks(body, draw(st.integers(1, 100)), draw(extensions), draw(trailers))
    elif framing == 4:
        lines.append(b"Content-Length: %d" % max(0, len(body) + draw(st.integers(-20, 20))))
    elif framing == 5:
        lines.append(b"Transfer-Encoding: chunked")
        body = draw(odd_chunks)
    return lines, body


def damaged(draw: st.DrawFn, wire: bytes) -> bytes:
    """Cut, changed, doubled or filled up at some place."""
    at = draw(st.integers(0, len(wire)))
    length = draw(st.integers(0, 20))
    fault = draw(st.integers(0, 4))
    if fault == 0:
        return wire[:at]
    if fault == 1:
        return wire[:at] + wire[at + length :]
    if fault == 2:
        return wire[:at] + draw(junk) + wire[at:]
    if fault == 3:
        return wire[: at + length] + wire[at:]
    return wire[:at] + draw(st.binary(min_size=length, max_size=length)) + wire[at + length :]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A head and a body."""
    about, body = draw(framed_bodies())
    lines = draw(st.permutations([*about, *draw(st.just([]) | st.lists(header_lines, max_size=3))]))
    end = draw(line_ends)
    return draw(status_lines) + end + b"".join(line + end for line in lines) + end + body


SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
"""An answer that nobody has asked for."""
tails = one_of(b"", b"\r\n", b"\0", SECOND, b"HTTP/1.1 100 Continue\r\n\r\n", b"x" * 5000)


@st.composite
def raw_answers(draw: st.DrawFn) -> RawAnswer:
    """What a hostile or broken server may send."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        wire = draw(st.binary(max_size=200))
    elif kind == 1:
        wire = b"".join(draw(st.lists(messages(), min_size=2, max_size=3)))
    else:
        wire = draw(messages())
    if draw(st.integers(0, 3)) == 0:
        wire = damaged(draw, wire)
    wire += draw(mostly(one_of(b""), one_of(SECOND)))
    ending = draw(st.sampled_from([Ending.CLOSES, Ending.CLOSES, Ending.STAYS, Ending.RESETS, Ending.STAYS]))
    late = draw(tails) if ending is Ending.STAYS else b""
    return RawAnswer(_cut(wire, draw(st.lists(st.integers(0, len(wire)), max_size=3))), ending, late)


def _cut(wire: bytes, places: Sequence[int]) -> tuple[bytes, ...]:
    ordered = [0, *sorted(places), len(wire)]
    return tuple(wire[start:end] for start, end in pairwise(ordered) if start < end)
