"""An authority of our own, which signs certificates of any kind for servers on loopback."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import lack

_RULES = """
[ca]
default_ca = own
[own]
database = signed.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs what it is asked to sign, also what nobody should take."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """Its key and its certificate, in a folder of its own."""
        (folder / "rules.cnf").write_text(_RULES, encoding="utf-8")
        (folder / "signed.txt").touch()
        own = cls(folder)
        own._openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", "own.key", "-out", "own.pem", "-days", "2", "-subj", "/CN=own"
        )
        return own

    def server(self, names: str = "IP:127.0.0.1", since: int = 2020, until: int = 2049) -> ssl.SSLContext:
        """For a server with a certificate for these names and years."""
        name = f"{names.replace(':', '-')}-{since}-{until}"
        made = ("-keyout", f"{name}.key", "-out", f"{name}.req", "-subj", "/CN=server", "-addext")
        self._openssl("req", "-new", *_NEW_KEY, *made, f"subjectAltName={names}")
        span = ("-startdate", f"{since}0101000000Z", "-enddate", f"{until}0101000000Z")
        signed = ("-cert", "own.pem", "-keyfile", "own.key", "-in", f"{name}.req", "-out", f"{name}.pem", "-notext")
        self._openssl("ca", "-batch", "-config", "rules.cnf", *span, *signed)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context

    @property
    def client(self) -> ssl.SSLContext:
        """Trusts this authority, and nobody else."""
        return ssl.create_default_context(cafile=str(self.folder / "own.pem"))

    def _openssl(self, *words: str) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            lack("openssl is not on the PATH, and makes the certificates of some tests")
        subprocess.run([openssl, *words], cwd=self.folder, capture_output=True, check=True, timeout=30)
