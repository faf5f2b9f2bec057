"""Connectors for aiohttp's sessions: they connect to judged addresses only, and use connections again with care.

A server that sends more than it was asked for would otherwise answer the next request before it is made: one page would
be stored as another, and through a proxy a host's as another host's. aiohttp looks for bytes that are left over when a
connection is put back, and not when it is taken again. (What comes after the next request was sent nobody can tell from
an answer.)
"""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp_socks import ProxyConnector

from shoal.fetch.answers import OneAnswer
from shoal.fetch.guard import MAX_NAMES, Guard, blocked, family_of, gated, never

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.tracing import Trace

Find = Callable[[str], Awaitable[tuple[str, ...]]]
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class CarefulReuse(aiohttp.BaseConnector):
    """For connectors of every kind: to stand before them in a list of bases."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._factory = partial(OneAnswer, loop=self._loop)

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        for kept, since in self._conns.get(key, ()):
            if kept.should_close:
                kept.close()
            elif kept.is_connected() and time.monotonic() - since <= (self._keepalive_timeout or 0):
                break  # the first that is fit is taken
        return await super()._get(key, traces)


class DirectConnector(CarefulReuse, aiohttp.TCPConnector):
    """To hosts, and to http and https proxies."""


class SocksConnector(CarefulReuse, ProxyConnector):
    """Through a SOCKS proxy; it hands judged addresses over, where it does not leave names to the proxy."""

    def __init__(self, find_proxy: Find, resolver: AbstractResolver | None, **options: Any) -> None:
        super().__init__(use_dns_cache=False, **options)
        self._find_proxy = find_proxy
        self._proxy_name = str(self._proxy_host)
        if resolver:
            self._resolver = resolver

    async def _connect_via_proxy(self, *args: Any, **options: Any) -> Any:
        """The proxy's name is ours to look up, too, and it may be anywhere but where nobody is."""
        address = (await self._find_proxy(self._proxy_name))[0]
        if why := never(address):
            raise blocked(address, why)
        self._proxy_host = address
        return await super()._connect_via_proxy(*args, **options)


def to_hosts(guard: Guard, **options: Any) -> aiohttp.TCPConnector:
    """For sessions that ask hosts."""
    resolver = _Resolver(guard.judged)

    def gate(text: str) -> str:
        return "" if resolver.has_judged(text) else guard.why(text, "", local=False)

    return DirectConnector(resolver=resolver, socket_factory=gated(gate), use_dns_cache=False, limit=0, **options)


def to_proxies(guard: Guard, **options: Any) -> aiohttp.TCPConnector:
    """For sessions that ask proxies, which the operator has chosen: they may be anywhere but where nobody is."""
    resolver = _Resolver(guard.find_proxy)
    return DirectConnector(resolver=resolver, socket_factory=gated(never), use_dns_cache=False, limit=0, **options)


def through_socks(guard: Guard, *, rdns: bool, **options: Any) -> SocksConnector:
    """Through a SOCKS proxy: names that are ours to look up reach it as judged addresses."""
    resolver = None if rdns else _Resolver(guard.judged)
    return SocksConnector(guard.find_proxy, resolver, rdns=rdns, limit=0, **options)


class _Resolver(AbstractResolver):
    """aiohttp's way to ask us for addresses."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._judged: dict[str, None] = {}

    def has_judged(self, text: str) -> bool:
        return text in self._judged

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._find(host)
        if len(self._judged) > MAX_NAMES:
            self._judged.clear()
        self._judged.update(dict.fromkeys(addresses))
        return [
            ResolveResult(hostname=host, host=text, port=port, family=family_of(text), proto=0, flags=_NUMERIC)
            for text in addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""
