"""One connection to a host: a request goes out, one answer comes in, and not much besides its body.

The answer is parsed by httptools (llhttp), which hands out whatever has come, in one go, and knows no bounds: a server
that pours headers, interim answers (1xx), sizes of chunks, or answers to requests that nobody made, would keep the loop
from all other fetches. So whatever may hold headers is parsed in small portions, all that comes is counted, and whoever
goes beyond a cap is cut off in the middle of what he sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

from shoal.errors import FetchError
from shoal.fetch.budget import SMALL_BODY
from shoal.fetch.port import FetchLimits

MAX_HEAD_BYTES = 262_144
"""Of all headers together, as in browsers."""
MAX_HEADER_BYTES = 32_768
"""Of one of them."""
MAX_HEADERS = 256
"""Trailers count as well."""
MAX_INTERIM = 20
"""Interim answers before the answer."""
MAX_FRAMING = 1_048_576
"""Bytes of a body that are not its own, such as the sizes of chunks; and as many again as it has."""
_UNTIL_ANSWERED = 2 * MAX_HEAD_BYTES
"""Bytes up to the end of the answer's head: other heads are before it, and more than names and values are in each."""
_PORTION = 8_192
"""Bytes that are parsed at once where headers may be: a few hundred interim answers, a few tenths of a millisecond."""
_WITHOUT_AN_END = MAX_HEADER_BYTES + _PORTION
"""Bytes in which no header ends and nothing of a body comes. The parser copies a folded header for each of its lines,
and says nothing before its end."""
_MANY_PARTS = 16
"""Of a body at once, which are joined: chunks of a few bytes take ten times their size."""
_SWITCHING, _NO_CONTENT, _NOT_MODIFIED = 101, 204, 304

MakeRoom = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Answer:
    """What has come for a request so far."""

    status: int = 0
    reason: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    parts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    """Bytes of the body."""
    length: int | None = None
    """Of the body, if the head says so."""
    chunked: bool = False
    packed: bool = False
    """Has it a content encoding?"""
    headed: bool = False
    """Is the head complete?"""
    complete: bool = False


class Line(asyncio.Protocol):
    """A connection that is asked one thing after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, known: set[Line]) -> None:
        """`known`: where it stands for as long as it is open."""
        self._loop = loop
        self._known = known
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answer: Answer | None = None
        self._limits = FetchLimits()
        self._turn: asyncio.Future[None] | None = None
        """Done when the answer is complete or wants room."""
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = self._heard = 0.0
        self._silence = 0.0
        self._came = self._body_began = self._moved = 0
        """Bytes since the request: all; when the body began; when a header or a part of the body was last heard of."""
        self._interim = self._head_bytes = self._head_lines = 0
        self._has_room = False
        self._keeps = False
        """May it be asked again?"""
        self._was_asked = False
        self._early = b""
        """What came before that."""
        self.idle_since = 0.0

    @property
    def is_fit(self) -> bool:
        """Can it be asked?"""
        return self._keeps and self._transport is not None and not self._transport.is_closing()

    @property
    def heard(self) -> bool:
        """Has anything come for the request?"""
        return self._came > 0

    async def ask(self, request: bytes, limits: FetchLimits, deadline: float, make_room: MakeRoom) -> Answer:
        """Send a request, and take the answer with its body; `deadline` by the loop's clock.

        Raises FetchError, OSError, EOFError, TimeoutError. A line that has raised is closed.
        """
        self._came = self._body_began = self._moved = 0
        if self._transport is None:
            raise EOFError("the server has hung up")
        answer = self._answer = Answer()
        self._limits, self._deadline, self._silence = limits, deadline, limits.first_byte.total_seconds()
        self._interim = self._head_bytes = self._head_lines = 0
        self._has_room = self._keeps = False
        self._heard = self._loop.time()
        self._turn = self._loop.create_future()
        self._transport.write(request)
        self._watch()
        if not self._was_asked:
            self._take_up()
        try:
            await self._turn
            while not answer.complete:
                await self._wait_for_room(answer, make_room)
        except BaseException:
            self.hang_up()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._turn = None
            self._answer = None
        return answer

    def hang_up(self) -> None:
        """At once: no farewell of TLS is waited for. What is under way fails, also where its end would be this one."""
        self._keeps = False
        self._fail(EOFError("we have hung up"))
        if self._transport is not None:
            self._transport.abort()

    # --- what the loop says ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._known.add(self)
        self._keeps = True

    def data_received(self, data: bytes) -> None:
        """In portions, but for what can be nothing but body."""
        answer = self._answer
        if answer is None and not self._was_asked and self._transport is not None:
            self._early += data
            self._transport.pause_reading()
            return
        if answer is None or answer.complete:  # to nothing that was asked
            self.hang_up()
            return
        self._heard = self._loop.time()
        known, at, view = len(answer.parts), 0, memoryview(data)
        while at < len(data):
            if answer.complete:  # with more behind it than was asked for
                self._keeps = False
                break
            end = len(data) if answer.headed and not answer.chunked else at + _PORTION
            if not self._take(view[at:end], answer):
                break
            at = end
        if len(answer.parts) - known > _MANY_PARTS:
            answer.parts[known:] = [b"".join(answer.parts[known:])]

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport, self._parser, self._keeps = None, None, False
        self._known.discard(self)
        answer, self._answer = self._answer, None
        if answer is None or answer.complete:
            return
        if exc is None and answer.headed and answer.length is None and not answer.chunked:
            answer.complete = True  # its end is that of the connection
            self._wake()
        else:
            self._fail(exc or EOFError("the body is cut off" if answer.headed else "the server has hung up"))

    # --- what the parser says ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        answer = self._answer
        if answer is None or answer.complete:  # to nothing that was asked
            self._keeps = False
            raise EOFError

    def on_status(self, text: bytes) -> None:
        assert self._answer is not None
        self._answer.reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        answer = self._answer
        assert answer is not None
        size = len(name) + len(value)
        self._head_bytes += size
        self._head_lines += 1
        self._moved = self._came
        if size > MAX_HEADER_BYTES:
            raise FetchError("bad_http", f"a header of {size} bytes; at most {MAX_HEADER_BYTES} are taken")
        if self._head_bytes > MAX_HEAD_BYTES:
            raise FetchError("bad_http", f"more than {MAX_HEAD_BYTES} bytes of headers")
        if b"\0" in value:  # which the parser takes, as it does other odd bytes
            raise FetchError("bad_http", "a header with a NUL in it")
        if self._head_lines > MAX_HEADERS:
            raise FetchError("bad_http", f"more than {MAX_HEADERS} headers")
        if not answer.headed:  # a trailer is none of the headers
            answer.headers.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        answer, parser = self._answer, self._parser
        assert answer is not None
        assert parser is not None
        answer.status = status = parser.get_status_code()
        if 100 <= status <= 199 and status != _SWITCHING:
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise FetchError("bad_http", f"more than {MAX_INTERIM} interim answers (1xx)")
            return
        if not 100 <= status <= 999:
            raise FetchError("bad_http", f"{status} is not a status of HTTP")
        answer.headed = True
        self._body_began = self._came
        self._keeps = parser.should_keep_alive()
        self._read_framing(answer)
        length, most = answer.length, self._limits.max_body
        if length is not None and length > most and not self._limits.truncate:
            raise FetchError("too_large", f"a body of {length} bytes; at most {most} are taken")

    def on_body(self, part: bytes) -> None:
        answer = self._answer
        assert answer is not None
        if not answer.headed:  # an interim answer can have none
            return
        answer.parts.append(part)
        answer.size += len(part)
        self._moved = self._came
        if answer.size > self._limits.max_body and not self._limits.truncate:
            raise FetchError("too_large", f"a body of more than {self._limits.max_body} bytes")

    def on_message_complete(self) -> None:
        answer = self._answer
        assert answer is not None
        if answer.headed:
            answer.complete = True
        else:  # an interim one
            answer.status, answer.reason, self._head_bytes, self._head_lines = 0, b"", 0, 0
            answer.headers.clear()

    # --- within ------------------------------------------------------------------------------------------------------

    def _read_framing(self, answer: Answer) -> None:
        coded = False
        for name, value in answer.headers:
            key = name.lower().rstrip()  # as the parser reads it
            if key == b"content-length":
                answer.length = int(value)
            elif key == b"transfer-encoding":
                answer.chunked, coded = value.lower().endswith(b"chunked"), True
            elif key == b"content-encoding":
                answer.packed = True
        if coded:
            answer.length = None
        if answer.status == _NO_CONTENT and (answer.length or coded):
            self._keeps = False  # who knows whether it comes
        if answer.status in (_NO_CONTENT, _NOT_MODIFIED):
            answer.length = 0

    def _take_up(self) -> None:
        """Listen to what the server has said before it was asked anything: that it is too busy, say."""
        assert self._transport is not None
        self._was_asked, early, self._early = True, self._early, b""
        if early:
            self._transport.resume_reading()
            self.data_received(early)

    def _take(self, portion: bytes | memoryview, answer: Answer) -> bool:
        """Parse what has come; is that all right so far?"""
        self._came += len(portion)
        assert self._parser is not None
        try:
            self._parser.feed_data(portion)
            self._check(answer)
        except httptools.HttpParserUpgrade:
            answer.complete, self._keeps = True, False
        except (httptools.HttpParserError, FetchError) as exc:
            self._keeps = False
            if not answer.complete:
                self._fail(_said_by(exc))
                self.hang_up()
                return False
        if answer.complete:
            self._wake()
        return True

    def _check(self, answer: Answer) -> None:
        """Raise FetchError when there is too much of anything; ask for room where a body gets large."""
        if self._came - self._moved > _WITHOUT_AN_END and not answer.complete:
            raise FetchError("bad_http", f"{self._came - self._moved} bytes that belong to no header and to no body")
        if not answer.headed:
            if self._came > _UNTIL_ANSWERED:
                raise FetchError("bad_http", f"no answer within {_UNTIL_ANSWERED} bytes")
            return
        size, most = answer.size, self._limits.max_body
        if size > most:  # and the beginning is enough
            answer.complete, self._keeps = True, False
        elif not answer.complete:
            if self._came - self._body_began - size > MAX_FRAMING + size:
                raise FetchError("bad_http", f"more than {MAX_FRAMING} bytes around a body of {size}")
            if not self._has_room and max(size, min(answer.length or 0, most)) > SMALL_BODY:
                assert self._transport is not None
                self._transport.pause_reading()
                self._wake()

    async def _wait_for_room(self, answer: Answer, make_room: MakeRoom) -> None:
        """The host is not to blame for the time that takes."""
        left = self._deadline - self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
        most = self._limits.max_body
        await make_room(min(answer.length or most, most) + (most if answer.packed else 0))
        self._has_room = True
        if self._transport is None:
            raise EOFError("the body is cut off")
        self._turn = self._loop.create_future()
        self._heard = self._loop.time()
        self._deadline = self._heard + left
        self._transport.resume_reading()
        self._watch()
        await self._turn

    def _watch(self) -> None:
        """Until the deadline, or until the silence gets too long; looked at when one of them could be over."""
        now = self._loop.time()
        until = min(self._deadline, self._heard + self._silence)
        if now < until:
            self._timer = self._loop.call_at(until, self._watch)
        elif now >= self._deadline:
            self._fail(TimeoutError())
        else:
            headed = self._answer is not None and self._answer.headed
            reason = "timeout_body" if headed else "timeout_first_byte"
            self._fail(FetchError(reason, f"nothing came for {self._silence:g} s"))

    def _wake(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(error)


def _said_by(exc: Exception) -> Exception:
    """What a callback of ours has raised, or what the parser has to say."""
    own = exc.__context__ if isinstance(exc, httptools.HttpParserCallbackError) else None
    if isinstance(own, Exception):
        return own
    return exc if isinstance(exc, FetchError) else FetchError("bad_http", str(exc))
