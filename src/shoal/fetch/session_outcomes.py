"""The reasons for what aiohttp and its SOCKS connector raise: when something is posted, or fetched through a proxy."""

from __future__ import annotations

import errno

import aiohttp
import aiohttp_socks
import python_socks
from aiohttp.client_exceptions import WSMessageTypeError
from aiohttp.http_exceptions import HttpProcessingError

from shoal.errors import FetchError
from shoal.fetch import outcomes
from shoal.fetch.outcomes import CERTIFICATES, PLAIN, SPECIAL, Reasons, broken_reason, certificate_reason, dns_reason

FAILURES: tuple[type[Exception], ...] = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError, ValueError)
"""What a session may raise: all else is a fault of ours."""


def classify(exc: BaseException, *, answered: bool = False) -> FetchError:
    """The stable reason for anything that a session raises."""
    return outcomes.classify(exc, answered=answered, reasons=_REASONS)


def row_of(kind: type[BaseException]) -> type[BaseException] | None:
    """The row of the table that decides about exceptions of a class."""
    return next((row for row, _ in _REASONS if issubclass(kind, row)), None)


def _name_reason(exc: aiohttp.ClientConnectorDNSError, _answered: bool) -> str:
    return dns_reason(exc.os_error)


def _connect_reason(exc: aiohttp.ClientConnectorError, _answered: bool) -> str:
    return "connect_refused" if exc.os_error.errno == errno.ECONNREFUSED else "connect_failed"


def _silence_reason(_exc: BaseException, answered: bool) -> str:
    return "timeout_body" if answered else "timeout_first_byte"


_REASONS: Reasons = (
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
    (aiohttp.ClientConnectorCertificateError, certificate_reason),
    *CERTIFICATES,
    (aiohttp.ServerFingerprintMismatch, "tls_certificate"),
    (aiohttp.ClientSSLError, "tls_failed"),
    # deadlines
    (aiohttp.ConnectionTimeoutError, "timeout_connect"),
    (aiohttp.SocketTimeoutError, _silence_reason),
    # names and addresses
    (aiohttp.ClientConnectorDNSError, _name_reason),
    (aiohttp.InvalidURL, "bad_url"),
    (aiohttp.NonHttpUrlClientError, "bad_url"),
    (aiohttp.RedirectClientError, "bad_url"),
    # connections
    (aiohttp.ClientConnectorError, _connect_reason),
    (aiohttp.ServerDisconnectedError, "connection_lost"),
    (aiohttp.ClientPayloadError, "connection_lost"),
    (aiohttp.UploadAbortedError, "connection_lost"),
    *SPECIAL,
    (aiohttp.ClientOSError, "connection_lost"),
    # what was said
    (aiohttp.ClientResponseError, "bad_http"),
    (HttpProcessingError, "bad_http"),
    (WSMessageTypeError, "bad_http"),
    # the plain ones, which say no more than their name does
    (aiohttp.ClientError, broken_reason),
    *PLAIN,
)
