"""Every exception that a fetch can raise is in the table, and has the reason that it should have."""

from __future__ import annotations

import asyncio
import builtins
import errno
import re
import socket
import ssl
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, cast

import aiohttp
import aiohttp_socks
import pytest
import python_socks
from aiohttp import client_exceptions, http_exceptions
from aiohttp.client_exceptions import UnixClientConnectorError
from aiohttp.client_reqrep import ConnectionKey, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from shoal.core.manners import Signal
from shoal.core.retry import RETRIED_REASONS, signal_of
from shoal.errors import FetchError
from shoal.fetch.proxied import WAY_ERRORS
from shoal.fetch.session_outcomes import FAILURES, classify, row_of


def key() -> ConnectionKey:
    names = list(cast("Any", ConnectionKey)._fields)
    known = {"host": "a.example", "port": 80, "is_ssl": False, "ssl": True}
    return cast("Any", ConnectionKey)(*(known.get(name) for name in names))


def request() -> RequestInfo:
    url = URL("http://a.example/")
    return RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict[str]()), url)


def refused() -> OSError:
    return ConnectionRefusedError(errno.ECONNREFUSED, "refused")


def unreachable() -> OSError:
    return OSError(errno.ENETUNREACH, "unreachable")


def unverified(code: int = 0) -> ssl.SSLCertVerificationError:
    """As OpenSSL's own have it."""
    error = ssl.SSLCertVerificationError(1, "bad")
    error.verify_code = code
    return error


def twice(reason: str) -> tuple[str, str]:
    """The same before the head of the answer has come and after."""
    return reason, reason


BEFORE_AND_AFTER = ("connect_failed", "connection_lost")
"""For the plain classes, which say no more than that the connection is no good."""
LOST = twice("connection_lost")
BAD_HTTP = twice("bad_http")
BAD_URL = twice("bad_url")
TLS = twice("tls_failed")

# An instance of each class, and its reason before the head of the answer has come and after.
EXPECTED: list[tuple[BaseException, tuple[str, str]]] = [
    # aiohttp
    (aiohttp.ClientError("x"), BEFORE_AND_AFTER),
    (aiohttp.ClientConnectionError("x"), BEFORE_AND_AFTER),
    (aiohttp.ServerConnectionError("x"), BEFORE_AND_AFTER),
    (aiohttp.UploadAbortedError("x"), LOST),
    (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), LOST),
    (aiohttp.ClientConnectionResetError("x"), LOST),
    (aiohttp.ClientConnectorError(key(), refused()), twice("connect_refused")),
    (aiohttp.ClientConnectorError(key(), unreachable()), twice("connect_failed")),
    (aiohttp.ClientProxyConnectionError(key(), refused()), twice("connect_refused")),
    (UnixClientConnectorError("/s", key(), unreachable()), twice("connect_failed")),
    (
        aiohttp.ClientConnectorDNSError(key(), socket.gaierror(socket.EAI_NONAME, "unknown")),
        twice("dns_not_found"),
    ),
    (aiohttp.ClientConnectorDNSError(key(), socket.gaierror(socket.EAI_AGAIN, "later")), twice("dns_failed")),
    (aiohttp.ClientSSLError(key(), unreachable()), TLS),
    (aiohttp.ClientConnectorSSLError(key(), ssl.SSLError(1, "bad")), TLS),
    (aiohttp.ClientConnectorCertificateError(key(), unverified()), twice("tls_certificate")),
    (aiohttp.ClientConnectorCertificateError(key(), ValueError("x")), twice("tls_certificate")),
    (aiohttp.ClientConnectorCertificateError(key(), unverified(10)), twice("tls_expired")),
    (aiohttp.ServerFingerprintMismatch(b"a", b"b", "h", 1), twice("tls_certificate")),
    (aiohttp.ServerDisconnectedError(), LOST),
    (aiohttp.ClientPayloadError("x"), LOST),
    (aiohttp.ServerTimeoutError("x"), twice("timeout_total")),
    (aiohttp.ConnectionTimeoutError("x"), twice("timeout_connect")),
    (aiohttp.SocketTimeoutError("x"), ("timeout_first_byte", "timeout_body")),
    (aiohttp.ClientResponseError(request(), ()), BAD_HTTP),
    (aiohttp.ContentTypeError(request(), ()), BAD_HTTP),
    (aiohttp.ClientHttpProxyError(request(), ()), BAD_HTTP),
    (aiohttp.WSServerHandshakeError(request(), ()), BAD_HTTP),
    (aiohttp.WSMessageTypeError("x"), BAD_HTTP),
    (aiohttp.TooManyRedirects(request(), ()), BAD_HTTP),
    (aiohttp.InvalidURL("x"), BAD_URL),
    (aiohttp.InvalidUrlClientError("x"), BAD_URL),
    (aiohttp.InvalidUrlRedirectClientError("x"), BAD_URL),
    (aiohttp.NonHttpUrlClientError("x"), BAD_URL),
    (aiohttp.NonHttpUrlRedirectClientError("x"), BAD_URL),
    (aiohttp.RedirectClientError("x"), BAD_URL),
    # its parser
    (http_exceptions.HttpProcessingError(message="x"), BAD_HTTP),
    (http_exceptions.BadHttpMessage("x"), BAD_HTTP),
    (http_exceptions.HttpBadRequest("x"), BAD_HTTP),
    (http_exceptions.PayloadEncodingError("x"), BAD_HTTP),
    (http_exceptions.ContentEncodingError("x"), BAD_HTTP),
    (http_exceptions.TransferEncodingError("x"), BAD_HTTP),
    (http_exceptions.ContentLengthError("x"), BAD_HTTP),
    (http_exceptions.DecompressSizeError("x"), BAD_HTTP),
    (http_exceptions.LineTooLong("x"), BAD_HTTP),
    (http_exceptions.InvalidHeader("x"), BAD_HTTP),
    (http_exceptions.BadStatusLine("x"), BAD_HTTP),
    (http_exceptions.BadHttpMethod("x"), BAD_HTTP),
    (http_exceptions.InvalidURLError("x"), BAD_HTTP),
    # its SOCKS connector; of the old names two are classes of python_socks
    (aiohttp_socks.ProxyError("x"), twice("proxy_failed")),
    (aiohttp_socks.ProxyConnectionError("x"), twice("proxy_failed")),
    (aiohttp_socks.ProxyTimeoutError("x"), twice("proxy_gateway")),
    (python_socks.ProxyError("x"), twice("proxy_failed")),
    (python_socks.ProxyConnectionError("x"), twice("proxy_failed")),
    (python_socks.ProxyTimeoutError("x"), twice("proxy_gateway")),
    # TLS
    (ssl.SSLError(1, "bad"), TLS),
    (ssl.SSLEOFError(1, "bad"), TLS),
    (ssl.SSLSyscallError(1, "bad"), TLS),
    (ssl.SSLWantReadError(1, "bad"), TLS),
    (ssl.SSLWantWriteError(1, "bad"), TLS),
    (ssl.SSLZeroReturnError(1, "closed"), LOST),
    (ssl.SSLCertVerificationError(1, "bad"), twice("tls_certificate")),
    # the system
    (socket.gaierror(socket.EAI_NONAME, "unknown"), twice("dns_not_found")),
    (socket.gaierror(socket.EAI_FAIL, "failed"), twice("dns_failed")),
    (socket.herror(1, "unknown"), BEFORE_AND_AFTER),
    (TimeoutError(), twice("timeout_total")),
    (ConnectionError("x"), LOST),
    (ConnectionResetError(errno.ECONNRESET, "reset"), LOST),
    (ConnectionAbortedError(errno.ECONNABORTED, "aborted"), LOST),
    (BrokenPipeError(errno.EPIPE, "pipe"), LOST),
    (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), twice("connect_refused")),
    (OSError(errno.EMFILE, "too many open files"), BEFORE_AND_AFTER),
    (PermissionError(errno.EPERM, "no way out"), BEFORE_AND_AFTER),
    (InterruptedError(errno.EINTR, "x"), BEFORE_AND_AFTER),
    (BlockingIOError(errno.EAGAIN, "x"), BEFORE_AND_AFTER),
    # what is raised about values
    (ValueError("x"), BAD_HTTP),
    (UnicodeError("label empty or too long"), twice("dns_not_found")),
    (UnicodeDecodeError("idna", b"x", 0, 1, "x"), twice("dns_not_found")),
    (UnicodeEncodeError("idna", "x", 0, 1, "x"), twice("dns_not_found")),
    (UnicodeTranslateError("x", 0, 1, "x"), twice("dns_not_found")),
    (EOFError(), LOST),
    (asyncio.IncompleteReadError(b"", 1), LOST),
]

ELSEWHERE: set[type[BaseException]] = {
    aiohttp.WebSocketError,  # we open no WebSockets
    aiohttp.BadContentDispositionHeader,  # warnings about multipart forms
    aiohttp.BadContentDispositionParam,
    aiohttp.EofStream,  # between the library's own parts
    aiohttp_socks.SocksError,  # old names of python_socks' classes
    aiohttp_socks.SocksConnectionError,
    ChildProcessError,  # about processes and files
    ProcessLookupError,
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
}
"""Exceptions that cannot come out of a fetch."""


def exceptions_in(module: ModuleType, below: tuple[type[BaseException], ...]) -> Iterator[type[BaseException]]:
    for name, value in vars(module).items():
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, below):
            yield value


def raised_by_libraries() -> set[type[BaseException]]:
    libraries = (aiohttp, client_exceptions, http_exceptions, aiohttp_socks, python_socks, ssl, socket)
    found = {kind for each in libraries for kind in exceptions_in(each, (BaseException,))}
    found |= set(exceptions_in(builtins, (OSError, ValueError, EOFError)))
    return found | descendants(aiohttp.ClientError) | descendants(http_exceptions.HttpProcessingError)


def descendants(kind: type[BaseException]) -> set[type[BaseException]]:
    below = {each for each in kind.__subclasses__() if each.__module__.startswith("aiohttp.")}
    return below.union(*(descendants(each) for each in below))


def names(kinds: Iterable[type[BaseException]]) -> list[str]:
    return sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)


def test_no_exception_of_the_libraries_and_the_system_is_left_out() -> None:
    shown = {type(exc) for exc, _ in EXPECTED} | ELSEWHERE
    assert names(raised_by_libraries() - shown) == []


@pytest.mark.parametrize(("exc", "reasons"), EXPECTED, ids=lambda value: type(value).__name__)
def test_every_exception_has_the_reason_that_it_should_have(exc: Exception, reasons: tuple[str, str]) -> None:
    assert (classify(exc).reason, classify(exc, answered=True).reason) == reasons


PLAIN = {aiohttp.ClientError, OSError, ValueError}
"""Rows for what has no row of its own."""


def test_only_what_says_nothing_itself_falls_to_the_rows_of_the_plain_classes() -> None:
    fallen = {type(exc) for exc, _ in EXPECTED if row_of(type(exc)) in PLAIN}
    connections = {aiohttp.ClientError, aiohttp.ClientConnectionError, aiohttp.ServerConnectionError}
    assert fallen == connections | {
        OSError,
        socket.herror,
        PermissionError,
        InterruptedError,
        BlockingIOError,
        ValueError,
    }


def test_an_exception_that_nobody_has_thought_of_says_so() -> None:
    class Unheard(Exception):
        """Of no library."""

    assert row_of(Unheard) is None
    assert (classify(Unheard("x")).reason, classify(Unheard("x")).detail) == ("internal_error", "Unheard: x")


def test_what_is_in_the_table_is_caught() -> None:
    caught = (*FAILURES, *WAY_ERRORS)
    inside = {aiohttp.WSMessageTypeError, python_socks.ProxyError}  # no WebSockets; the connector catches its own
    missed = {type(exc) for exc, _ in EXPECTED if not isinstance(exc, caught)}
    assert missed == inside


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (9, "tls_expired"),
        (10, "tls_expired"),
        (2, "tls_untrusted"),
        (18, "tls_untrusted"),
        (19, "tls_untrusted"),
        (20, "tls_untrusted"),
        (21, "tls_untrusted"),
        (27, "tls_untrusted"),
        (62, "tls_wrong_host"),
        (64, "tls_wrong_host"),
        (23, "tls_certificate"),  # revoked
        (66, "tls_certificate"),  # its key is too small
    ],
)
def test_what_openssl_says_of_a_certificate_is_kept(code: int, reason: str) -> None:
    assert classify(unverified(code)).reason == reason
    assert classify(aiohttp.ClientConnectorCertificateError(key(), unverified(code))).reason == reason


def test_our_own_error_passes_as_it_is() -> None:
    error = FetchError("too_large", "x")
    assert classify(error) is error


def test_our_own_error_is_found_again_in_the_words_of_the_library() -> None:
    blocked = FetchError("blocked_address", "10.0.0.1 is private")
    wrapped = aiohttp.ClientConnectionError("cannot connect")
    wrapped.__cause__ = blocked
    assert classify(wrapped) is blocked


@pytest.mark.parametrize(
    ("exc", "detail"),
    [
        (aiohttp.ClientPayloadError(), "ClientPayloadError"),
        (TimeoutError(), "the whole fetch took too long"),
        (ValueError("x"), "x"),
    ],
)
def test_a_detail_is_never_empty(exc: Exception, detail: str) -> None:
    assert classify(exc).detail == detail


def test_only_what_may_pass_is_among_the_reasons_that_are_retried() -> None:
    given = {reason for _, reasons in EXPECTED for reason in reasons}
    assert given - RETRIED_REASONS == {"tls_failed", "tls_certificate", "tls_expired", "bad_url", "dns_not_found"}
    assert all(re.fullmatch("[a-z_]+", reason) for reason in given)


@pytest.mark.parametrize("reason", ["tls_certificate", "tls_expired", "tls_untrusted", "tls_wrong_host", "tls_failed"])
def test_a_host_with_a_bad_certificate_is_not_down(reason: str) -> None:
    assert signal_of(reason) is Signal.ALIVE


def test_a_blocked_address_says_nothing_about_the_host() -> None:
    assert signal_of("blocked_address") is Signal.NONE
