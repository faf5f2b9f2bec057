"""Hosts without end or haste: bodies and headers that never stop, bytes that come one at a time, silence."""

from __future__ import annotations

from tests.site.hostile.case import OK, PAGE, Act, Case, Visit, answers, says

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CUT = ("timeout_total", "timeout_body")
UNREACHABLE = ("robots_unreachable",)
SILENT = ("timeout_total", "timeout_first_byte")
FINE = answers(b"<!doctype html><title>Fine</title><h1>Fine</h1>")
_PART = b"<p>And on it goes.</p>\n" * 1_000


def pours(start: bytes, part: bytes) -> Act:
    """All at once, without end."""

    async def act(visit: Visit) -> None:
        await visit.send(start)
        await visit.pour(part)

    return act


def drips(start: bytes, part: bytes) -> Act:
    """A little every second, without end."""

    async def act(visit: Visit) -> None:
        await visit.send(start)
        await visit.drip(part)

    return act


def falls_silent(start: bytes = b"") -> Act:
    """A beginning, and nothing more."""

    async def act(visit: Visit) -> None:
        await visit.send(start)
        await visit.hang()

    return act


CASES = (
    Case("endless-body", pours(OK + b"\r\n", _PART), ("too_large",)),
    Case("endless-chunks", pours(CHUNKED, b"%x\r\n%b\r\n" % (len(_PART), _PART)), ("too_large",)),
    Case("endless-headers", pours(OK, b"X-More: and more\r\n" * 100), ("bad_http",)),
    Case("endless-header", pours(OK + b"X-More: ", b"and more " * 1_000), ("bad_http",)),
    Case("endless-trailers", pours(CHUNKED + b"0\r\n", b"X-More: and more\r\n" * 100), ("bad_http", "connection_lost")),
    Case("endless-interim", pours(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), ("bad_http", "timeout_total")),
    Case("slow-headers", drips(OK, b"X-Slow: y\r\n"), ("timeout_total",)),
    Case("slow-status", drips(b"HTTP/1.1 200 O", b"K"), ("timeout_total",)),
    Case("slow-body", drips(OK + b"Content-Length: 100000\r\n\r\n", b"x"), ("timeout_total",)),
    Case("slow-chunks", drips(CHUNKED, b"1\r\nx\r\n"), ("timeout_total",)),
    Case("silent", falls_silent(), SILENT),
    Case("silent-headers", falls_silent(OK), SILENT),
    Case("silent-body", falls_silent(OK + b"Content-Length: 10\r\n\r\nhel"), CUT),
    Case("hangs-up", says(), ("connection_lost",)),
)

ROBOTS_CASES = (
    Case("robots-silent", FINE, UNREACHABLE, robots=falls_silent()),
    Case("robots-slow", FINE, UNREACHABLE, robots=drips(OK + b"Content-Length: 100000\r\n\r\n", b"#")),
    Case("robots-endless", FINE, (PAGE,), robots=pours(OK + b"\r\n", b"# and more\n" * 1_000)),
    Case("robots-binary", FINE, (PAGE,), robots=answers(bytes(range(256)) * 100, content_type="text/plain")),
)
"""The pages are there and good; robots.txt is not. For these, and no others, it is asked for."""
