"""A SQLite file with one table: numbers and truths as such, texts as they are, lists and objects as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from shoal.core.redact import encodable
from shoal.output.columns import Column, Rows, Scalar, Type, as_text
from shoal.store.export import Record

AT_ONCE = 1_000
_TYPES = {Scalar.BOOL: "BOOLEAN", Scalar.INTEGER: "INTEGER", Scalar.NUMBER: "REAL"}


class SqliteFile:
    """A file under construction; nobody reads it before it is complete, so it needs no journal."""

    def __init__(self, path: Path, columns: Sequence[Column], table: str) -> None:
        self._rows = Rows(columns)
        self._connection = sqlite3.connect(path, isolation_level=None, cached_statements=4)
        names = column_names([column.name for column in columns])
        declared = ", ".join(
            f"{_quoted(name)} {_type(column.type)}" for name, column in zip(names, columns, strict=True)
        )
        for statement in ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-8000"):
            self._connection.execute(statement)
        self._connection.execute(f"CREATE TABLE {_quoted(table)} ({declared})")
        marks = ", ".join("?" * len(names))
        self._insert = f"INSERT INTO {_quoted(table)} VALUES ({marks})"
        self._connection.execute("BEGIN")

    def write(self, records: Iterable[Record]) -> None:
        self._connection.executemany(self._insert, ([_plain(v) for v in self._rows.row(record)] for record in records))

    def close(self) -> None:
        self._connection.execute("COMMIT")
        self._connection.close()

    def abandon(self) -> None:
        self._connection.close()


def column_names(names: Sequence[str]) -> list[str]:
    """Names of columns that no database takes for the same: it does not tell `Title` from `title`."""
    taken: set[str] = set()
    found: list[str] = []
    for name in names:
        plain = encodable(name).replace("\x00", "") or "_"
        chosen, number = plain, 1
        while chosen.casefold() in taken:
            number += 1
            chosen = f"{plain}_{number}"
        taken.add(chosen.casefold())
        found.append(chosen)
    return found


def _type(kind: Type) -> str:
    return _TYPES.get(kind, "TEXT") if isinstance(kind, Scalar) else "TEXT"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    return as_text(value) if isinstance(value, list | dict) else value
