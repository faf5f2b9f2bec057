"""The HTTP client on real loopback sockets: deadlines, caps, bytes as they came, and a reason for every failure."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import struct
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

import pytest
import uvloop

from shoal.core.url import Url, parse
from shoal.errors import FetchError
from shoal.fetch.http import HttpClient
from shoal.fetch.line import MAX_HEAD_BYTES, MAX_HEADERS, MAX_INTERIM
from shoal.fetch.port import FetchLimits, Response
from tests.guards import guard_of_loopback
from tests.site.generated import StatusSite
from tests.site.reply import Reply
from tests.site.server import serve

T = TypeVar("T")
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

MOMENT = timedelta(milliseconds=200)
LONG = timedelta(seconds=20)
PATIENT = FetchLimits(connect=LONG, first_byte=LONG, total=LONG, max_body=1000)
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def run(main: Awaitable[T]) -> T:
    """On the event loop that workers use."""

    async def outer() -> T:
        return await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(outer())


@dataclass
class Peer:
    """A server that follows a script, and the requests that it got."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0

    def url(self, target: str = "/") -> Url:
        return parse(f"http://127.0.0.1:{self.port}{target}")


@asynccontextmanager
async def scripted(script: Script) -> AsyncGenerator[Peer]:
    peer = Peer()
    open_now: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                peer.requests.append(await reader.readuntil(b"\r\n\r\n"))
                await script(reader, writer)
                await writer.drain()
        writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(answer(reader, writer))
        open_now.add(task)
        task.add_done_callback(open_now.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for task in tuple(open_now):
            task.cancel()
        await asyncio.gather(*open_now)


def says(*parts: bytes, close: bool = False, reset: bool = False) -> Script:
    """Writes the parts; then hangs up, resets, or waits for the next request."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        if close or reset:
            raise ConnectionError

    return script


def trickles(start: bytes, drop: bytes) -> Script:
    """Writes a little every few milliseconds for as long as the client stays."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        gone = asyncio.ensure_future(reader.read(1))
        while not (await asyncio.wait([gone], timeout=0.01))[0]:
            writer.write(drop)
        raise ConnectionError

    return script


def fetch(
    script: Script, limits: FetchLimits = PATIENT, target: str = "/", headers: Mapping[str, str] | None = None
) -> tuple[Response, Peer]:
    async def main() -> tuple[Response, Peer]:
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(scripted(script))
            client = HttpClient("Shoal-Test/1.0", guard_of_loopback())
            stack.push_async_callback(client.close)
            return await client.fetch(peer.url(target), headers or {}, limits), peer

    return run(main())


def failure(script: Script, limits: FetchLimits = PATIENT) -> FetchError:
    """The error, which must come long before the deadlines that are not under test."""
    started = time.monotonic()
    with pytest.raises(FetchError) as caught:
        fetch(script, limits)
    assert time.monotonic() - started < LONG.total_seconds() / 2
    return caught.value


def fetch_url(url: str, limits: FetchLimits = PATIENT) -> Response:
    async def main() -> Response:
        client = HttpClient("Shoal-Test/1.0", guard_of_loopback())
        try:
            return await client.fetch(parse(url), {}, limits)
        finally:
            await client.close()

    return run(main())


# What comes back


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (HEAD + b"\r\nhello", b"hello"),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
        (CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: x\r\n\r\n", b"hello"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    ],
)
def test_a_body_ends_where_its_framing_says(wire: bytes, body: bytes) -> None:
    response, _ = fetch(says(wire, close=True))
    assert (response.status, response.http_reason, response.wire_body) == (200, "OK", body)


def test_an_interim_answer_lends_its_body_to_nobody() -> None:
    interim = b"HTTP/1.1 110 Busy\r\nContent-Length: 5\r\n\r\nwrong"
    response, _ = fetch(says(interim + HEAD + b"Content-Length: 5\r\n\r\nhello"))
    assert response.wire_body == b"hello"


def test_trailers_are_not_taken_for_headers() -> None:
    response, _ = fetch(says(CHUNKED + b"5\r\nhello\r\n0\r\nContent-Encoding: gzip\r\nLocation: /evil\r\n\r\n"))
    assert response.headers == ((b"Transfer-Encoding", b"chunked"),)


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"zstd", b"deflate", b"nonsense"])
def test_the_body_is_kept_as_it_came_on_the_wire(encoding: bytes) -> None:
    packed = gzip.compress(b"hello")
    length = b"Content-Length: %d\r\n\r\n" % len(packed)
    response, _ = fetch(says(HEAD + b"Content-Encoding: " + encoding + b"\r\n" + length + packed))
    assert response.wire_body == packed
    assert response.header("content-encoding") == encoding.decode()


def test_headers_are_kept_in_order_with_their_case_doubles_and_bytes() -> None:
    lines = b"X-b: 1\r\nx-A: 2\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nLocation: /\xe6\x9c\xac/\xe9\r\nEmpty:\r\n"
    response, _ = fetch(says(HEAD + lines + b"Content-Length: 0\r\n\r\n"))
    assert response.headers == (
        (b"X-b", b"1"),
        (b"x-A", b"2"),
        (b"Set-Cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"Location", b"/\xe6\x9c\xac/\xe9"),
        (b"Empty", b""),
        (b"Content-Length", b"0"),
    )


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        (b"HTTP/1.1 302 Found", 302, "Found"),
        (b"HTTP/1.1 404 Not Found", 404, "Not Found"),
        (b"HTTP/1.1 503 Later, please", 503, "Later, please"),
        (b"HTTP/1.1 200", 200, ""),
        (b"HTTP/1.1 999 Denied", 999, "Denied"),
    ],
)
def test_every_status_is_an_answer_and_nothing_is_followed(line: bytes, status: int, reason: str) -> None:
    response, peer = fetch(says(line + b"\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"))
    assert (response.status, response.http_reason) == (status, reason)
    assert len(peer.requests) == 1


def test_elapsed_is_the_time_to_the_last_byte() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 5\r\n\r\nhel")
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        writer.write(b"lo")

    started = time.perf_counter()
    response, _ = fetch(script)
    assert timedelta(seconds=0.09) <= response.elapsed <= timedelta(seconds=time.perf_counter() - started)


# What is sent


def test_the_request_says_who_asks_and_what_can_be_read() -> None:
    _, peer = fetch(says(HEAD + b"Content-Length: 0\r\n\r\n"), headers={"X-Token": "t", "Accept": "text/plain"})
    first, *lines = peer.requests[0].decode().split("\r\n")
    sent = dict(line.split(": ", 1) for line in lines if line)
    assert first == "GET / HTTP/1.1"
    assert sent == {
        "Host": f"127.0.0.1:{peer.port}",
        "User-Agent": "Shoal-Test/1.0",
        "Accept": "text/plain",
        "Accept-Encoding": "gzip, deflate, br, zstd",
        "X-Token": "t",
    }


@pytest.mark.parametrize(
    "target", ["/a%2Fb?c=%2B+d&e=%26", "/%zz%", "/a//b/?", "/?q={x}|y^z`'", "/%E3%81?%C3%A9", "/a;b=c:d@e!$*()"]
)
def test_the_target_goes_out_exactly_as_it_was_fingerprinted(target: str) -> None:
    _, peer = fetch(says(HEAD + b"Content-Length: 0\r\n\r\n"), target=target)
    canonical = peer.url(target).target
    assert peer.requests[0].startswith(f"GET {canonical} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("header", [{"content-Length": "5"}, {"Transfer-Encoding": "chunked"}])
def test_a_request_says_nothing_of_a_body_that_it_does_not_have(header: dict[str, str]) -> None:
    _, peer = fetch(says(HEAD + b"Content-Length: 0\r\n\r\n"), headers={**header, "X-Token": "t"})
    assert b"X-Token: t\r\n" in peer.requests[0]
    assert next(iter(header)).encode() not in peer.requests[0]


def test_cookies_are_not_sent_back() -> None:
    async def main() -> Peer:
        async with scripted(says(HEAD + b"Set-Cookie: a=1; Path=/\r\nContent-Length: 0\r\n\r\n")) as peer:
            client = HttpClient("x", guard_of_loopback())
            for _ in range(2):
                # By name: for bare addresses a cookie jar would keep nothing anyway.
                await client.fetch(parse(f"http://localhost:{peer.port}/"), {}, PATIENT)
            await client.close()
            return peer

    peer = run(main())
    assert (len(peer.requests), peer.connections) == (2, 1)
    assert b"cookie" not in peer.requests[1].lower()


def test_connections_are_kept_and_all_closed_at_the_end() -> None:
    site = StatusSite({"/": [Reply(200, body=b"hello")]})
    with serve(site) as server:

        async def main() -> list[bytes]:
            client = HttpClient("x", guard_of_loopback())
            bodies = [(await client.fetch(parse(server.url), {}, PATIENT)).wire_body for _ in range(3)]
            await client.close()
            return bodies

        assert run(main()) == [b"hello"] * 3
        assert [hit.target for hit in server.hits] == ["/"] * 3


# Deadlines


@contextmanager
def deaf_port() -> Generator[int]:
    """A port that listens with a full queue: the kernel ignores further connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            yield listener.getsockname()[1]
        finally:
            for filler in fillers:
                filler.close()


def test_a_host_that_does_not_take_the_connection_is_given_up_after_the_connect_deadline() -> None:
    with deaf_port() as port, pytest.raises(FetchError) as caught:
        fetch_url(f"http://127.0.0.1:{port}/", FetchLimits(connect=MOMENT, first_byte=LONG, total=LONG))
    assert caught.value.reason == "timeout_connect"


def test_the_total_deadline_holds_while_connecting() -> None:
    with deaf_port() as port, pytest.raises(FetchError) as caught:
        fetch_url(f"http://127.0.0.1:{port}/", FetchLimits(connect=LONG, first_byte=LONG, total=MOMENT))
    assert caught.value.reason == "timeout_total"


SILENT = FetchLimits(connect=LONG, first_byte=MOMENT, total=LONG)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 O", HEAD])
def test_silence_before_the_head_is_complete_is_a_first_byte_timeout(start: bytes) -> None:
    assert failure(says(start), SILENT).reason == "timeout_first_byte"


@pytest.mark.parametrize(
    "start", [HEAD + b"Content-Length: 10\r\n\r\nhel", CHUNKED + b"a\r\nhel", HEAD + b"\r\nhel", CHUNKED]
)
def test_silence_within_a_body_is_a_body_timeout(start: bytes) -> None:
    assert failure(says(start), SILENT).reason == "timeout_body"


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (HEAD, b"X: y\r\n"),
        (HEAD + b"Content-Length: 100000\r\n\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (HEAD + b"\r\n", b"x"),
    ],
    ids=["head", "length", "chunks", "until closed"],
)
def test_a_trickle_does_not_outlast_the_total_deadline(start: bytes, drop: bytes) -> None:
    limits = FetchLimits(connect=LONG, first_byte=LONG, total=MOMENT, max_body=1_000_000)
    assert failure(trickles(start, drop), limits).reason == "timeout_total"


def test_each_fetch_has_deadlines_of_its_own() -> None:
    async def main() -> tuple[str, bytes]:
        async with scripted(says(HEAD + b"Content-Length: 5\r\n\r\nhello")) as quick, scripted(says()) as silent:
            client = HttpClient("x", guard_of_loopback())
            with pytest.raises(FetchError) as caught:
                await client.fetch(silent.url(), {}, SILENT)
            response = await client.fetch(quick.url(), {}, PATIENT)
            await client.close()
            return caught.value.reason, response.wire_body

    assert run(main()) == ("timeout_first_byte", b"hello")


# Size


def endless(start: bytes, part: bytes) -> tuple[Script, list[int]]:
    """Writes without end, and counts what it could get rid of."""
    written = [0]

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(part)
            await writer.drain()
            written[0] += len(part)

    return script, written


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (HEAD + b"\r\n", b"x" * 10_000),
        (CHUNKED, b"2710\r\n" + b"x" * 10_000 + b"\r\n"),
        (HEAD + b"Content-Length: 1000000000000\r\n\r\n", b"x" * 10_000),
    ],
    ids=["until closed", "chunks", "length"],
)
def test_a_body_over_the_cap_is_refused_while_it_streams(start: bytes, part: bytes) -> None:
    script, written = endless(start, part)
    error = failure(script, FetchLimits(connect=LONG, first_byte=LONG, total=LONG, max_body=100_000))
    assert error.reason == "too_large"
    assert written[0] < 50_000_000


@pytest.mark.parametrize("start", [HEAD + b"\r\n", HEAD + b"Content-Length: 1000000000000\r\n\r\n"])
def test_the_beginning_of_a_body_over_the_cap_can_be_asked_for(start: bytes) -> None:
    script, written = endless(start, b"x" * 10_000)
    limits = FetchLimits(connect=LONG, first_byte=LONG, total=LONG, max_body=100_001, truncate=True)
    response, _ = fetch(script, limits)
    assert response.wire_body == b"x" * 100_001
    assert written[0] < 50_000_000


@pytest.mark.parametrize("behind", [b"", b"0", HEAD, b"nonsense"])
def test_a_body_over_the_cap_is_refused_though_it_comes_at_once_and_whole(behind: bytes) -> None:
    error = failure(says(CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n" + behind))
    assert (error.reason, error.detail) == ("too_large", "a body of more than 1000 bytes")


def test_a_declared_length_over_the_cap_is_refused_before_the_body_comes() -> None:
    error = failure(says(HEAD + b"Content-Length: 1001\r\n\r\n"))
    assert (error.reason, error.detail) == ("too_large", "a body of 1001 bytes; at most 1000 are taken")


@pytest.mark.parametrize(
    "wire",
    [
        HEAD + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000,
        CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n",
        HEAD + b"\r\n" + b"x" * 1000,
    ],
)
def test_a_body_of_just_the_cap_is_taken(wire: bytes) -> None:
    response, _ = fetch(says(wire, close=True))
    assert response.wire_body == b"x" * 1000


def test_a_packed_body_counts_as_it_is_on_the_wire() -> None:
    packed = gzip.compress(bytes(500_000))
    assert len(packed) < 1000
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    response, _ = fetch(says(head + packed))
    assert response.wire_body == packed


# Failures on the wire


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (says(close=True), "connection_lost"),
        (says(reset=True), "connection_lost"),
        (says(b"HTTP/1.1 200 O", close=True), "connection_lost"),
        (says(HEAD + b"Content-Length: 10\r\n\r\nhel", close=True), "connection_lost"),
        (says(CHUNKED + b"a\r\nhel", close=True), "connection_lost"),
        (says(CHUNKED + b"3\r\nhel\r\n", close=True), "connection_lost"),
        (says(HEAD + b"Content-Length : 10\r\n\r\nhel", close=True), "connection_lost"),
        (says(HEAD + b"Transfer-Encoding : chunked\r\n\r\na\r\nhel", close=True), "connection_lost"),
        (says(b"HTTP/1.1 200 " + b"y" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n"), "bad_http"),
        (says(b"SSH-2.0-OpenSSH_9.6\r\n"), "bad_http"),
        (says(b"<html>\r\n\r\n"), "bad_http"),
        (says(HEAD + b"Content-Length: x\r\n\r\n"), "bad_http"),
        (says(HEAD + b"Content-Length: -1\r\n\r\n"), "bad_http"),
        (says(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nhi"), "bad_http"),
        (says(HEAD + b"No Colon\r\n\r\n"), "bad_http"),
        (says(HEAD + b"X: a\x00b\r\n\r\n"), "bad_http"),
        (says(HEAD + b"X: " + b"y" * 40_000 + b"\r\n\r\n"), "bad_http"),
        (says(CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n"), "bad_http"),
    ],
)
def test_what_goes_wrong_on_the_wire_has_a_reason(script: Script, reason: str) -> None:
    assert failure(script).reason == reason


@pytest.mark.parametrize(
    "start", [HEAD + b"Content-Length: 200000\r\n\r\n", CHUNKED + b"30d40\r\n"], ids=["counted", "chunked"]
)
def test_what_came_of_bodies_that_were_cut_off_is_not_kept_until_somebody_looks_for_cycles(start: bytes) -> None:
    part, times = b"x" * 100_000, 20
    limits = replace(PATIENT, max_body=200_000)

    async def main() -> int:
        async with scripted(says(start + part, close=True)) as peer:
            client = HttpClient("Shoal-Test/1.0", guard_of_loopback())
            try:
                for _ in range(times):
                    with suppress(FetchError):
                        await client.fetch(peer.url(), {}, limits)
                return tracemalloc.get_traced_memory()[0]
            finally:
                await client.close()

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        assert run(main()) < times * len(part) / 4
    finally:
        tracemalloc.stop()
        gc.enable()


def headers(count: int, size: int) -> bytes:
    """So many header lines of so many bytes of name and value."""
    return b"".join(b"X-%06d: %s\r\n" % (number, b"y" * (size - 8)) for number in range(count))


@pytest.mark.parametrize(
    "lines",
    [
        headers(1, 1_000_000),
        headers(10_000, 100),
        headers(MAX_HEADERS, 10),
        headers(MAX_HEAD_BYTES // 30_000 + 1, 30_000),
        b"X: y\r\n" + b" folded\r\n" * 10_000,
    ],
    ids=["one of a megabyte", "ten thousand", "one too many", "too much together", "folded"],
)
def test_a_head_over_the_caps_is_refused(lines: bytes) -> None:
    error = failure(says(HEAD + lines + b"Content-Length: 5\r\n\r\nhello"))
    assert error.reason == "bad_http"


def test_interim_answers_are_passed_over_up_to_a_number() -> None:
    interim, answer = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", HEAD + b"Content-Length: 2\r\n\r\nhi"
    assert fetch(says(interim * MAX_INTERIM + answer))[0].wire_body == b"hi"
    error = failure(says(interim * (MAX_INTERIM + 1) + answer))
    assert (error.reason, error.detail) == ("bad_http", "more than 20 interim answers (1xx)")


def test_a_body_of_small_chunks_is_taken_and_one_that_is_nothing_but_chunks_is_not() -> None:
    assert fetch(says(CHUNKED + b"1\r\na\r\n" * 1_000 + b"0\r\n\r\n"))[0].wire_body == b"a" * 1_000
    assert failure(endless(CHUNKED, b"1\r\na\r\n" * 1_000)[0], FetchLimits()).reason == "bad_http"


def test_trailers_count_as_headers() -> None:
    error = failure(says(CHUNKED + b"5\r\nhello\r\n0\r\n" + headers(10_000, 100) + b"\r\n"))
    assert error.reason == "bad_http"


def test_a_head_of_just_the_caps_is_taken() -> None:
    lines = headers(8, 32_000) + headers(MAX_HEADERS - 9, 20)
    response, _ = fetch(says(HEAD + lines + b"Content-Length: 5\r\n\r\nhello"))
    assert len(response.headers) == MAX_HEADERS
    assert sum(len(name) + len(value) for name, value in response.headers) <= MAX_HEAD_BYTES
    assert response.wire_body == b"hello"


@pytest.mark.parametrize("lines", [headers(1, 10_000_000), headers(100_000, 100)], ids=["long", "many"])
def test_a_head_over_the_caps_is_refused_while_it_streams(lines: bytes) -> None:
    script, written = endless(HEAD, lines)
    assert failure(script).reason == "bad_http"
    assert written[0] < 50_000_000


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_closed_port_is_refused(host: str) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        with pytest.raises(FetchError) as caught:
            fetch_url(f"http://{host}:{unheard.getsockname()[1]}/")
    assert caught.value.reason == "connect_refused"


def test_a_port_that_does_not_speak_tls_fails_the_handshake() -> None:
    async def main() -> str:
        def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        client = HttpClient("x", guard_of_loopback())
        with pytest.raises(FetchError) as caught:
            await client.fetch(parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"), {}, PATIENT)
        await client.close()
        server.close()
        return caught.value.reason

    assert run(main()) == "tls_failed"


@pytest.mark.parametrize("host", ["a" * 64 + ".invalid", "a..invalid"])
def test_a_name_that_dns_cannot_hold_is_an_unknown_host(host: str) -> None:
    with pytest.raises(FetchError) as caught:
        fetch_url(f"http://{host}/")
    assert caught.value.reason == "dns_not_found"


def test_a_failure_keeps_its_cause() -> None:
    error = failure(says(close=True))
    assert isinstance(error.__cause__, EOFError)
    assert error.detail == "the server has hung up"
