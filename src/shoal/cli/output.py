"""Results as lines: JSON Lines or CSV, written as they come."""

from __future__ import annotations

import csv
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

import orjson

from shoal.core.field import parse_fields
from shoal.core.spec import JobSpec
from shoal.errors import InputError
from shoal.store.pages import DeadLetter, ItemRow, PageRow

Record = dict[str, Any]

PAGE_COLUMNS = (
    "url",
    "status",
    "depth",
    "content_type",
    "size",
    "elapsed_ms",
    "fetched_at",
    "redirect",
    "canonical",
)
DEAD_COLUMNS = ("url", "outcome", "reason", "detail", "attempts", "depth", "at")
_FORMULA_START = ("=", "+", "-", "@", "\t", "\r")


class Writer(Protocol):
    """Takes records one by one."""

    def write(self, records: Iterable[Record]) -> None: ...


class JsonLines:
    """One JSON object a line."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, records: Iterable[Record]) -> None:
        self._file.writelines(orjson.dumps(record).decode() + "\n" for record in records)
        self._file.flush()


class Csv:
    """Comma-separated values; lists as JSON; cells that a spreadsheet would run as a formula made harmless."""

    def __init__(self, file: TextIO, columns: Sequence[str]) -> None:
        self._file = file
        self._columns = columns
        self._writer = csv.writer(file)
        self._writer.writerow(columns)
        file.flush()

    def write(self, records: Iterable[Record]) -> None:
        self._writer.writerows([_cell(record.get(name)) for name in self._columns] for record in records)
        self._file.flush()


def _cell(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        value = orjson.dumps(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULA_START):
        return "'" + value
    return value


def item_columns(spec: JobSpec) -> tuple[str, ...]:
    return ("url", *(field.name for field in parse_fields(spec.fields)))


def item_record(item: ItemRow) -> Record:
    return {"url": item.url, **item.data}


def page_record(page: PageRow) -> Record:
    values = {name: getattr(page, name) for name in PAGE_COLUMNS if name != "fetched_at"}
    return {**values, "fetched_at": _iso(page.fetched_ms)}


def dead_record(letter: DeadLetter) -> Record:
    return {
        **{name: getattr(letter, name) for name in DEAD_COLUMNS if name != "at"},
        "at": _iso(letter.at_ms),
    }


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


@contextmanager
def open_writer(path: str, kind: str, columns: Sequence[str]) -> Generator[Writer]:
    """A writer to a file, or to standard output for `-`."""
    if path == "-":
        yield _writer(sys.stdout, kind, columns)
        return
    try:
        file = Path(path).expanduser().open("w", encoding="utf-8", newline="")
    except OSError as exc:
        raise InputError(f"cannot write {path}: {exc.strerror or exc}") from exc
    with file:
        yield _writer(file, kind, columns)


def _writer(file: TextIO, kind: str, columns: Sequence[str]) -> Writer:
    return Csv(file, columns) if kind == "csv" else JsonLines(file)
