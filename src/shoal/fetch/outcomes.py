"""Every way in which a fetch can fail, and the stable reason that stands for it.

What TLS and the system raise is looked up in one table; `session_outcomes` has more rows for what aiohttp and its SOCKS
connector raise. What we find out ourselves
(`too_large`, `bad_encoding`, `blocked_address`, …) is raised as a `FetchError` with its reason where it is found. The
guide to errors says of each reason what it means, whether it is retried, and what can be done.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from shoal.errors import FetchError

FAILURES: tuple[type[Exception], ...] = (TimeoutError, OSError, EOFError, ValueError)
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
Reasons = tuple[tuple[type[BaseException], str | Decide], ...]
"""The most special first: many classes are subclasses of later ones."""


def classify(exc: BaseException, *, answered: bool = False, reasons: Reasons | None = None) -> FetchError:
    """The stable reason for anything that a fetch raises, by this table or another."""
    own = _own_error(exc)
    if own is not None:
        return own
    detail = str(exc) or _SILENT.get(type(exc)) or type(exc).__name__
    for kind, decided in reasons or REASONS:
        if isinstance(exc, kind):
            return FetchError(decided if isinstance(decided, str) else decided(exc, answered), detail)
    return FetchError("internal_error", f"{type(exc).__name__}: {exc}")


def without_frames(exc: BaseException) -> BaseException:
    """The same, without the frames that it came through.

    Those frames keep the connection, with all that has come of the body, and it keeps what was raised: a cycle, which
    would stay until somebody looks for cycles.
    """
    each: BaseException | None = exc
    while each is not None:
        each.__traceback__, each = None, each.__cause__ or each.__context__
    return exc


def dns_reason(exc: OSError) -> str:
    """Is it certain that there is no such name?"""
    return "dns_not_found" if exc.errno in _NO_SUCH_NAME else "dns_failed"


def _own_error(exc: BaseException) -> FetchError | None:
    """What a part of ours said within the library, which may have put words of its own around it."""
    return next((each for each in (exc, exc.__cause__) if isinstance(each, FetchError)), None)


def certificate_reason(exc: BaseException, _answered: bool) -> str:
    code = getattr(getattr(exc, "certificate_error", exc), "verify_code", 0)
    if code in _OUT_OF_DATE:
        return "tls_expired"
    if code in _NOT_TRUSTED:
        return "tls_untrusted"
    return "tls_wrong_host" if code in _OTHER_NAME else "tls_certificate"


def _name_reason(exc: socket.gaierror, _answered: bool) -> str:
    return dns_reason(exc)


def broken_reason(_exc: BaseException, answered: bool) -> str:
    """Of those that say no more than that the connection is no good."""
    return "connection_lost" if answered else "connect_failed"


CERTIFICATES: Reasons = ((ssl.SSLCertVerificationError, certificate_reason),)
SPECIAL: Reasons = (
    (ssl.SSLZeroReturnError, "connection_lost"),
    (ssl.SSLError, "tls_failed"),
    # deadlines; a TLS handshake that stalls is part of connecting
    (TimeoutError, "timeout_total"),
    # names and addresses
    (socket.gaierror, _name_reason),
    (UnicodeError, "dns_not_found"),
    # connections
    (ConnectionRefusedError, "connect_refused"),
    (ConnectionError, "connection_lost"),
    (EOFError, "connection_lost"),
)
PLAIN: Reasons = (
    (OSError, broken_reason),
    (ValueError, "bad_http"),
)
"""Which say no more than their name does."""
REASONS: Reasons = (*CERTIFICATES, *SPECIAL, *PLAIN)
