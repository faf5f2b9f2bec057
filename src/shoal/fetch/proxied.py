"""The ways through proxies, and whose fault it is when there is none.

http and https proxies share one session of aiohttp's: it asks for a tunnel (CONNECT) to hosts that speak TLS, and hands
other requests over openly. Each SOCKS proxy has a session of its own; those used last are kept.

What is certainly the proxy's fault is `proxy_failed`, a login that it does not take `proxy_refused`. When a proxy says
that there is no way, or none comes about, and nobody can tell whose fault that is, it is `proxy_gateway`. All else is
between us and the host. No detail names credentials, nor repeats what a proxy said.
"""

from __future__ import annotations

import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict

import aiohttp
from aiohttp_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError, ProxyType

from shoal.core.proxies import Proxy
from shoal.core.url import Url
from shoal.errors import FetchError
from shoal.fetch import connectors
from shoal.fetch.guard import Guard
from shoal.fetch.outcomes import dns_reason
from shoal.fetch.session_outcomes import classify

WANTS_LOGIN = 407
SOCKS_ERRORS: tuple[type[Exception], ...] = (ProxyError, ProxyConnectionError, ProxyTimeoutError)
WAY_ERRORS = (*SOCKS_ERRORS, EOFError)
"""What only a way through a proxy can raise; the last one when it ends in the middle of a word."""
KEEPALIVE_S = 5.0
"""Shorter than to hosts: with many proxies few connections are used again."""
MAX_SOCKS_SESSIONS = 64
"""Beyond those in use."""

_SOCKS_REFUSED = 5
_SOCKS_UNREACHABLE = frozenset({3, 4, 6})
"""Network unreachable, host unreachable, TTL expired: the proxy has tried."""
_TLS_ERRORS = (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError)

MakeSession = Callable[..., aiohttp.ClientSession]


@dataclass(slots=True)
class Passage:
    """How far a fetch has come."""

    connected: bool = False
    """To the host, or to a proxy that is to be asked openly."""
    answered: bool = False


class Options(TypedDict, total=False):
    """What a request through a proxy is sent with."""

    proxy: str
    proxy_headers: Mapping[str, str]
    trace_request_ctx: Passage


@dataclass(slots=True)
class _SocksSession:
    session: aiohttp.ClientSession
    users: int = 0


class Ways:
    """Sessions through proxies."""

    def __init__(self, make_session: MakeSession, guard: Guard, tls: ssl.SSLContext | bool) -> None:
        self._make_session = make_session
        self._guard = guard
        self._tls = tls
        self._http: aiohttp.ClientSession | None = None
        self._socks: OrderedDict[Proxy, _SocksSession] = OrderedDict()

    @asynccontextmanager
    async def through(self, proxy: Proxy, passage: Passage) -> AsyncGenerator[tuple[aiohttp.ClientSession, Options]]:
        """A session that goes through this proxy, and what to send a request with."""
        if not proxy.is_socks:
            sent = _login(proxy)
            yield self._http_session(), Options(proxy=proxy.address, proxy_headers=sent, trace_request_ctx=passage)
            return
        kept = self._socks_session(proxy)
        kept.users += 1
        try:
            yield kept.session, Options(trace_request_ctx=passage)
        finally:
            kept.users -= 1
            await self._drop_idle()

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.close()
        for kept in self._socks.values():
            await kept.session.close()
        self._socks.clear()

    def _http_session(self) -> aiohttp.ClientSession:
        if self._http is None:
            connector = connectors.to_proxies(self._guard, keepalive_timeout=KEEPALIVE_S, ssl=self._tls)
            self._http = self._make_session(connector, _trace())
        return self._http

    def _socks_session(self, proxy: Proxy) -> _SocksSession:
        kept = self._socks.get(proxy)
        if kept is None:
            connector = connectors.through_socks(
                self._guard,
                host=proxy.host,
                port=proxy.port,
                proxy_type=ProxyType.SOCKS5,
                username=proxy.user or None,
                password=proxy.password or None,
                rdns=proxy.scheme == "socks5h",
                keepalive_timeout=KEEPALIVE_S,
                ssl=self._tls,
            )
            kept = self._socks[proxy] = _SocksSession(self._make_session(connector, _trace()))
        self._socks.move_to_end(proxy)
        return kept

    async def _drop_idle(self) -> None:
        """The longest unused go first; one in use stays."""
        spare = len(self._socks) - MAX_SOCKS_SESSIONS
        idle = [proxy for proxy, kept in self._socks.items() if not kept.users][: max(0, spare)]
        for session in [self._socks.pop(proxy).session for proxy in idle]:
            await session.close()


def _trace() -> aiohttp.TraceConfig:
    """Notes in a request's `Passage` that there is a connection."""
    trace = aiohttp.TraceConfig()

    async def connected(_session: object, context: object, _params: object) -> None:
        passage = getattr(context, "trace_request_ctx", None)
        if isinstance(passage, Passage):
            passage.connected = True

    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    return trace


def carries_openly(proxy: Proxy, url: Url) -> bool:
    """Does the proxy itself answer our requests, instead of passing on bytes?"""
    return not proxy.is_socks and url.scheme == "http"


def login_headers(proxy: Proxy, url: Url) -> Mapping[str, str]:
    """What is sent with a request that the proxy itself answers; a tunnel is asked for with `proxy_headers`."""
    return _login(proxy) if carries_openly(proxy, url) else {}


def _login(proxy: Proxy) -> Mapping[str, str]:
    if not proxy.has_login:
        return {}
    return {"Proxy-Authorization": aiohttp.encode_basic_auth(proxy.user, proxy.password)}


def refusal(proxy: Proxy) -> FetchError:
    """It does not let us in."""
    return FetchError("proxy_refused", f"{proxy.shown} does not take this user name and password")


def blame(exc: Exception, passage: Passage, proxy: Proxy, url: Url) -> FetchError | None:
    """What failed on the way, None when it is between us and the host."""
    if type(exc) is aiohttp.ClientOSError and isinstance(exc.__cause__, (ssl.SSLError, socket.gaierror)):
        exc = exc.__cause__  # of a SOCKS connector; aiohttp's own say more
    if isinstance(exc, SOCKS_ERRORS):
        return _socks_fault(exc, proxy)
    if isinstance(exc, aiohttp.ClientHttpProxyError):
        if exc.status == WANTS_LOGIN:
            return refusal(proxy)
        return FetchError("proxy_gateway", f"{proxy.shown} answered {exc.status} when asked for the host")
    if isinstance(exc, (ssl.SSLError, *_TLS_ERRORS)):
        return _tls_fault(exc, proxy)
    if isinstance(exc, socket.gaierror):
        return FetchError(dns_reason(exc), f"{url.hostname}: {exc.strerror}")
    if isinstance(exc, (FetchError, aiohttp.InvalidURL)):
        return None
    if passage.connected:
        return _broken_fault(exc, passage, proxy, url)
    return _unconnected_fault(exc, proxy, url)


def _socks_fault(exc: Exception, proxy: Proxy) -> FetchError:
    if isinstance(exc, ProxyConnectionError):
        return FetchError("proxy_failed", f"cannot connect to {proxy.shown}")
    code = exc.error_code if isinstance(exc, ProxyError) else None
    if code == _SOCKS_REFUSED:
        return FetchError("connect_refused", f"says {proxy.shown}")
    if code in _SOCKS_UNREACHABLE:
        return FetchError("connect_failed", f"the host cannot be reached, says {proxy.shown}")
    if code is not None:
        return FetchError("proxy_gateway", f"{proxy.shown} answered {int(code)} when asked for the host")
    if isinstance(exc, ProxyTimeoutError):
        return FetchError("proxy_gateway", f"no connection through {proxy.shown} in time")
    return refusal(proxy) if "authentication" in str(exc) else _failure(proxy)


def _failure(proxy: Proxy) -> FetchError:
    return FetchError("proxy_failed", f"{proxy.shown} did not speak as a proxy does, or hung up")


def _tls_fault(exc: Exception, proxy: Proxy) -> FetchError | None:
    """A proxy that we speak TLS with must prove who it is, like any host."""
    asked = (getattr(exc, "host", None), getattr(exc, "port", None))
    if proxy.scheme == "https" and asked == (proxy.host, proxy.port):
        return FetchError("proxy_failed", f"no TLS with {proxy.shown}: its certificate is not good, or it speaks none")
    if isinstance(exc, ssl.SSLCertVerificationError) and not isinstance(exc, aiohttp.ClientError):
        return FetchError(classify(exc).reason, exc.verify_message)
    return None


def _broken_fault(exc: Exception, passage: Passage, proxy: Proxy, url: Url) -> FetchError | None:
    """Who hangs up on an open request without an answer is the proxy."""
    lost = isinstance(exc, (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError))
    return _failure(proxy) if lost and not passage.answered and carries_openly(proxy, url) else None


def _unconnected_fault(exc: Exception, proxy: Proxy, url: Url) -> FetchError | None:
    if isinstance(exc, aiohttp.ClientProxyConnectionError):
        return FetchError("proxy_failed", f"cannot connect to {proxy.shown}")
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return FetchError("proxy_failed", f"the name of {proxy.shown} leads nowhere")
    if isinstance(exc, aiohttp.ClientConnectorError):
        return None  # the tunnel was there: TLS with the host came to nothing
    if url.scheme == "https" and (proxy.is_socks or isinstance(exc, TimeoutError)):
        return FetchError("proxy_gateway", f"no connection through {proxy.shown}")
    return _failure(proxy)
