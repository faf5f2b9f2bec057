"""Connections are used again only if nothing has come on them since.

A server that sends more than it was asked for would otherwise answer the next request before it is made: one page would
be stored as another, and through a proxy a host's as another host's. aiohttp looks for bytes that are left over when a
connection is put back, and not when it is taken again. (What comes after the next request was sent nobody can tell from
an answer.)
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.connector import Connection
from aiohttp_socks import ProxyConnector

from shoal.fetch.answers import OneAnswer

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.tracing import Trace


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
    """Through a SOCKS proxy."""
