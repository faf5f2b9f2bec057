"""Answers that are not HTTP, or that lie about their length."""

from __future__ import annotations

from tests.site.hostile.case import OK, PAGE, Act, Case, Visit, answers, says

LOST = ("connection_lost",)
BAD = ("bad_http",)
_TYPE = b"Content-Type: text/html; charset=utf-8\r\n"
_HELLO = b"<h1>Hello</h1>"
_CHUNKED = OK + _TYPE + b"Transfer-Encoding: chunked\r\n\r\n"
_WHOLE = b"e\r\n<h1>Hello</h1>\r\n0\r\n\r\n"


def _length(*values: bytes) -> Act:
    lines = b"".join(b"Content-Length: %b\r\n" % value for value in values)
    return says(OK + _TYPE + lines + b"\r\n" + _HELLO)


def _status(line: bytes) -> Act:
    return says(line + b"\r\n" + _TYPE + b"Content-Length: 14\r\n\r\n" + _HELLO)


def _header(*lines: bytes) -> Act:
    return says(OK + _TYPE + b"Content-Length: 14\r\n", *(line + b"\r\n" for line in lines), b"\r\n" + _HELLO)


def _chunks(body: bytes) -> Act:
    return says(_CHUNKED + body)


def _pours(start: bytes, part: bytes) -> Act:
    """Without end, many at a time."""
    many = part * (200_000 // len(part))

    async def act(visit: Visit) -> None:
        await visit.send(start)
        await visit.pour(many)

    return act


LENGTHS = (
    Case("length-too-long", _length(b"1000"), LOST),
    Case("length-too-short", _length(b"4"), (*BAD, PAGE)),
    Case("length-negative", _length(b"-14"), BAD),
    Case("length-no-number", _length(b"fourteen"), BAD),
    Case("length-signed", _length(b"+14"), BAD),
    Case("length-huge", _length(b"9" * 18), ("too_large",)),
    Case("length-beyond-64-bits", _length(b"9" * 30), (*BAD, "too_large")),
    Case("lengths-differ", _length(b"14", b"4"), BAD),
    Case("lengths-agree", _length(b"14", b"14"), (*BAD, PAGE)),
    Case("lengths-in-one-line", _length(b"14, 4"), BAD),
    Case("length-and-chunks", says(OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + _WHOLE), BAD),
)

STATUS_LINES = (
    Case("status-no-number", _status(b"HTTP/1.1 okay OK"), BAD),
    Case("status-too-long", _status(b"HTTP/1.1 20000 OK"), BAD),
    Case("status-negative", _status(b"HTTP/1.1 -200 OK"), BAD),
    Case("status-zero", _status(b"HTTP/1.1 000 Nothing"), (*BAD, "http_0")),
    Case("status-unheard-of", _status(b"HTTP/1.1 999 Denied"), (*BAD, "http_999")),
    Case("status-without-words", _status(b"HTTP/1.1 200"), (PAGE,)),
    Case("status-endless-words", _status(b"HTTP/1.1 200 " + b"OK" * 500_000), BAD),
    Case("status-bytes", _status(b"HTTP/1.1 200 \xff\xfe\x80"), (*BAD, PAGE)),
    Case("version-unheard-of", _status(b"HTTP/9.9 200 OK"), BAD),
    Case("protocol-misspelt", _status(b"HTP/1.1 200 OK"), BAD),
    Case("protocol-shoutcast", _status(b"ICY 200 OK"), BAD),
    Case("protocol-ssh", says(b"SSH-2.0-OpenSSH_9.6\r\n"), BAD),
    Case("protocol-none", says(b"<html><h1>Hello</h1></html>"), BAD),
    Case("protocol-nulls", says(bytes(4096)), BAD),
    Case(
        "switches-protocol", says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), (*BAD, *LOST, "http_101")
    ),
    Case("answers-early", says(OK + b"Content-Length: 14\r\n\r\n" + _HELLO), (*LOST, *BAD, PAGE), early=True),
)

HEADERS = (
    Case("header-of-a-megabyte", _header(b"X-Long: " + b"y" * 1_000_000), BAD),
    Case("header-name-of-a-megabyte", _header(b"X" * 1_000_000 + b": y"), BAD),
    Case("headers-10000", _header(*(b"X-%d: y" % number for number in range(10_000))), BAD),
    Case("cookies-10000", _header(*(b"Set-Cookie: a%d=b" % number for number in range(10_000))), BAD),
    Case("header-without-colon", _header(b"No colon here"), BAD),
    Case("header-without-name", _header(b": nameless"), BAD),
    Case("header-with-null", _header(b"X-Null: a\0b"), BAD),
    Case("header-of-bytes", _header(b"X-Bytes: \xff\xfe\xed\xa0\x80"), (PAGE,)),
    Case("header-folded", _header(b"X-Folded: one\r\n two"), (*BAD, PAGE)),
    Case("header-space-before-colon", _header(b"X-Space : y"), (*BAD, PAGE)),
    Case("type-of-bytes", says(OK + b"Content-Type: \xff\xfe; charset=\xed\xa0\x80\r\n\r\n" + _HELLO), (PAGE,)),
)

CHUNKS = (
    Case("chunk-size-no-number", _chunks(b"zz\r\n<h1>Hello</h1>\r\n0\r\n\r\n"), BAD),
    Case("chunk-size-negative", _chunks(b"-e\r\n<h1>Hello</h1>\r\n0\r\n\r\n"), BAD),
    Case("chunk-size-beyond-64-bits", _chunks(b"f" * 20 + b"\r\n<h1>Hello</h1>"), BAD),
    Case("chunk-size-huge", _chunks(b"7fffffffffffffff\r\n<h1>Hello</h1>"), (*BAD, *LOST)),
    Case("chunk-longer-than-said", _chunks(b"4\r\n<h1>Hello</h1>\r\n0\r\n\r\n"), BAD),
    Case("chunk-cut-short", _chunks(b"100\r\n<h1>Hello</h1>"), LOST),
    Case("chunks-without-end", _chunks(b"e\r\n<h1>Hello</h1>\r\n"), LOST),
    Case("chunk-extension-of-a-megabyte", _chunks(b"e;" + b"x" * 1_000_000 + b"\r\n<h1>Hello</h1>"), (*BAD, *LOST)),
    Case("transfer-unheard-of", says(OK + b"Transfer-Encoding: sideways\r\n\r\n" + _HELLO), (*BAD, PAGE)),
    Case("chunks-then-more", says(_CHUNKED + _WHOLE + b"HTTP/1.1 200 OK\r\n\r\nmore"), (PAGE,)),
)

ENCODINGS = (
    Case("encoding-unheard-of", answers(b"?" * 100, "Content-Encoding: sideways"), ("bad_encoding",)),
    Case("encoding-damaged", answers(b"?" * 100, "Content-Encoding: gzip"), ("bad_encoding",)),
    Case("encoding-of-many", answers(b"?" * 100, "Content-Encoding: " + ", ".join(["gzip"] * 50)), ("bad_encoding",)),
)

FLOODS = (
    Case("floods-interim", _pours(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), BAD),
    Case("floods-hints", _pours(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), BAD),
    Case("floods-not-modified", _pours(b"", b"HTTP/1.1 304 Not Modified\r\n\r\n"), ("http_304", *BAD)),
    Case("floods-answers", _pours(b"", OK + b"Content-Length: 14\r\n\r\n" + _HELLO), (PAGE, *BAD)),
    Case("floods-blank-lines", _pours(b"", b"\r\n"), BAD),
    Case("floods-headers", _pours(OK, b"X-Y: z\r\n"), BAD),
    Case("floods-small-chunks", _pours(_CHUNKED, b"1\r\na\r\n"), BAD),
    Case("floods-chunk-extensions", _pours(_CHUNKED, b"1;" + b"x" * 4_000 + b"\r\na\r\n"), BAD),
    Case("floods-chunk-extension", _pours(_CHUNKED + b"1;", b"x" * 4_000), BAD),
    Case("floods-trailers", _pours(_CHUNKED + b"1\r\na\r\n0\r\n", b"A: b\r\n"), (*BAD, *LOST)),
)

CASES = (*LENGTHS, *STATUS_LINES, *HEADERS, *CHUNKS, *ENCODINGS, *FLOODS)
