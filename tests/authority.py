"""An authority of our own, which signs certificates of any kind for servers on loopback."""

from __future__ import annotations

import shutil
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.conftest import lack
from tests.signing import NEW_KEY, make_authority, openssl, sign

_NAME = "own"


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs what it is asked to sign, also what nobody should take."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """Its key and its certificate, in a folder of its own."""
        if shutil.which("openssl") is None:
            lack("openssl is not on the PATH, and makes the certificates of some tests")
        make_authority(folder, _NAME)
        return cls(folder)

    def server(self, names: str = "IP:127.0.0.1", since: int = 2020, until: int = 2049) -> ssl.SSLContext:
        """For a server with a certificate for these names and years."""
        name = f"{names.replace(':', '-')}-{since}-{until}"
        made = ("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=server", "-addext")
        openssl(self.folder, "req", "-new", *NEW_KEY, *made, f"subjectAltName={names}")
        sign(self.folder, _NAME, name, datetime(since, 1, 1, tzinfo=UTC), datetime(until, 1, 1, tzinfo=UTC))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context

    @property
    def client(self) -> ssl.SSLContext:
        """Trusts this authority, and nobody else."""
        return ssl.create_default_context(cafile=str(self.folder / f"{_NAME}.pem"))
