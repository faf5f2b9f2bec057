"""Certificates for hostile hosts, made by `openssl` in a folder: our own authority, and what it should not have signed.

All hosts share one key. `openssl ca` is used because it alone sets dates freely in all versions that are about.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

AUTHORITY = "authority.pem"
_KEY = "key.pem"
_CONFIG = """
[ca]
default_ca = one
[one]
database = index.txt
rand_serial = yes
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""
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
        found = shutil.which("openssl")
        if found is None:
            raise FileNotFoundError("openssl is not on the PATH, and makes the certificates of hostile hosts")
        self._openssl = found
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
        (self._folder / "ca.conf").write_text(_CONFIG)
        (self._folder / "index.txt").touch()
        for name in ("authority", "stranger"):
            new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
            self._run("req", "-x509", *new_key, *files, "-days", "2", "-subj", f"/CN=Test {name}")
        self._run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", _KEY)

    def _make_leaf(self, name: str, leaf: Leaf, address: str) -> None:
        wanted = ["-key", _KEY, "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}"]
        if not leaf.signer:
            self._run("req", "-x509", *wanted, "-days", "2", "-out", f"{name}.pem")
            return
        self._run("req", "-new", *wanted, "-out", f"{name}.csr")
        signer = ["-cert", f"{leaf.signer}.pem", "-keyfile", f"{leaf.signer}.key"]
        dates = ["-startdate", _stamp(leaf.since), "-enddate", _stamp(leaf.until)]
        files = ["-in", f"{name}.csr", "-out", f"{name}.pem"]
        self._run("ca", "-batch", "-notext", "-config", "ca.conf", *signer, *dates, *files)

    def _run(self, *args: str) -> None:
        subprocess.run([self._openssl, *args], cwd=self._folder, capture_output=True, check=True, timeout=30)


def _stamp(offset: timedelta) -> str:
    return (datetime.now(UTC) + offset).strftime("%Y%m%d%H%M%SZ")


def _speak_old_tls(context: ssl.SSLContext) -> None:
    """TLS 1.0 and nothing newer, as far as the library still can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
