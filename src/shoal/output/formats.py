"""Files of every format: written in constant memory, complete or not at all.

JSON Lines, and CSV whose columns are known, take one pass over the rows. Formats with types take two: the first looks
at every value, so that no row can be met in the second that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from shoal.core.frozen import frozen
from shoal.core.json_line import json_line
from shoal.errors import InputError, Unavailable
from shoal.output.columns import Column, Shape, Unfit
from shoal.output.parquet import ParquetFile, need_pyarrow
from shoal.output.source import Batch, Source
from shoal.output.sqlite_file import SqliteFile
from shoal.store.export import Encoder, Record, encoder

FORMATS = ("jsonl", "csv", "parquet", "sqlite")
LINES = ("jsonl", "csv")
"""Formats of lines: these can be written as results come."""
MEDIA_TYPES = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "sqlite": "application/vnd.sqlite3",
}
_ENDINGS = {
    "csv": "csv",
    "parquet": "parquet",
    "pq": "parquet",
    "sqlite": "sqlite",
    "sqlite3": "sqlite",
    "db": "sqlite",
}


class Writer(Protocol):
    """A file under construction."""

    def write(self, records: Iterable[Record]) -> None: ...
    def close(self) -> None:
        """It is complete."""
        ...

    def abandon(self) -> None:
        """It will never be."""
        ...


@frozen
class Written:
    """What stands in a file."""

    rows: int
    last_id: int
    """Of its last row; 0 when there is none."""
    columns: tuple[Column, ...]
    digest: str = ""
    """Of the rows, if that was asked for."""


class RowsDigest:
    """A digest of rows, which tells whether they are still the same."""

    def __init__(self) -> None:
        self._sum = sha256()

    @property
    def text(self) -> str:
        return self._sum.hexdigest()

    def take(self, batch: Batch) -> None:
        for _, record in batch:
            self._sum.update(json_line(record).encode())

    def listening(self, source: Source) -> Source:
        """The same source; what is read of it is taken."""
        return _Heard(source.what, source.names, source.types, source.closed, source.read, self)


@frozen
class _Heard(Source):
    """A source to whose batches somebody listens."""

    ear: RowsDigest

    def batches(self, after: int = 0, until: int | None = None) -> Iterator[Batch]:
        for batch in Source.batches(self, after, until):
            self.ear.take(batch)
            yield batch


def format_of(name: str, chosen: str | None = None) -> str:
    """The format that was asked for, else by the file's ending, else JSON Lines."""
    if chosen:
        if chosen not in FORMATS:
            raise InputError(f"--format {chosen!r}: there are {', '.join(FORMATS[:-1])} and {FORMATS[-1]}")
        return chosen
    return _ENDINGS.get(name.lower().rpartition(".")[2], "jsonl") if "." in name else "jsonl"


def check_format(kind: str) -> None:
    """Say what is missing for a format before anything is done."""
    if kind == "parquet":
        need_pyarrow()


def write_file(
    source: Source,
    kind: str,
    path: Path,
    *,
    after: int = 0,
    until: int | None = None,
    shape: Shape | None = None,
    digest: bool = False,
) -> Written:
    """Write rows to a new file; one that was there is overwritten. With a `digest` of the rows as they were written."""
    shape = shape or look(source, kind, after, until)
    while True:
        columns, hashed = shape.columns(), RowsDigest()
        try:
            read = hashed.listening(source) if digest else source
            rows, last = _write(read, kind, path, columns, after, until)
        except Unfit as unfit:  # it was changed after it was looked at; each time one column less is left to change
            shape.forget_type(unfit.column)
            continue
        return Written(rows, last, columns, hashed.text if digest else "")


def look(source: Source, kind: str, after: int = 0, until: int | None = None) -> Shape:
    """The first pass: which columns there are, and of which types. Lines with known columns need none."""
    shape = source.shape()
    if kind != "jsonl" and not (kind == "csv" and source.closed):
        for batch in source.batches(after, until):
            for _, record in batch:
                shape.look(record)
    return shape


def lines(source: Source, kind: str) -> Iterator[str]:
    """Rows as lines of text, as they are read."""
    names = [column.name for column in look(source, kind).columns()]
    encode: Encoder = encoder(kind, names)
    yield encode.head()
    for batch in source.batches():
        yield encode.encode(record for _, record in batch)


def open_file(kind: str, path: Path, columns: Sequence[Column], table: str) -> Writer:
    """A new file of a format."""
    if kind == "parquet":
        return ParquetFile(path, columns)
    if kind == "sqlite":
        path.unlink(missing_ok=True)
        return SqliteFile(path, columns, table)
    return _LineFile(path, encoder(kind, [column.name for column in columns]))


class _LineFile:
    """Lines of JSON or CSV."""

    def __init__(self, path: Path, encode: Encoder) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._encode = encode
        self._file.write(encode.head())

    def write(self, records: Iterable[Record]) -> None:
        self._file.write(self._encode.encode(records))

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        self._file.close()


def _write(
    source: Source, kind: str, path: Path, columns: Sequence[Column], after: int, until: int | None
) -> tuple[int, int]:
    try:
        file = open_file(kind, path, columns, source.what)
    except OSError as exc:
        raise Unavailable(f"cannot write {path}: {exc.strerror or exc}") from exc
    rows, last = 0, 0
    try:
        for batch in source.batches(after, until):
            file.write(record for _, record in batch)
            rows, last = rows + len(batch), batch[-1][0]
        file.close()
    except OSError as exc:
        raise Unavailable(f"cannot write {path}: {exc.strerror or exc}") from exc
    except BaseException:
        file.abandon()
        raise
    return rows, last
