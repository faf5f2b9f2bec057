"""The way from the gate to a host: straight, or through the job's proxy. Every connection is made by the guard.

Straight, the host is judged and one of the judged addresses is connected to. Through a proxy it is judged as a fetch
through a proxy judges it: a proxy that looks names up itself could take any address of a name, so all must be good, and
names that we do not know are its own affair; one that does not (`socks5`) is handed a judged address.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode

from shoal.core.address import read_address
from shoal.core.frozen import frozen
from shoal.core.proxies import Proxy
from shoal.errors import FetchError
from shoal.fetch.guard import Guard
from shoal.fetch.outcomes import classify
from shoal.render.request_head import RequestHead

MAX_HEARD = 65_536
"""Bytes that are kept before anybody wants them."""
_SOCKS_REFUSED = 5
_SOCKS_UNREACHABLE = (3, 4, 6)
_SOCKS_ADDRESS = {1: 4, 4: 16}
"""Kind of address → bytes of it."""
_WANTS_LOGIN = 407
_MAX_NAME = 255


class Ear(asyncio.Protocol):
    """The far end of a connection while hands are shaken: it keeps what comes."""

    def __init__(self) -> None:
        self._heard = bytearray()
        self._more = asyncio.Event()
        self._over = False
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self._heard += data
        self._over = self._over or len(self._heard) > MAX_HEARD
        self._more.set()

    def eof_received(self) -> bool:
        self._over = True
        self._more.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.eof_received()

    @property
    def has_ended(self) -> bool:
        return self._over

    async def exactly(self, count: int) -> bytes:
        """The next so many bytes; raises EOFError."""
        while len(self._heard) < count:
            await self._wait()
        return self._cut(count)

    async def until(self, end: bytes) -> bytes:
        """All up to this, and with it; raises EOFError."""
        while (at := self._heard.find(end)) < 0:
            await self._wait()
        return self._cut(at + len(end))

    def rest(self) -> bytes:
        return self._cut(len(self._heard))

    async def _wait(self) -> None:
        if self._over:
            raise EOFError
        self._more.clear()
        await self._more.wait()

    def _cut(self, count: int) -> bytes:
        part = bytes(self._heard[:count])
        del self._heard[:count]
        return part


@frozen
class Way:
    """A connection that leads to the host."""

    transport: asyncio.Transport
    ear: Ear
    """What has come already."""
    openly: bool = False
    """A proxy reads our requests, and hands them on."""


def login_of(proxy: Proxy | None) -> str:
    """As http proxies want it; empty when there is none."""
    if proxy is None or not proxy.has_login:
        return ""
    return "Basic " + b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()


async def open_way(guard: Guard, head: RequestHead, proxy: Proxy | None, *, local: bool) -> Way:
    """To the host of a request, and to nobody else; raises FetchError."""
    if proxy is not None:
        return await _open_through(guard, head, proxy)
    try:
        transport, ear = await guard.dial(Ear, head.hostname, head.port, local=local)
    except OSError as exc:
        raise classify(exc) from exc
    return Way(transport, ear)


async def _open_through(guard: Guard, head: RequestHead, proxy: Proxy) -> Way:
    address = await _judge(guard, head, proxy)
    try:
        transport, ear = await guard.dial_proxy(Ear, proxy.host, proxy.port, with_tls=proxy.scheme == "https")
    except OSError as exc:
        raise FetchError("proxy_failed", f"cannot connect to {proxy.shown}") from exc
    try:
        if proxy.is_socks:
            await _ask_socks(transport, ear, address, head.port, proxy)
        elif head.is_tunnel:
            await _ask_tunnel(transport, ear, head, proxy)
    except EOFError as exc:
        transport.abort()
        raise FetchError("proxy_failed", f"{proxy.shown} did not speak as a proxy does, or hung up") from exc
    except BaseException:
        transport.abort()
        raise
    return Way(transport, ear, openly=not proxy.is_socks and not head.is_tunnel)


async def _judge(guard: Guard, head: RequestHead, proxy: Proxy) -> str:
    """What the proxy is asked for: a judged address, or a name that leads to nothing bad as far as we know."""
    if proxy.scheme == "socks5":
        await guard.check(head.hostname)
        return head.hostname if read_address(head.hostname) else (await guard.judged(head.hostname))[0]
    try:
        await guard.check_all(head.hostname)
    except FetchError as exc:
        if exc.reason == "blocked_address":
            raise
    return head.hostname


# --- http and https proxies -----------------------------------------------------------------------------------------


async def _ask_tunnel(transport: asyncio.Transport, ear: Ear, head: RequestHead, proxy: Proxy) -> None:
    login = login_of(proxy)
    said = f"Proxy-Authorization: {login}\r\n" if login else ""
    transport.write(f"CONNECT {head.place} HTTP/1.1\r\nHost: {head.place}\r\n{said}\r\n".encode())
    line = (await ear.until(b"\r\n\r\n")).partition(b"\r\n")[0].split(b" ")
    status = int(line[1]) if line[0].startswith(b"HTTP/1.") and len(line) > 1 and line[1].isdigit() else 0
    if status == _WANTS_LOGIN:
        raise refusal(proxy)
    if status // 100 != 2:
        raise FetchError("proxy_gateway", f"{proxy.shown} answered {status} when asked for the host")


def refusal(proxy: Proxy) -> FetchError:
    """It does not let us in."""
    return FetchError("proxy_refused", f"{proxy.shown} does not take this user name and password")


# --- SOCKS5 (RFC 1928, RFC 1929) ------------------------------------------------------------------------------------


async def _ask_socks(transport: asyncio.Transport, ear: Ear, host: str, port: int, proxy: Proxy) -> None:
    transport.write(b"\x05\x02\x00\x02" if proxy.has_login else b"\x05\x01\x00")
    version, method = await ear.exactly(2)
    if version != 5:
        raise EOFError
    if method == 2 and proxy.has_login:
        user, password = proxy.user.encode(), proxy.password.encode()
        transport.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await ear.exactly(2))[1] != 0:
            raise refusal(proxy)
    elif method != 0:
        raise refusal(proxy)
    transport.write(b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big"))
    _, reply, _, kind = await ear.exactly(4)
    if reply:
        raise _socks_fault(reply, proxy)
    size = _SOCKS_ADDRESS.get(kind) or (await ear.exactly(1))[0]
    await ear.exactly(size + 2)


def _socks_address(host: str) -> bytes:
    address = read_address(host)
    if address is not None:
        return bytes([1 if address.version == 4 else 4]) + address.packed
    name = host.encode("ascii", "replace")
    if len(name) > _MAX_NAME:
        raise FetchError("bad_url", f"a name of more than {_MAX_NAME} characters")
    return bytes([3, len(name)]) + name


def _socks_fault(reply: int, proxy: Proxy) -> FetchError:
    if reply == _SOCKS_REFUSED:
        return FetchError("connect_refused", f"says {proxy.shown}")
    if reply in _SOCKS_UNREACHABLE:
        return FetchError("connect_failed", f"the host cannot be reached, says {proxy.shown}")
    return FetchError("proxy_gateway", f"{proxy.shown} answered {reply} when asked for the host")
