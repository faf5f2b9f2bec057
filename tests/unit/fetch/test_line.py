"""Lines to servers that talk too soon, hang up, pour or go on for too long; and lines that we hang up ourselves."""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, cast

import pytest
import uvloop

from shoal.core.url import Url, parse
from shoal.errors import FetchError
from shoal.fetch.budget import SMALL_BODY, Budget
from shoal.fetch.http import HttpClient
from shoal.fetch.line import MAX_FRAMING, Line
from shoal.fetch.lines import Lines
from shoal.fetch.port import FetchLimits
from tests.authority import Authority
from tests.guards import guard_of_loopback

Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Main = Callable[[], Coroutine[Any, Any, None]]

LONG = timedelta(seconds=20)
PATIENT = FetchLimits(connect=LONG, first_byte=LONG, total=LONG)
HEAD = b"HTTP/1.1 200 OK\r\n"
OK = HEAD + b"Content-Length: 2\r\n\r\nok"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
AT_ONCE = 262_144
"""Bytes that a loop reads."""
HELD_S = 0.1
"""That nobody may hold the loop for; on a machine that is busy."""

LOOPS = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])


def run(loop: Callable[[], asyncio.AbstractEventLoop], main: Main) -> None:
    """All that the loop has to complain of is a failure."""
    complaints: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.get_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        runner.run(main())
        gc.collect()
    assert complaints == []


@asynccontextmanager
async def speaking(speak: Speak, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Url]:
    """A server that says what it wants."""
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await speak(reader, writer)
        writer.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(converse(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield parse(f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0.01)  # and they are closed


async def says_and_stays(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *said: bytes) -> None:
    """An answer to each request, and nothing to the next ones."""
    for each in said:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(each)
    await reader.readuntil(b"\r\n\r\n")
    await reader.read()


async def reason_of(fetch: Awaitable[object]) -> str:
    with pytest.raises(FetchError) as caught:
        await fetch
    return caught.value.reason


# --- what comes ---------------------------------------------------------------------------------------------------


@LOOPS
@pytest.mark.parametrize("closes", [True, False])
def test_what_a_server_says_before_it_is_asked_is_its_answer(
    loop: Callable[[], asyncio.AbstractEventLoop], closes: bool
) -> None:
    """Such as: that it is too busy to hear us."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbusy")
        if closes:
            writer.close()
        await reader.read()

    async def main() -> None:
        async with speaking(speak) as url:
            client = HttpClient("x", guard_of_loopback())
            for _ in range(10):
                response = await client.fetch(url, {}, PATIENT)
                assert (response.status, response.wire_body) == (503, b"busy")
            await client.close()

    run(loop, main)


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    is_open = True

    def write(self, data: object) -> None:
        """Nobody reads it."""

    def is_closing(self) -> bool:
        return not self.is_open

    def abort(self) -> None:
        self.is_open = False

    def pause_reading(self) -> None:
        """There is always room."""

    def resume_reading(self) -> None:
        """It was never paused."""


async def pour(start: bytes, unit: bytes, size: int) -> tuple[str, float, int]:
    """What comes of it, the longest time that it holds the loop, and the bytes that are kept of it."""
    loop = asyncio.get_running_loop()
    line, wire, longest = Line(loop, set()), Wire(), 0.0
    line.connection_made(wire)

    async def make_room(_size: int) -> None:
        """All there is."""

    asked = asyncio.create_task(line.ask(b"", FetchLimits(), loop.time() + 60, make_room))
    await asyncio.sleep(0)
    data = start + unit * (size // len(unit))
    tracemalloc.start()
    for at in range(0, len(data), AT_ONCE):
        began = time.process_time()
        line.data_received(data[at : at + AT_ONCE])
        longest = max(longest, time.process_time() - began)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not wire.is_open:
            break
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    line.hang_up()
    try:
        await asked
        return "page", longest, kept
    except (FetchError, EOFError) as exc:
        return getattr(exc, "reason", "cut off"), longest, kept


@pytest.mark.parametrize(
    "start",
    [
        HEAD + b"X: y",
        HEAD + b"X: " + b"y" * 200_000,
        CHUNKED + b"5\r\nhello\r\n0\r\nX: y",
        CHUNKED + b"5\r\nhello\r\n0\r\nX: " + b"y" * 700_000,
        CHUNKED + b"%x\r\n" % SMALL_BODY + bytes(SMALL_BODY) + b"\r\n0\r\nX: " + b"y" * SMALL_BODY,
    ],
    ids=["header", "long header", "trailer", "long trailer", "trailer of a large body"],
)
def test_a_header_in_a_hundred_thousand_lines_does_not_hold_the_loop(start: bytes) -> None:
    reason, longest, _ = asyncio.run(pour(start, b"\r\n x", MAX_FRAMING))
    assert reason == "bad_http"
    assert longest < HELD_S


def test_a_body_in_chunks_of_a_few_bytes_takes_no_more_room_than_others() -> None:
    size = 2_000_000
    reason, _, kept = asyncio.run(pour(CHUNKED, b"5\r\nabcde\r\n", 2 * size))
    assert reason == "cut off"
    assert kept < 2 * size


# --- hanging up ---------------------------------------------------------------------------------------------------


def test_a_line_that_is_lost_before_it_is_asked_has_hung_up() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        known = set[Line]()
        line = Line(loop, known)
        line.connection_made(Wire())
        assert known == {line}
        line.connection_lost(None)
        assert known == set()
        with pytest.raises(EOFError):
            await line.ask(b"", PATIENT, loop.time() + 60, Budget().hold)

    asyncio.run(main())


@LOOPS
@pytest.mark.parametrize(
    "said", [(), (HEAD,), (HEAD + b"\r\nhalf of",), (HEAD + b"Content-Length: 9\r\n\r\nhalf of",), (OK,)], ids=str
)
def test_what_is_under_way_when_a_client_is_closed_is_neither_a_page_nor_asked_again(
    loop: Callable[[], asyncio.AbstractEventLoop], said: tuple[bytes, ...]
) -> None:
    """A body whose end is that of the connection does not end where we hang up."""
    connections = 0

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await says_and_stays(reader, writer, *said)

    async def main() -> None:
        async with speaking(speak) as url:
            client = HttpClient("x", guard_of_loopback())
            if said == (OK,):  # and the next one goes over the same line
                await client.fetch(url, {}, PATIENT)
            fetch = asyncio.create_task(client.fetch(url, {}, PATIENT))
            await asyncio.sleep(0.05)
            await client.close()
            assert await reason_of(asyncio.wait_for(fetch, 5)) == "connection_lost"
        assert connections == 1

    run(loop, main)


@LOOPS
def test_a_line_that_is_made_while_its_client_is_closed_is_given_up(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        async with speaking(says_and_stays) as url:
            lines = Lines(guard_of_loopback(), None)
            asked = asyncio.create_task(lines.ask(url, b"", PATIENT, asyncio.get_running_loop().time() + 20, room))
            await asyncio.sleep(0)
            await lines.close()
            with pytest.raises(EOFError):
                await asyncio.wait_for(asked, 5)

    async def room(_size: int) -> None:
        """All there is."""

    run(loop, main)


@LOOPS
def test_a_client_is_closed_while_a_body_waits_for_room(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    size = 3 * SMALL_BODY
    answer = HEAD + b"Content-Length: %d\r\n\r\n" % size + bytes(size)
    budget, done = Budget(size), asyncio.Event()

    async def hold() -> None:
        await budget.hold(size)
        await done.wait()

    async def main() -> None:
        async with speaking(lambda reader, writer: says_and_stays(reader, writer, answer)) as url:
            holder = asyncio.create_task(hold())
            client = HttpClient("x", guard_of_loopback(), budget=budget)
            fetch = asyncio.create_task(client.fetch(url, {}, PATIENT))
            await asyncio.sleep(0.05)
            await client.close()
            done.set()
            assert await reason_of(asyncio.wait_for(fetch, 5)) == "connection_lost"
            await holder

    run(loop, main)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@LOOPS
def test_nobody_waits_for_the_farewell_of_a_server(
    loop: Callable[[], asyncio.AbstractEventLoop], authority: Authority
) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok")
        cast("asyncio.Transport", writer.transport).pause_reading()  # nor does it hear ours
        await asyncio.sleep(20)

    async def main() -> None:
        async with speaking(speak, authority.server()) as url:
            lines = Lines(guard_of_loopback(), authority.client)
            until = asyncio.get_running_loop().time() + 20
            answer = await lines.ask(url, b"GET / HTTP/1.1\r\n\r\n", PATIENT, until, Budget().hold)
            assert answer.parts == [b"ok"]
            await asyncio.sleep(0.05)
            assert lines._open == set()  # pyright: ignore[reportPrivateUsage]
            await lines.close()

    run(loop, main)
