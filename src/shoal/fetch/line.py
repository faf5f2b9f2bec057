"""One connection to a host: a request goes out, one answer comes in, and not much besides its body.

The answer is parsed by httptools (llhttp), which hands out whatever has come, in one go, and knows no bounds: a server
that pours headers, interim answers (1xx), sizes of chunks, or answers to requests that nobody made, would keep the loop
from all other fetches. So a head is parsed in small portions, all that comes is counted, and whoever goes beyond a cap
is cut off in the middle of what he sends.
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
"""Bytes that are parsed at once until there is an answer: a few hundred interim answers, a few tenths of a
millisecond."""
_SWITCHING = 101

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
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._answer: Answer | None = None
        self._limits = FetchLimits()
        self._turn: asyncio.Future[None] | None = None
        """Done when the answer is complete or wants room."""
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = self._heard = 0.0
        self._silence = 0.0
        self._came = self._body_began = self._interim = self._head_bytes = 0
        self._has_room = False
        self._keeps = False
        """May it be asked again?"""
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
        assert self._transport is not None
        answer = self._answer = Answer()
        self._limits, self._deadline, self._silence = limits, deadline, limits.first_byte.total_seconds()
        self._came = self._body_began = self._interim = self._head_bytes = 0
        self._has_room = self._keeps = False
        self._heard = self._loop.time()
        self._turn = self._loop.create_future()
        self._transport.write(request)
        self._watch()
        try:
            await self._turn
            while not answer.complete:
                await self._wait_for_room(answer, make_room)
        except BaseException:
            self.abort()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._turn = None
            self._answer = None
        return answer

    def abort(self) -> None:
        """Hang up at once."""
        self._keeps = False
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Hang up."""
        self._keeps = False
        if self._transport is not None:
            self._transport.close()

    # --- what the loop says ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._known.add(self)
        self._keeps = True

    def data_received(self, data: bytes) -> None:
        """All of it at once as soon as there is an answer; in portions before that."""
        answer = self._answer
        if answer is None or answer.complete:  # to nothing that was asked
            self.close()
            return
        self._heard = self._loop.time()
        at = 0
        if len(data) > _PORTION:
            view = memoryview(data)
            while len(data) - at > _PORTION and not answer.headed:
                if not self._take(view[at : at + _PORTION], answer):
                    return
                at += _PORTION
            self._take(view[at:], answer)
        else:
            self._take(data, answer)

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
        headers = answer.headers
        if size > MAX_HEADER_BYTES:
            raise FetchError("bad_http", f"a header of {size} bytes; at most {MAX_HEADER_BYTES} are taken")
        if self._head_bytes > MAX_HEAD_BYTES:
            raise FetchError("bad_http", f"more than {MAX_HEAD_BYTES} bytes of headers")
        if b"\0" in value:  # which the parser takes, as it does other odd bytes
            raise FetchError("bad_http", "a header with a NUL in it")
        headers.append((name, value.strip(b" \t")))
        if len(headers) > MAX_HEADERS:
            raise FetchError("bad_http", f"more than {MAX_HEADERS} headers")

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
        answer.parts.append(part)
        answer.size += len(part)

    def on_message_complete(self) -> None:
        answer = self._answer
        assert answer is not None
        if answer.headed:
            answer.complete = True
        else:  # an interim one
            answer.status, answer.reason, self._head_bytes = 0, b"", 0
            answer.headers.clear()

    # --- within ------------------------------------------------------------------------------------------------------

    def _read_framing(self, answer: Answer) -> None:
        coded = False
        for name, value in answer.headers:
            key = name.lower()
            if key == b"content-length":
                answer.length = int(value)
            elif key == b"transfer-encoding":
                answer.chunked, coded = value.lower().endswith(b"chunked"), True
            elif key == b"content-encoding":
                answer.packed = True
        if coded:
            answer.length = None
        if answer.status in (204, 304):
            answer.length = 0

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
                self.abort()
                return False
        if answer.complete:
            self._wake()
        return True

    def _check(self, answer: Answer) -> None:
        """Raise FetchError when there is too much of anything; ask for room where a body gets large."""
        if not answer.headed:
            if self._came > _UNTIL_ANSWERED:
                raise FetchError("bad_http", f"no answer within {_UNTIL_ANSWERED} bytes")
            return
        size, most = answer.size, self._limits.max_body
        if size > most:
            if not self._limits.truncate:
                raise FetchError("too_large", f"a body of more than {most} bytes")
            answer.complete = True
            self.abort()
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
        self._turn = self._loop.create_future()
        self._heard = self._loop.time()
        self._deadline = self._heard + left
        if self._transport is None:
            raise EOFError("the body is cut off")
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
