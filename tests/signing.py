"""Keys and certificates by the `openssl` binary: authorities that sign for any time and any name.

`openssl ca` is used because it alone sets dates freely in all versions that are about.
"""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime
from pathlib import Path

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
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


def openssl(folder: Path, *words: str) -> None:
    """Run it in a folder."""
    found = shutil.which("openssl")
    if found is None:
        raise FileNotFoundError("openssl is not on the PATH, and makes the certificates of some tests")
    subprocess.run([found, *words], cwd=folder, capture_output=True, check=True, timeout=30)


def make_authority(folder: Path, name: str) -> None:
    """Its key and its certificate, `name.key` and `name.pem`, and what it needs to sign; there may be several."""
    (folder / "rules.cnf").write_text(_RULES, encoding="utf-8")
    (folder / "signed.txt").touch()
    files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl(folder, "req", "-x509", *NEW_KEY, *files, "-days", "2", "-subj", f"/CN=Test {name}")


def sign(folder: Path, authority: str, name: str, since: datetime, until: datetime) -> None:
    """`name.pem` from the request `name.csr`."""
    signer = ("-cert", f"{authority}.pem", "-keyfile", f"{authority}.key")
    span = ("-startdate", _stamp(since), "-enddate", _stamp(until))
    files = ("-in", f"{name}.csr", "-out", f"{name}.pem")
    openssl(folder, "ca", "-batch", "-notext", "-config", "rules.cnf", *signer, *span, *files)


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%SZ")
