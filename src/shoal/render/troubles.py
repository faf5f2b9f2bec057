"""Every way in which a browser can fail, and the stable reason that stands for it.

Chromium names what went wrong with a connection (`net::ERR_…`), Playwright says the rest in words. Of a host that the
gate refused, the browser knows only that its proxy did not take it there: the gate knows why.
"""

from __future__ import annotations

import re
from typing import Protocol

from shoal.core.url import Url
from shoal.errors import FetchError

MAX_DETAIL = 300
"""Characters of a message: pages can put their own words into it."""

_NET = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_DEFAULT_PORTS = {"http": 80, "https": 443}

_REASONS = {
    "ERR_NAME_NOT_RESOLVED": "dns_not_found",
    "ERR_NAME_RESOLUTION_FAILED": "dns_failed",
    "ERR_CONNECTION_REFUSED": "connect_refused",
    "ERR_CONNECTION_FAILED": "connect_failed",
    "ERR_ADDRESS_UNREACHABLE": "connect_failed",
    "ERR_ADDRESS_INVALID": "connect_failed",
    "ERR_INTERNET_DISCONNECTED": "connect_failed",
    "ERR_NETWORK_CHANGED": "connect_failed",
    "ERR_TUNNEL_CONNECTION_FAILED": "connect_failed",
    "ERR_PROXY_CONNECTION_FAILED": "connect_failed",
    "ERR_CONNECTION_TIMED_OUT": "timeout_connect",
    "ERR_TIMED_OUT": "timeout_first_byte",
    "ERR_CONNECTION_RESET": "connection_lost",
    "ERR_CONNECTION_CLOSED": "connection_lost",
    "ERR_CONNECTION_ABORTED": "connection_lost",
    "ERR_SOCKET_NOT_CONNECTED": "connection_lost",
    "ERR_EMPTY_RESPONSE": "connection_lost",
    "ERR_CONTENT_LENGTH_MISMATCH": "connection_lost",
    "ERR_INCOMPLETE_CHUNKED_ENCODING": "connection_lost",
    "ERR_CONTENT_DECODING_FAILED": "bad_encoding",
    "ERR_CERT_DATE_INVALID": "tls_expired",
    "ERR_CERT_AUTHORITY_INVALID": "tls_untrusted",
    "ERR_CERT_COMMON_NAME_INVALID": "tls_wrong_host",
    "ERR_UNSAFE_PORT": "bad_url",
    "ERR_INVALID_URL": "bad_url",
    "ERR_DISALLOWED_URL_SCHEME": "bad_url",
    "ERR_UNKNOWN_URL_SCHEME": "bad_url",
    "ERR_INSUFFICIENT_RESOURCES": "page_too_big",
    "ERR_OUT_OF_MEMORY": "page_too_big",
}
_KINDS = (("ERR_CERT_", "tls_certificate"), ("ERR_SSL_", "tls_failed"))
"""Of whole families of errors."""


class Account(Protocol):
    """What a page has cost so far."""

    @property
    def received(self) -> int:
        """Bytes."""
        ...


class Gate(Protocol):
    """The way out of a page, as far as rendering asks it."""

    def refusal_of(self, host: str, port: int) -> FetchError | None:
        """Why this host was not connected to, if it was not."""
        ...

    def tally(self) -> Account:
        """What has gone through so far."""
        ...


def library_errors() -> tuple[type[Exception], ...]:
    """What Playwright raises; only here, because everything else must run without it."""
    from playwright.async_api import Error

    return (Error,)


def is_late(exc: BaseException) -> bool:
    """Did Playwright only run out of time?"""
    from playwright.async_api import TimeoutError as Late

    return isinstance(exc, Late)


def is_gone(exc: BaseException) -> bool:
    """Is there no page any more to do anything with?"""
    message = brief(str(exc))
    return not is_late(exc) and ("crashed" in message or "closed" in message)


def trouble_of(exc: BaseException, url: Url, gate: Gate) -> FetchError:
    """The stable reason for what Playwright raised while a page was loaded."""
    message = brief(str(exc))
    found = _NET.search(message)
    if found:
        return refusal(url, gate) or FetchError(reason_of(found[1]), message)
    if is_late(exc):
        return FetchError("render_timeout", message)
    if "Download is starting" in message:
        return FetchError("not_a_page", "it is a download")
    if "crashed" in message:
        return FetchError("page_crashed", message)
    if "closed" in message:
        return FetchError("browser_crashed", message)
    return FetchError("internal_error", message)


def reason_of(code: str) -> str:
    """The reason for one of Chromium's codes, such as ERR_CONNECTION_RESET."""
    return _REASONS.get(code) or next((reason for start, reason in _KINDS if code.startswith(start)), "bad_http")


def refusal(url: Url, gate: Gate) -> FetchError | None:
    """Why the gate did not let a page's own request through, if that was it."""
    port = url.host[len(url.hostname) :].removeprefix(":")
    return gate.refusal_of(url.hostname, int(port) if port else _DEFAULT_PORTS[url.scheme])


def brief(message: str) -> str:
    """The first line of what Playwright says, without its call log."""
    return message.partition("\n")[0].strip()[:MAX_DETAIL]
