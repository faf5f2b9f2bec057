"""Certificates for hostile hosts, made in a folder: our own authority, and what it should not have signed.

All hosts share one key.
"""

from __future__ import annotations

import ssl
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.signing import make_authority, openssl, sign

AUTHORITY = "authority.pem"
_KEY = "key.pem"
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Leaf:
    """How a certificate is at fault, or not."""

    signer: str = "authority"
    address: str = ""
    """For whom it is, when not for the host that shows it."""
    since: timedelta = -_DAY
    until: timedelta = _DAY


LEAVES = {
    "good": Leaf(),
    "old": Leaf(),
    "expired": Leaf(since=-3 * _DAY, until=-_DAY),
    "future": Leaf(since=_DAY, until=3 * _DAY),
    "self-signed": Leaf(signer=""),
    "stranger": Leaf(signer="stranger"),
    "elsewhere": Leaf(address="127.99.99.99"),
}


class Certificates:
    """The contents of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not (folder / AUTHORITY).exists():
            self._make_authorities()

    def server(self, name: str, address: str) -> ssl.SSLContext:
        """For the host at this address, which shows the certificate of this name."""
        leaf = LEAVES[name]
        self._make_leaf(name, leaf, leaf.address or address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / f"{name}.pem", self._folder / _KEY)
        if name == "old":
            _speak_old_tls(context)
        return context

    def _make_authorities(self) -> None:
        for name in ("authority", "stranger"):
            make_authority(self._folder, name)
        openssl(self._folder, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", _KEY)

    def _make_leaf(self, name: str, leaf: Leaf, address: str) -> None:
        wanted = ["-key", _KEY, "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}"]
        if not leaf.signer:
            openssl(self._folder, "req", "-x509", *wanted, "-days", "2", "-out", f"{name}.pem")
            return
        openssl(self._folder, "req", "-new", *wanted, "-out", f"{name}.csr")
        now = datetime.now(UTC)
        sign(self._folder, leaf.signer, name, now + leaf.since, now + leaf.until)


def _speak_old_tls(context: ssl.SSLContext) -> None:
    """TLS 1.0 and nothing newer, as far as the library still can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
