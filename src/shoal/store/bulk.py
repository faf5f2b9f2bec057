"""Many rows of a table in one call: to SQLite one by one, which is what it is fastest at, to PostgreSQL as one text.

PostgreSQL reads the text, a list of objects, as a table. That is one statement and one trip for a batch, it leaves
nothing behind on the connection, and what happens to a row whose key is there is said as in any other insert: measured
against COPY and the others in the decision "A batch is one text" (docs/adr).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from shoal.errors import RowRefused
from shoal.store.upsert import upsert

AT_ONCE = 1_000
"""Rows of one statement."""
MOST_CHARS = 16_000_000
"""And its text, unless one row is longer."""
_REFUSED = "the database does not take this row: "

Values = Mapping[str, object]


class Bulk:
    """Inserts rows that have all columns but the id; with a `key`, rows that are there are replaced."""

    def __init__(self, dialect: str, table: sa.Table, key: tuple[str, ...] = ()) -> None:
        self._table, self._key = table, key
        self._is_text = dialect == "postgresql"
        self._statement = _from_text(table, key) if self._is_text else _one_by_one(dialect, table, key)
        self._in_order = itemgetter(*(column.name for column in table.c if column.name != "id"))
        self._binary = tuple(column.name for column in table.c if isinstance(column.type, sa.LargeBinary))

    def write(self, connection: Connection, rows: Sequence[Values]) -> None:
        """In this order; of rows with the same key the last one counts."""
        if not self._is_text:
            connection.exec_driver_sql(self._statement, list(map(self._in_order, rows)))
            return
        unique = list({tuple(row[name] for name in self._key): row for row in rows}.values()) if self._key else rows
        for text in self._texts(unique):
            connection.exec_driver_sql(self._statement, (text,))

    def _texts(self, rows: Sequence[Values]) -> Iterator[str]:
        """Each for one statement: PostgreSQL takes a gigabyte at most, and needs several times as much for it."""
        for start in range(0, len(rows), AT_ONCE):
            yield from self._cut(rows[start : start + AT_ONCE])

    def _cut(self, rows: Sequence[Values]) -> Iterator[str]:
        text = self._text(rows)
        if len(text) <= MOST_CHARS or len(rows) == 1:
            yield text
            return
        middle = len(rows) // 2
        yield from self._cut(rows[:middle])
        yield from self._cut(rows[middle:])

    def _text(self, rows: Sequence[Values]) -> str:
        if self._binary:
            rows = [{**row, **{name: _spelled(row[name]) for name in self._binary}} for row in rows]
        try:
            text = orjson.dumps(rows).decode()
        except TypeError as exc:  # half a character, or a number beyond 64 bits
            raise RowRefused(f"{_REFUSED}a value is no text, or out of range: {exc}") from exc
        if "\\u0000" in text and any(
            isinstance(value, str) and "\0" in value for row in rows for value in row.values()
        ):
            raise RowRefused(f"{_REFUSED}PostgreSQL's texts cannot contain NUL")
        return text


def _one_by_one(dialect: str, table: sa.Table, key: tuple[str, ...]) -> str:
    """For the driver itself, with a row's values in their order: the library would look at each value of each row."""
    from sqlalchemy.dialects import sqlite

    insert = upsert(dialect, table, key) if key else sa.insert(table)
    columns = [column.name for column in table.c if column.name != "id"]
    return str(insert.compile(dialect=sqlite.dialect(), column_keys=columns))


def _from_text(table: sa.Table, key: tuple[str, ...]) -> str:
    columns = [column for column in table.c if column.name != "id"]
    listed = ", ".join(column.name for column in columns)
    read = ", ".join(_read(column) for column in columns)
    typed = ", ".join(f"{column.name} {_type(column)}" for column in columns)
    statement = f"INSERT INTO {table.name} ({listed}) SELECT {read} FROM json_to_recordset(%s::json) AS given({typed})"
    if not key:
        return statement
    changed = ", ".join(f"{column.name} = excluded.{column.name}" for column in columns if column.name not in key)
    return f"{statement} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}"


def _read(column: sa.Column[object]) -> str:
    return f"decode({column.name}, 'base64')" if isinstance(column.type, sa.LargeBinary) else column.name


def _type(column: sa.Column[object]) -> str:
    """What the text is read as; whether it fits into the column is found out when it is put there."""
    if isinstance(column.type, sa.Integer):
        return "bigint"
    return "double precision" if isinstance(column.type, sa.Float) else "text"


def _spelled(value: object) -> str | None:
    return b64encode(value).decode() if isinstance(value, bytes) else None
