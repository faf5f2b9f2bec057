"""One connection of the browser's, and the one to a host that belongs to it.

The first request says which host it leads to, and it leads nowhere else: a later request for another host finds it
closed, and the browser asks again on a new one. So requests are read one by one, while answers pass as they come: what
a host says too much can be mistaken only for its own next answer, as without a gate. Bytes go straight from one
transport to the other; who takes them slowly slows down who sends them.
"""

from __future__ import annotations

import asyncio
from typing import cast

from shoal.core.proxies import Proxy
from shoal.errors import FetchError
from shoal.render.account import Account
from shoal.render.request_head import END, MAX_HEAD, RequestHead, read_head
from shoal.render.way import Way, login_of, refusal

HEAD_S = 10.0
"""From the first byte of a head to its last."""
_STATUS_CHARS = 12
"""`HTTP/1.1 407`: what must be seen of an answer to tell whether it is a proxy's refusal."""
_STATUSES = {
    "blocked_address": b"403 Forbidden",
    "bad_url": b"400 Bad Request",
    "bad_http": b"400 Bad Request",
    "too_large": b"403 Forbidden",
    "timeout_connect": b"504 Gateway Timeout",
    "timeout_total": b"504 Gateway Timeout",
}


class Call(asyncio.Protocol):
    """The browser's end."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._loop = asyncio.get_running_loop()
        self._near: asyncio.Transport | None = None
        self._far: asyncio.Transport | None = None
        self._head: RequestHead | None = None
        """The first one: whom this connection leads to."""
        self._tunnel = False
        self._openly = False
        self._buffer = bytearray()
        self._body = 0
        """Bytes of a request's body that are still to come."""
        self._task: asyncio.Task[None] | None = None
        """A request on its way to the host."""
        self._full = False
        """The host's end takes no more for now."""
        self._active = self._loop.time()
        self._since: float | None = None
        """When the head began that is not complete."""

    # --- the browser speaks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._near = cast("asyncio.Transport", transport)
        if error := self._account.enter(self):
            self.refuse(error)

    def data_received(self, data: bytes) -> None:
        self._active = self._loop.time()
        if self._tunnel:
            self._send(data)
            return
        self._buffer += data
        self._read()

    def eof_received(self) -> bool:
        """Browsers hang up when they are done, and never halfway."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._account.leave(self)
        self._near = None
        self._stop()
        if self._far is not None:
            self._far.abort()

    def pause_writing(self) -> None:
        _pause(self._far)

    def resume_writing(self) -> None:
        _resume(self._far)

    # --- what it says

    def _read(self) -> None:
        """Pass on what has come, as far as it is complete."""
        while self._buffer and self._task is None and self._near is not None and not self._near.is_closing():
            if self._body:
                self._pass_body()
            elif not self._pass_head():
                return

    def _pass_body(self) -> None:
        part = bytes(self._buffer[: self._body])
        del self._buffer[: self._body]
        self._body -= len(part)
        self._send(part)

    def _pass_head(self) -> bool:
        end = self._buffer.find(END, 0, MAX_HEAD + len(END))
        if end < 0:
            self._since = self._since or self._active
            if len(self._buffer) > MAX_HEAD:
                self.refuse(FetchError("bad_http", f"a head of more than {MAX_HEAD} bytes"))
            return False
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + len(END)]
        self._since = None
        goal: tuple[str, int] | None = None
        try:
            head = read_head(raw)
            goal = head.goal
            self._take(head)
        except FetchError as exc:
            self.refuse(exc, goal)
        return True

    def _take(self, head: RequestHead) -> None:
        if self._head is not None and (head.is_tunnel or head.goal != self._head.goal):
            self.abort()  # it asks again, on a connection of its own
            return
        wait = self._account.take_turn(head)
        if self._far is not None and not wait:
            self._forward(head)
            return
        _pause(self._near)
        self._task = self._loop.create_task(self._serve(head, wait))

    async def _serve(self, head: RequestHead, wait: float) -> None:
        """The first request, or one that has to wait."""
        try:
            await asyncio.sleep(wait)
            if self._far is None:
                self._join(head, await self._account.open(head))
            self._forward(head)
        except FetchError as exc:
            self.refuse(exc, head.goal)
        except BaseException:
            self._task = None
            self.abort()
            raise
        self._task = None
        self.resume_browser()
        self._read()

    def _join(self, head: RequestHead, way: Way) -> None:
        """From here on the host's words are the browser's."""
        self._head, self._far, self._tunnel, self._openly = head, way.transport, head.is_tunnel, way.openly
        far = Far(self, way.openly)
        way.transport.set_protocol(far)
        if self._tunnel:
            self._write(b"HTTP/1.1 200 OK\r\n\r\n")
        if rest := way.ear.rest():
            far.data_received(rest)
        if way.ear.has_ended:
            way.transport.close()
        if way.ear.is_lost:
            far.connection_lost(None)

    def _forward(self, head: RequestHead) -> None:
        self._account.count_request()
        if self._tunnel:
            data = bytes(self._buffer)
            self._buffer.clear()
            self._send(data)
            return
        self._body = head.length
        login = login_of(self._proxy) if self._openly else ""
        self._send(head.written(openly=self._openly, login=login))

    @property
    def _proxy(self) -> Proxy | None:
        return self._account.terms.proxy

    def _send(self, data: bytes) -> None:
        if data and self._far is not None and self._account.count_sent(len(data)):
            self._far.write(data)

    # --- the host speaks

    def hear(self, data: bytes) -> None:
        """Bytes from the host."""
        self._active = self._loop.time()
        if self._account.count_received(len(data)):
            self._write(data)

    def hear_refusal(self) -> None:
        """The proxy wants another login."""
        if self._proxy is not None:
            self._give_up(refusal(self._proxy))

    def hear_nothing(self) -> None:
        """The proxy has hung up without a word, while somebody waited for one."""
        if self._proxy is not None and self._near is not None and not self._near.is_closing():
            self._give_up(FetchError("proxy_failed", f"{self._proxy.shown} hung up"))

    def hear_end(self) -> None:
        """The host has hung up: what it has said is still written."""
        self._leave_host()
        if self._near is not None:
            self._near.close()

    def pause_browser(self) -> None:
        """The host takes no more for now."""
        self._full = True
        _pause(self._near)

    def resume_browser(self, *, full: bool | None = None) -> None:
        """Unless there is still something to wait for."""
        self._full = self._full if full is None else full
        if self._task is None and not self._full:
            _resume(self._near)

    # --- the end

    def refuse(self, error: FetchError, goal: tuple[str, int] | None = None) -> None:
        """Say why, in a few words, and hang up."""
        self._account.refuse(error, goal)
        status = _STATUSES.get(error.reason, b"502 Bad Gateway")
        reason = error.reason.encode()
        self._write(
            b"HTTP/1.1 %b\r\nX-Shoal-Reason: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (status, reason, len(reason), reason)
        )
        if self._near is not None:
            self._near.close()

    def look(self, now: float, idle: float) -> None:
        """Has it waited too long?"""
        late = self._since is not None and now - self._since > HEAD_S
        if late or (self._task is None and now - self._active > idle):
            self.abort()

    def abort(self) -> None:
        """Both ends, at once; nothing passes any more."""
        self._stop()
        for transport in (self._near, self._far):
            if transport is not None:
                transport.abort()

    def _give_up(self, error: FetchError) -> None:
        far, goal = self._far, self._head.goal if self._head else None
        self.refuse(error, goal)
        if far is not None:
            far.abort()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._buffer.clear()

    def _leave_host(self) -> None:
        if self._head is not None and self._far is not None:
            self._account.close(self._head)
            self._far = None

    def _write(self, data: bytes) -> None:
        if self._near is not None and not self._near.is_closing():
            self._near.write(data)


def _pause(transport: asyncio.Transport | None) -> None:
    if transport is not None and not transport.is_closing():
        transport.pause_reading()


def _resume(transport: asyncio.Transport | None) -> None:
    if transport is not None and not transport.is_closing():
        transport.resume_reading()


class Far(asyncio.Protocol):
    """The host's end."""

    def __init__(self, call: Call, openly: bool) -> None:
        self._call = call
        self._first = bytearray() if openly else None
        """The beginning of a proxy's first answer, which may be its own."""

    def data_received(self, data: bytes) -> None:
        if self._first is not None:
            self._first += data
            if len(self._first) < _STATUS_CHARS:
                return
            data, self._first = bytes(self._first), None
            if data[9:_STATUS_CHARS] == b"407":
                self._call.hear_refusal()
                return
        self._call.hear(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._first is not None:
            self._first = None
            self._call.hear_nothing()
        self._call.hear_end()

    def pause_writing(self) -> None:
        self._call.pause_browser()

    def resume_writing(self) -> None:
        self._call.resume_browser(full=False)
