"""The egress guard: no connection of a fetch is made but through here.

A name is looked up once, every answer is judged, and connections go to exactly the addresses that were judged, also
those of aiohttp's sessions (`connectors`). Each fetch is judged, also one that finds an open connection,
and so is each hop of a redirect, which is a fetch of its own. The last gate is where a socket is made: it sees the very
address, wherever it has come from.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]

from shoal.core.address import NEVER, kind_of, read_address
from shoal.core.egress import Egress, explain
from shoal.core.frozen import frozen
from shoal.errors import FetchError
from shoal.fetch.lookups import IN_LINE_S, Lookup, Lookups
from shoal.fetch.outcomes import dns_reason

KEEP_S = 60.0
"""The system says nothing about how long an answer holds."""
KEEP_MISS_S = 10.0
"""That a name does not exist is remembered for so long."""
KEEP_FAILURE_S = 1.0
MAX_NAMES = 10_000
LOOKUP_S = 10.0
"""Nobody waits longer than this for a name server, from when it was asked."""
P = TypeVar("P", bound=asyncio.BaseProtocol)
EYEBALLS_S = 0.25
"""After so long without a connection the next address is tried beside the first."""


def ask_system(name: str) -> list[str]:
    """The addresses of a name, as this machine knows them."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


@frozen
class _Answer:
    addresses: tuple[str, ...]
    error: FetchError | None
    until: float


class _Asking:
    """A lookup that others may wait for, too."""

    def __init__(self, ask: Callable[[_Asking], Coroutine[Any, Any, _Answer]]) -> None:
        loop = asyncio.get_running_loop()
        self.deadline: asyncio.Future[float] = loop.create_future()
        """By the loop's clock; unknown while it stands in line."""
        self.task = loop.create_task(ask(self))

    async def answer(self) -> _Answer:
        """Raises TimeoutError when the name server was given its time. Nobody's giving up takes it from the others."""
        await asyncio.wait({self.task, self.deadline}, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            return self.task.result()
        async with asyncio.timeout_at(self.deadline.result()):
            return await asyncio.shield(self.task)


class Names:
    """What names lead to: looked up once, remembered for a while, failures too."""

    def __init__(self, lookup: Lookup = ask_system) -> None:
        self._lookups = Lookups(lookup)
        self._answers: dict[str, _Answer] = {}
        self._under_way: dict[str, _Asking] = {}

    async def find(self, name: str) -> tuple[str, ...]:
        """All addresses of a name; raises FetchError."""
        answer = self._answers.get(name)
        if answer is None or answer.until <= time.monotonic():
            answer = await self._ask_once(name)
        if answer.error is not None:
            raise FetchError(answer.error.reason, str(answer.error.detail))
        return answer.addresses

    def good_until(self, name: str) -> float:
        """When it is looked up again."""
        return self._answers[name].until if name in self._answers else 0.0

    def close(self) -> None:
        self._lookups.close()

    async def _ask_once(self, name: str) -> _Answer:
        """Whoever asks meanwhile waits for the same answer."""
        asking = self._under_way.get(name)
        if asking is None:
            asking = self._under_way[name] = _Asking(lambda asking: self._ask(name, asking))
            asking.task.add_done_callback(lambda _: self._under_way.pop(name, None))
        try:
            return await asking.answer()
        except TimeoutError as exc:
            raise FetchError("dns_failed", f"{name}: no answer from a name server in {LOOKUP_S:g} s") from exc

    async def _ask(self, name: str, asking: _Asking) -> _Answer:
        try:
            await self._lookups.turn(name)
        except TimeoutError:
            error = FetchError("dns_failed", f"{name}: too many names hang; in line for {IN_LINE_S:g} s")
            return self._remember(name, _Answer((), error, time.monotonic() + KEEP_FAILURE_S))
        asking.deadline.set_result(asyncio.get_running_loop().time() + LOOKUP_S)
        try:
            addresses = await self._lookups.ask(name)
            answer = _Answer(tuple(addresses), None, time.monotonic() + KEEP_S)
        except socket.gaierror as exc:
            error = FetchError(dns_reason(exc), f"{name}: {exc.strerror}")
            lasts = KEEP_MISS_S if error.reason == "dns_not_found" else KEEP_FAILURE_S
            answer = _Answer((), error, time.monotonic() + lasts)
        except UnicodeError as exc:
            error = FetchError("dns_not_found", f"{name[:100]!r} cannot be a host's name: {exc}")
            answer = _Answer((), error, time.monotonic() + KEEP_MISS_S)
        except OSError as exc:
            answer = _Answer((), FetchError("dns_failed", str(exc)), time.monotonic() + KEEP_FAILURE_S)
        return self._remember(name, answer)

    def _remember(self, name: str, answer: _Answer) -> _Answer:
        if len(self._answers) >= MAX_NAMES:
            self._answers.clear()
        self._answers[name] = answer
        return answer


class Guard:
    """Judges, and makes connections."""

    def __init__(self, egress: Egress, lookup: Lookup = ask_system, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: which proxies to trust that speak TLS, when it is not those whom the system trusts."""
        self._egress = egress
        self._names = Names(lookup)
        self._passed: dict[tuple[str, bool], float] = {}
        """Hosts that were judged and may be asked, until their names are looked up again."""
        self._tls = tls

    async def check_all(self, host: str) -> None:
        """May this host be asked by somebody else, who may choose any of its addresses? Raises FetchError."""
        await self.check(host)
        for text in await self.find(host):
            if why := self.why(text, host, local=False):
                raise blocked(f"{host} ({text})", why)

    def has_passed(self, host: str, *, local: bool = False) -> bool:
        """Was it judged a while ago, and may be asked?"""
        return time.monotonic() < self._passed.get((host, local), 0.0)

    async def check(self, host: str, *, local: bool = False) -> None:
        """May this host (without its port) be asked? Raises FetchError."""
        if self.has_passed(host, local=local):
            return
        address = read_address(host)
        if address is None:
            await self.judged(host, local=local)
        elif why := self._egress.refuses(address, local=local):
            raise blocked(host, why)
        if len(self._passed) >= MAX_NAMES:
            self._passed.clear()
        self._passed[host, local] = self._names.good_until(host) if address is None else time.monotonic() + KEEP_S

    async def judged(self, name: str, *, local: bool = False) -> tuple[str, ...]:
        """The addresses of a name that may be asked; raises FetchError when there are none."""
        found = await self._names.find(name)
        refusals = {text: self.why(text, name, local=local) for text in found}
        allowed = tuple(text for text, why in refusals.items() if not why)
        if not allowed:
            text, why = next(iter(refusals.items()), ("no address", "none"))
            raise blocked(f"{name} ({text})", why)
        return allowed

    async def find(self, name: str) -> tuple[str, ...]:
        """The addresses of a name, whatever they are, to tell hosts apart by; raises FetchError."""
        return (name.strip("[]"),) if read_address(name) else await self._names.find(name)

    def close(self) -> None:
        self._names.close()

    async def find_proxy(self, name: str) -> tuple[str, ...]:
        """The addresses of a proxy; raises OSError. That its name leads nowhere says nothing about the host."""
        try:
            return await self.find(name)
        except FetchError as exc:
            raise OSError(None, exc.detail) from exc

    def why(self, text: str, name: str, *, local: bool) -> str:
        """Why this address may not be asked; empty when it may."""
        address = read_address(text)
        return "unreadable" if address is None else self._egress.refuses(address, name, local=local)

    async def dial(
        self,
        make: Callable[[], P],
        host: str,
        port: int,
        *,
        local: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """A connection to a judged address of this host (without its port); raises FetchError and OSError.

        `tls`: whom to trust, when it is not a plain one.
        """
        address = read_address(host)
        found = (str(address),) if address else await self.judged(host, local=local)

        def gate(text: str) -> str:
            return self.why(text, "" if address else host, local=local)

        return await _dial(make, found, port, gate, tls, str(address) if address else host)

    async def dial_proxy(
        self, make: Callable[[], P], host: str, port: int, *, with_tls: bool = False
    ) -> tuple[asyncio.Transport, P]:
        """A connection to a proxy, which may be anywhere but where nobody is; raises FetchError and OSError."""
        found = await self.find_proxy(host)
        return await _dial(make, found, port, never, self._trust() if with_tls else None, host)

    def _trust(self) -> ssl.SSLContext:
        """For proxies that we speak TLS with."""
        self._tls = self._tls or ssl.create_default_context()
        return self._tls


def gated(gate: Callable[[str], str]) -> Callable[[tuple[Any, ...]], socket.socket]:
    """Sockets, where the gate says nothing against their address."""

    def make(info: tuple[Any, ...]) -> socket.socket:
        family, kind, proto, _, place = info
        if why := gate(str(place[0])):
            raise blocked(str(place[0]), why)
        return socket.socket(family, kind, proto)

    return make


async def _dial(
    make: Callable[[], P],
    addresses: Sequence[str],
    port: int,
    gate: Callable[[str], str],
    tls: ssl.SSLContext | None = None,
    name: str | None = None,
) -> tuple[asyncio.Transport, P]:
    """To the first of these addresses that answers."""
    infos = [(family_of(text), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (text, port)) for text in addresses]
    made = await start_connection(infos, happy_eyeballs_delay=EYEBALLS_S, interleave=1, socket_factory=gated(gate))
    opened = _file_of(made)
    try:
        return await asyncio.get_running_loop().create_connection(
            make, sock=made, ssl=tls, server_hostname=name if tls else None
        )
    except BaseException:
        _let_go(made, opened)
        raise


def _let_go(made: socket.socket, opened: tuple[int, int]) -> None:
    """Close a socket that came to nothing, unless the loop has.

    uvloop does so without telling the socket, where a server resets the connection at the beginning of a handshake of
    TLS. The socket would close it again when the last exception that holds it is gone, and close what has its number
    by then: a connection to another host, or a file.
    """
    if _file_of(made) == opened:
        made.close()
    else:
        made.detach()


def _file_of(made: socket.socket) -> tuple[int, int]:
    """What stands behind the number of a socket; (0, 0) for nothing."""
    try:
        found = os.fstat(made.fileno())
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def never(text: str) -> str:
    """Why not even a proxy can be at this address; empty when it can."""
    address = read_address(text)
    kind = kind_of(address) if address else "unreadable"
    return kind if kind in NEVER or address is None else ""


def blocked(what: str, why: str) -> FetchError:
    """That something may not be asked."""
    return FetchError("blocked_address", explain(what, why))


def family_of(text: str) -> socket.AddressFamily:
    """Of an address."""
    return socket.AF_INET6 if ":" in text else socket.AF_INET


async def unless_unknown(judgement: Coroutine[Any, Any, None]) -> None:
    """A name that leads nowhere is not judged here."""
    try:
        await judgement
    except FetchError as exc:
        if exc.reason == "blocked_address":
            raise
