"""Every way in which a fetch can fail, and the stable reason that stands for it.

What aiohttp, its SOCKS connector, TLS and the system raise is looked up in one table. What we find out ourselves
(`too_large`, `bad_encoding`, `blocked_address`, …) is raised as a `FetchError` with its reason where it is found. The
guide to errors says of each reason what it means, whether it is retried, and what can be done.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
import aiohttp_socks
import python_socks
from aiohttp.client_exceptions import WSMessageTypeError
from aiohttp.http_exceptions import HttpProcessingError

from shoal.errors import FetchError

FAILURES: tuple[type[Exception], ...] = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError, ValueError)
"""What a fetch may raise: all else is a fault of ours."""

_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

# OpenSSL's numbers (x509_vfy.h), which stay the same from version to version.
_OUT_OF_DATE = frozenset({9, 10})
"""Not yet valid, expired."""
_NOT_TRUSTED = frozenset({2, 18, 19, 20, 21, 27})
"""Nobody we trust has signed it: an issuer that is missing or unknown, or itself."""
_OTHER_NAME = frozenset({62, 64})
"""Made out to another name, or to another address."""

_SILENT: dict[type[BaseException], str] = {TimeoutError: "the whole fetch took too long"}
"""What those mean that come without a word."""

Decide = Callable[[Any, bool], str]
"""From an exception, and whether the head of the answer had come, to a reason."""


def classify(exc: BaseException, *, answered: bool = False) -> FetchError:
    """The stable reason for anything that a fetch raises."""
    own = _own_error(exc)
    if own is not None:
        return own
    detail = str(exc) or _SILENT.get(type(exc)) or type(exc).__name__
    for kind, decided in _REASONS:
        if isinstance(exc, kind):
            return FetchError(decided if isinstance(decided, str) else decided(exc, answered), detail)
    return FetchError("internal_error", f"{type(exc).__name__}: {exc}")


def without_frames(exc: BaseException) -> BaseException:
    """The same, without the frames that it came through.

    aiohttp keeps what it has raised in its stream, and those frames keep the stream, with all that has come of the
    body: a cycle, which would stay until somebody looks for cycles.
    """
    each: BaseException | None = exc
    while each is not None:
        each.__traceback__, each = None, each.__cause__ or each.__context__
    return exc


def row_of(kind: type[BaseException]) -> type[BaseException] | None:
    """The row of the table that decides about exceptions of a class."""
    return next((row for row, _ in _REASONS if issubclass(kind, row)), None)


def dns_reason(exc: OSError) -> str:
    """Is it certain that there is no such name?"""
    return "dns_not_found" if exc.errno in _NO_SUCH_NAME else "dns_failed"


def _own_error(exc: BaseException) -> FetchError | None:
    """What a part of ours said within the library, which may have put words of its own around it."""
    return next((each for each in (exc, exc.__cause__) if isinstance(each, FetchError)), None)


def _certificate_reason(exc: BaseException, _answered: bool) -> str:
    code = getattr(getattr(exc, "certificate_error", exc), "verify_code", 0)
    if code in _OUT_OF_DATE:
        return "tls_expired"
    if code in _NOT_TRUSTED:
        return "tls_untrusted"
    return "tls_wrong_host" if code in _OTHER_NAME else "tls_certificate"


def _name_reason(exc: aiohttp.ClientConnectorDNSError | socket.gaierror, _answered: bool) -> str:
    return dns_reason(exc.os_error if isinstance(exc, aiohttp.ClientConnectorDNSError) else exc)


def _connect_reason(exc: aiohttp.ClientConnectorError, _answered: bool) -> str:
    return "connect_refused" if exc.os_error.errno == errno.ECONNREFUSED else "connect_failed"


def _silence_reason(_exc: BaseException, answered: bool) -> str:
    return "timeout_body" if answered else "timeout_first_byte"


def _broken_reason(_exc: BaseException, answered: bool) -> str:
    """Of those that say no more than that the connection is no good."""
    return "connection_lost" if answered else "connect_failed"


# The most special first: many of these are subclasses of later ones.
_REASONS: tuple[tuple[type[BaseException], str | Decide], ...] = (
    # proxies; the ways through them (`proxied`) know more, and mostly speak first
    (aiohttp_socks.ProxyTimeoutError, "proxy_gateway"),
    (aiohttp_socks.ProxyConnectionError, "proxy_failed"),
    (aiohttp_socks.ProxyError, "proxy_failed"),
    (python_socks.ProxyTimeoutError, "proxy_gateway"),
    (python_socks.ProxyConnectionError, "proxy_failed"),
    (python_socks.ProxyError, "proxy_failed"),
    (aiohttp.ClientProxyConnectionError, _connect_reason),
    (aiohttp.ClientHttpProxyError, "bad_http"),
    # TLS
    (aiohttp.ClientConnectorCertificateError, _certificate_reason),
    (ssl.SSLCertVerificationError, _certificate_reason),
    (aiohttp.ServerFingerprintMismatch, "tls_certificate"),
    (aiohttp.ClientSSLError, "tls_failed"),
    (ssl.SSLZeroReturnError, "connection_lost"),
    (ssl.SSLError, "tls_failed"),
    # deadlines; a TLS handshake that stalls is part of connecting
    (aiohttp.ConnectionTimeoutError, "timeout_connect"),
    (aiohttp.SocketTimeoutError, _silence_reason),
    (TimeoutError, "timeout_total"),
    # names and addresses
    (aiohttp.ClientConnectorDNSError, _name_reason),
    (socket.gaierror, _name_reason),
    (UnicodeError, "dns_not_found"),
    (aiohttp.InvalidURL, "bad_url"),
    (aiohttp.NonHttpUrlClientError, "bad_url"),
    (aiohttp.RedirectClientError, "bad_url"),
    # connections
    (aiohttp.ClientConnectorError, _connect_reason),
    (ConnectionRefusedError, "connect_refused"),
    (aiohttp.ServerDisconnectedError, "connection_lost"),
    (aiohttp.ClientPayloadError, "connection_lost"),
    (aiohttp.UploadAbortedError, "connection_lost"),
    (ConnectionError, "connection_lost"),
    (EOFError, "connection_lost"),
    (aiohttp.ClientOSError, "connection_lost"),
    # what was said
    (aiohttp.ClientResponseError, "bad_http"),
    (HttpProcessingError, "bad_http"),
    (WSMessageTypeError, "bad_http"),
    # the plain ones, which say no more than their name does
    (aiohttp.ClientError, _broken_reason),
    (OSError, _broken_reason),
    (ValueError, "bad_http"),
)
