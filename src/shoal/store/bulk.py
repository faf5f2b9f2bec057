"""Many rows of a table in one call: to SQLite as one long statement, to PostgreSQL as one text.

SQLite's driver lets go of Python's lock for each statement, and waits to have it back: with a statement for each row, a
batch beside a busy event loop takes five times as long as alone, and both lose time whenever they hand over.

PostgreSQL reads the text, a list of objects, as a table. That is one statement and one trip for a batch, it leaves
nothing behind on the connection, and what happens to a row whose key is there is said as in any other insert: measured
against COPY and the others in the decision "A batch is one text" (docs/adr).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from shoal.errors import RowRefused

AT_ONCE = 1_000
"""Rows of one statement."""
TOGETHER = (8, 32, 128)
"""Rows that a statement of SQLite can have. Each length is a statement that is kept, the longest of half a megabyte."""
MOST_TOGETHER = 1 << 20
"""Characters or bytes of their long column, unless one row has more: the driver keeps them until it gets the next."""
MOST_CHARS = 16_000_000
"""And its text, unless one row is longer."""
_REFUSED = "the database does not take this row: "

Values = Mapping[str, object]


class Bulk:
    """Inserts rows that have all columns but the id, or some; with a `key`, rows that are there are replaced."""

    def __init__(
        self, dialect: str, table: sa.Table, key: tuple[str, ...] = (), *, long: str = "", only: Sequence[str] = ()
    ) -> None:
        """`long`: the column that can be a million characters; `only`: all others have their defaults."""
        self._key, self._is_text = key, dialect == "postgresql"
        columns = [table.c[name] for name in only] or [column for column in table.c if column.name != "id"]
        self._names = names = [str(column.name) for column in columns]
        rest = [column for column in table.c if column.name not in (*names, "id")]
        self._from_text = _insert(table, names, rest, key, _text_read(columns)) if self._is_text else ""
        lengths = () if self._is_text else TOGETHER
        self._from_values = {most: _insert(table, names, rest, key, _values_read(names, most)) for most in lengths}
        self._in_order = itemgetter(*names)
        self._long = names.index(long) if long else None
        self._binary = tuple(column.name for column in columns if isinstance(column.type, sa.LargeBinary))

    def write(self, connection: Connection, rows: Sequence[Values]) -> None:
        """In this order; of rows with the same key the last one counts."""
        if not self._is_text:
            self._write_at_once(connection, list(map(self._in_order, rows)))
            return
        unique = list({tuple(row[name] for name in self._key): row for row in rows}.values()) if self._key else rows
        for text in self._texts(unique):
            connection.exec_driver_sql(self._from_text, (text,))

    def write_values(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """The same, of rows that are values in the order of the columns: SQLite takes them as they are."""
        if self._is_text:
            self.write(connection, [dict(zip(self._names, row, strict=True)) for row in rows])
        else:
            self._write_at_once(connection, rows)

    def _write_at_once(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        for part in self._parts(rows):
            most = next(most for most in TOGETHER if most >= len(part))
            values = list(chain.from_iterable(part))
            values += repeat(None, most * len(self._names) - len(values))
            connection.exec_driver_sql(self._from_values[most], (*values, len(part)))

    def _parts(self, rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
        """Each for one statement."""
        start = size = 0
        for at, row in enumerate(rows):
            more = 0 if self._long is None else len(row[self._long])
            if at > start and (at - start == TOGETHER[-1] or size + more > MOST_TOGETHER):
                yield rows[start:at]
                start, size = at, 0
            size += more
        if rows:
            yield rows[start:]

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


def _insert(
    table: sa.Table, names: Sequence[str], rest: Sequence[sa.Column[object]], key: tuple[str, ...], source: str
) -> str:
    """For the driver itself: the library would look at each value of each row."""
    statement = f"INSERT INTO {table.name} ({', '.join(names)}) {source}"
    if not key:
        return statement
    changed = [f"{name} = excluded.{name}" for name in names if name not in key]
    changed += [f"{column.name} = {_default(column)}" for column in rest]
    return f"{statement} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(changed)}"


def _default(column: sa.Column[object]) -> str:
    """What a row has there that does not say otherwise."""
    default = column.server_default
    return f"'{default.arg}'" if isinstance(default, sa.DefaultClause) else "NULL"


def _values_read(names: Sequence[str], most: int) -> str:
    """Values of so many rows, and then how many there are."""
    row = f"({', '.join('?' * len(names))})"
    return f"SELECT * FROM (VALUES {', '.join([row] * most)}) WHERE true LIMIT ?"


def _text_read(columns: Sequence[sa.Column[object]]) -> str:
    read = ", ".join(_read(column) for column in columns)
    typed = ", ".join(f"{column.name} {_type(column)}" for column in columns)
    return f"SELECT {read} FROM json_to_recordset(%s::json) AS given({typed})"


def _read(column: sa.Column[object]) -> str:
    return f"decode({column.name}, 'base64')" if isinstance(column.type, sa.LargeBinary) else column.name


def _type(column: sa.Column[object]) -> str:
    """What the text is read as; whether it fits into the column is found out when it is put there."""
    if isinstance(column.type, sa.Integer):
        return "bigint"
    return "double precision" if isinstance(column.type, sa.Float) else "text"


def _spelled(value: object) -> str | None:
    return b64encode(value).decode() if isinstance(value, bytes) else None
