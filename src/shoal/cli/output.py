"""Results into a file or onto standard output, as they come."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from shoal.errors import InputError
from shoal.store.export import Encoder, Record, encoder


class Writer:
    """Takes records and writes them at once."""

    def __init__(self, file: TextIO, encoder: Encoder) -> None:
        self._file = file
        self._encoder = encoder
        self._put(encoder.head())

    def write(self, records: Iterable[Record]) -> None:
        for record in records:
            self._file.write(self._encoder.encode([record]))
        self._file.flush()

    def _put(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


@contextmanager
def open_writer(path: str, kind: str, columns: Sequence[str]) -> Generator[Writer]:
    """A writer to a file, or to standard output for `-`."""
    if path == "-":
        yield Writer(sys.stdout, encoder(kind, columns))
        return
    try:
        file = Path(path).expanduser().open("w", encoding="utf-8", newline="")
    except OSError as exc:
        raise InputError(f"cannot write {path}: {exc.strerror or exc}") from exc
    with file:
        yield Writer(file, encoder(kind, columns))
