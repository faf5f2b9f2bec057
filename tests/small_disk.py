"""A small disk of its own, which a test can fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import lack


@contextmanager
def small_disk(folder: Path) -> Generator[Path]:
    """A disk of 16 MB of its own."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "shoal-test", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        lack("a small disk cannot be mounted here (needs root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Callable[[], None]:
    """Leave no byte free; returns what makes room again."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (100_000, 1_000, 1):
            with pytest.raises(OSError, match="No space left"):
                while True:
                    assert file.write(b"\0" * size) > 0
    return filler.unlink
