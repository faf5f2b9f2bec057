"""Hosts whose TLS is at fault, and one whose is not. Their certificates come from `certificates.py`."""

from __future__ import annotations

from tests.site.hostile.case import PAGE, Case, says
from tests.site.hostile.slowness import FINE, SILENT, falls_silent

CERTIFICATE = "tls_certificate"
"""What a client says that does not tell one fault of a certificate from another."""
EXPIRED = ("tls_expired", CERTIFICATE)
UNTRUSTED = ("tls_untrusted", CERTIFICATE)
WRONG_HOST = ("tls_wrong_host", CERTIFICATE)
FAILED = ("tls_failed",)
ENDED = (*FAILED, "connection_lost", "connect_failed")
"""The host hangs up within the handshake, and does not say why."""

CASES = (
    Case("tls-good", FINE, (PAGE,), certificate="good"),
    Case("tls-expired", FINE, EXPIRED, certificate="expired"),
    Case("tls-not-yet-valid", FINE, ("tls_not_yet_valid", *EXPIRED, "tls_untrusted"), certificate="future"),
    Case("tls-self-signed", FINE, UNTRUSTED, certificate="self-signed"),
    Case("tls-unknown-authority", FINE, UNTRUSTED, certificate="stranger"),
    Case("tls-wrong-host", FINE, WRONG_HOST, certificate="elsewhere"),
    Case("tls-old-version", FINE, ENDED, certificate="old"),
    Case("tls-version-alert", says(b"\x15\x03\x01\x00\x02\x02\x46"), FAILED, tls=True, early=True),
    Case("tls-silent", falls_silent(), ("timeout_connect", *SILENT), tls=True, early=True),
    Case("tls-plain-http", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), FAILED, tls=True, early=True),
    Case("tls-nonsense", says(b"\x16\x03\x03\xff\xff" + bytes(100)), FAILED, tls=True, early=True),
    Case("tls-hangs-up", says(), ENDED, tls=True, early=True),
)
