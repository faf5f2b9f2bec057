"""The gate: the proxy on this machine through which a browser's every byte goes, and which goes through the guard.

Each page has a gate of its own while it lasts, on a port of its own: whatever connects there is that page's. Tunnels
(https, WebSockets) and plain requests are taken; each host is judged, and connected to at exactly a judged address.
"""

from __future__ import annotations

import asyncio
from typing import cast

from shoal.core.url import parse
from shoal.errors import BadUrl, FetchError
from shoal.fetch.guard import Guard
from shoal.render.account import Account, Tally, Terms
from shoal.render.call import Call
from shoal.render.pace import Pace

HERE = "127.0.0.1"
LOOK_S = 0.5
"""So often it is seen who waits too long."""

__all__ = ["Gate", "Tally", "Terms"]


class Gate:
    """For one page at a time."""

    def __init__(self, guard: Guard, pace: Pace) -> None:
        self._guard = guard
        self._pace = pace
        self._account: Account | None = None
        self._server: asyncio.Server | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._port = 0

    @classmethod
    async def open(cls, guard: Guard, pace: Pace | None = None) -> Gate:
        """Listening on this machine only. `pace`: shared by the gates of a process."""
        gate = cls(guard, pace or Pace())
        gate._server = await asyncio.get_running_loop().create_server(gate._answer, HERE, 0)
        gate._port = gate._server.sockets[0].getsockname()[1]
        return gate

    @property
    def url(self) -> str:
        """What the browser is told."""
        return f"http://{HERE}:{self._port}"

    @property
    def tally(self) -> Tally:
        """Of the page, so far."""
        return self._account.tally if self._account else Tally()

    @property
    def cut(self) -> FetchError | None:
        """Why the page gets nothing any more: it has loaded too much, or its time is up."""
        return self._account.cut if self._account else None

    def begin(self, terms: Terms) -> None:
        """A page begins; one that has not ended ends."""
        self.end()
        self._account = Account(self._guard, terms, self._pace)
        self._look()

    def end(self) -> Tally:
        """The page is over: its connections are closed, and what still comes goes nowhere."""
        account, self._account = self._account, None
        if self._watch is not None:
            self._watch.cancel()
        if account is None:
            return Tally()
        account.end(FetchError("timeout_total", "the page is over"))
        return account.tally

    def refusal_of(self, host: str, port: int) -> FetchError | None:
        """Why this host was last refused to the page, or could not be reached; None when that did not happen.

        To be asked when something has failed: one refusal says nothing about other requests to the host.
        """
        if self._account is None:
            return None
        try:
            name = parse(f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}/").hostname
        except BadUrl:
            return None
        return self._account.refusal_of(name, port)

    async def close(self) -> None:
        """Stop listening."""
        self.end()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        await asyncio.sleep(0)  # the loop closes what was closed here

    def _answer(self) -> asyncio.Protocol:
        return _Deaf() if self._account is None else Call(self._account)

    def _look(self) -> None:
        if self._account is not None:
            self._account.look()
            self._watch = asyncio.get_running_loop().call_later(LOOK_S, self._look)


class _Deaf(asyncio.Protocol):
    """For who comes when there is no page."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()
