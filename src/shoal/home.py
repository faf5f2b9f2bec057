"""SHOAL_HOME: the folder of everything that Shoal keeps on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from shoal.errors import StoreUnavailable

PROBE_BYTES = 1 << 20


def prepare_home(home: Path) -> None:
    """A folder that cannot be written, or a full disk, is found out now and not in the middle of a crawl."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with NamedTemporaryFile(dir=home, prefix="probe-") as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as exc:
        raise StoreUnavailable(
            f"cannot write to {home}: {exc.strerror or exc}\nMake room there, or set SHOAL_HOME to another folder."
        ) from exc
