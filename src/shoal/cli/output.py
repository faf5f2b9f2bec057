"""Results into a file or onto standard output, as they come."""

from __future__ import annotations

import io
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from shoal.core.redact import visible
from shoal.errors import InputError
from shoal.store.export import Encoder, Record, encoder


class Writer:
    """Takes records and writes them at once."""

    def __init__(self, file: TextIO, encoder: Encoder) -> None:
        self._file = file
        self._encoder = encoder
        self._on_screen = file.isatty()
        self._put(encoder.head())

    def write(self, records: Iterable[Record]) -> None:
        for record in records:
            self._file.write(self._shown(self._encoder.encode([record])))
        self._file.flush()

    def _put(self, text: str) -> None:
        self._file.write(self._shown(text))
        self._file.flush()

    def _shown(self, text: str) -> str:
        """A terminal must not obey what strangers wrote; files and pipes get it as it is."""
        return visible(text.replace("\r\n", "\n"), lines=True) if self._on_screen else text


@contextmanager
def open_writer(path: str, kind: str, columns: Sequence[str]) -> Generator[Writer]:
    """A writer to a file, or to standard output for `-`."""
    with open_text(path) as file:
        yield Writer(file, encoder(kind, columns))


@contextmanager
def open_text(path: str) -> Generator[TextIO]:
    """A file, or standard output for `-`."""
    if path == "-":
        yield _standard_output()
        return
    try:
        file = Path(path).expanduser().open("w", encoding="utf-8", newline="")
    except OSError as exc:
        raise InputError(f"cannot write {path}: {exc.strerror or exc}") from exc
    with file:
        yield file


def _standard_output() -> TextIO:
    """UTF-8 in a pipe or a file, whatever the locale is."""
    out: object = sys.stdout
    if isinstance(out, io.TextIOWrapper) and not sys.stdout.isatty():
        out.reconfigure(encoding="utf-8", newline="")
    return sys.stdout
