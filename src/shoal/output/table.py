"""Rows into a table of a user's PostgreSQL: made with typed columns, or checked; each row known by its key.

Upserts can be repeated: whoever is cut off begins again with the rows that were not written down as delivered.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from shoal.core.output import TablePlace, as_one_column, same_but_for_case
from shoal.core.redact import encodable, without_secrets
from shoal.errors import InputError, PlaceUnavailable
from shoal.output.columns import Column, Rows, Scalar, Type, Unfit, as_text
from shoal.output.formats import RowsDigest
from shoal.output.publishing import Publication, columns_digest, type_name
from shoal.output.source import Source
from shoal.store.deliveries import Delivery, Part

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

CONNECT_S = 10
STATEMENT_MS = 120_000
MOST_NAME_BYTES = 63
_TYPES = {
    Scalar.NOTHING: "text",
    Scalar.BOOL: "boolean",
    Scalar.INTEGER: "bigint",
    Scalar.NUMBER: "double precision",
    Scalar.TEXT: "text",
    Scalar.TIME: "timestamp with time zone",
    Scalar.DATE: "date",
}
_TEXTS = frozenset({"text", "character varying", "character", "citext"})
_NUMBERS = frozenset({"double precision", "real", "numeric"})
_TAKES: dict[Scalar, frozenset[str]] = {
    Scalar.BOOL: frozenset({"boolean"}),
    Scalar.INTEGER: frozenset({"bigint", "integer", "smallint"}) | _NUMBERS,
    Scalar.NUMBER: _NUMBERS,
    Scalar.TEXT: _TEXTS,
    Scalar.TIME: frozenset({"timestamp with time zone", "timestamp without time zone"}) | _TEXTS,
    Scalar.DATE: frozenset({"date"}) | _TEXTS,
}
_JSON = frozenset({"jsonb", "json"})


class Table:
    """Takes parts into a table, where everybody sees them at once."""

    visible_at_once = True

    def __init__(self, place: TablePlace, source: Source, key: Sequence[str]) -> None:
        self._place = place
        self._source = source
        self._key = tuple(key) or (("url", "number") if source.what == "items" else ("url",))
        self._shape = source.shape()

    def prepare(self, *, last: bool) -> None:
        """Look at all rows that there are, then make the table, or see that it can take them."""
        del last
        self._shape = self._source.shape()
        for batch in self._source.batches():
            for _, record in batch:
                self._shape.look(record)
        columns = self._columns()
        with self._connected() as connection:
            found = self._found(connection)
            if found:
                self._check(columns, found)
            else:
                self._create(connection, columns)

    def put(self, number: int, after: int, until: int) -> Part:
        del number
        columns = self._columns()
        rows, digest, count = Rows(columns), RowsDigest(), 0
        with self._connected() as connection:
            statement = self._upsert(columns)
            for batch in self._source.batches(after, until):
                digest.take(batch)
                values = [_values(rows, record, self._place) for _, record in batch]
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.executemany(statement, _last_of_each(values, columns, self._key))
                count += len(batch)
        return Part("", after, until, count, 0, digest.text, columns_digest(columns))

    def stands(self, part: Part) -> bool:
        digest = RowsDigest()
        for batch in self._source.batches(part.after, part.last):
            digest.take(batch)
        return digest.text == part.digest

    def publish(self, delivery: Delivery) -> Publication:
        """Nothing is left to do: a row of a table can be seen as soon as it is there."""
        del delivery
        return Publication(True)

    def _columns(self) -> tuple[Column, ...]:
        """The columns of the rows, if a table can have such; one name for whoever makes, checks or fills it."""
        columns = self._shape.columns()
        missing = [name for name in self._key if name not in {column.name for column in columns}]
        if missing:
            raise PlaceUnavailable(f"the key {', '.join(missing)} is no column of the rows; see `key` under `output`")
        names = [_plain_name(column.name) for column in columns]
        long = [name for name in names if len(name.encode()) > MOST_NAME_BYTES]
        if long:
            raise PlaceUnavailable(f"PostgreSQL takes names of up to {MOST_NAME_BYTES} bytes, and not {long[0]!r}")
        if twins := same_but_for_case(names):
            raise PlaceUnavailable(f"{as_one_column(*twins)}, and nothing was written to {self._place}")
        return columns

    def _name(self) -> sql.Composable:
        from psycopg import sql

        return sql.Identifier(*filter(None, (self._place.schema, self._place.table)))

    def _found(self, connection: psycopg.Connection[Any]) -> dict[str, str]:
        """Column → type; empty when there is no such table."""
        text = self._name().as_string(connection)
        query = (
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
        )
        return dict(connection.execute(query, [text]).fetchall())

    def _create(self, connection: psycopg.Connection[Any], columns: Sequence[Column]) -> None:
        from psycopg import sql

        parts: list[sql.Composable] = [
            sql.SQL("{} {}").format(_identifier(column.name), sql.SQL(_type(column.type)))  # pyright: ignore[reportArgumentType]
            for column in columns
        ]
        parts.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(_identifier, self._key))))
        statement = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._name(), sql.SQL(", ").join(parts))
        connection.execute(statement)

    def _check(self, columns: Sequence[Column], found: dict[str, str]) -> None:
        named = [(_plain_name(column.name), column.type) for column in columns]
        missing = [f"{name} {_type(kind)}" for name, kind in named if name not in found]
        wrong = [
            f"{name} is {found[name]}, and the rows have {type_name(kind)}"
            for name, kind in named
            if name in found and not _takes(found[name], kind)
        ]
        problems = ([f"it has no column {', '.join(missing)}"] if missing else []) + wrong
        if problems:
            hint = "add or alter them, or name another table"
            raise PlaceUnavailable(f"{self._place} cannot take the rows: {'; '.join(problems)}; {hint}")

    def _upsert(self, columns: Sequence[Column]) -> sql.Composed:
        from psycopg import sql

        names = [_identifier(column.name) for column in columns]
        others = [name for name, column in zip(names, columns, strict=True) if column.name not in self._key]
        sets = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in others)
        return sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO {}").format(
            self._name(),
            sql.SQL(", ").join(names),
            sql.SQL(", ").join([sql.Placeholder()] * len(names)),
            sql.SQL(", ").join(map(_identifier, self._key)),
            sql.SQL("UPDATE SET {}").format(sets) if others else sql.SQL("NOTHING"),
        )

    @contextmanager
    def _connected(self) -> Generator[psycopg.Connection[Any]]:
        """What PostgreSQL says is for people, without what may be a secret."""
        try:
            import psycopg
        except ImportError as exc:
            raise InputError("PostgreSQL needs psycopg, which is not installed: pip install 'shoal[postgres]'") from exc
        place = self._place
        given = {"host": place.host, "port": place.port, "user": place.user, "password": place.password}
        try:
            with psycopg.connect(
                dbname=place.database,
                autocommit=True,
                connect_timeout=CONNECT_S,
                options=f"-c statement_timeout={STATEMENT_MS}",
                **{name: value for name, value in {**given, "sslmode": place.ssl_mode}.items() if value},  # pyright: ignore[reportArgumentType]
            ) as connection:
                yield connection
        except psycopg.errors.InvalidColumnReference as exc:
            key = ", ".join(self._key)
            raise PlaceUnavailable(
                f"{place} has no unique index on {key}: add one, or name its key under `output`"
            ) from exc
        except psycopg.Error as exc:
            first = without_secrets(str(exc).strip().partition("\n")[0], [place.password])
            raise PlaceUnavailable(f"cannot use {place}: {first}") from exc


def _plain_name(name: str) -> str:
    """As PostgreSQL can keep it."""
    return encodable(name).replace("\x00", "") or "_"


def _identifier(name: str) -> sql.Identifier:
    from psycopg import sql

    return sql.Identifier(_plain_name(name))


def _type(kind: Type) -> str:
    return _TYPES[kind] if isinstance(kind, Scalar) else "jsonb"


def _takes(found: str, kind: Type) -> bool:
    if kind is Scalar.NOTHING:
        return True
    return found in (_TAKES[kind] if isinstance(kind, Scalar) else _JSON | _TEXTS)


def _values(rows: Rows, record: dict[str, Any], place: TablePlace) -> list[Any]:
    try:
        return [_plain(value) for value in rows.row(record)]
    except Unfit as unfit:
        raise PlaceUnavailable(f"{unfit.column} was changed while it was delivered to {place}; tried again") from None


def _plain(value: Any) -> Any:
    """PostgreSQL keeps no NUL."""
    if isinstance(value, datetime | date):
        return value
    if isinstance(value, list | dict):
        return (as_text(value) or "").replace("\\u0000", "")
    return value.replace("\x00", "") if isinstance(value, str) else value


def _last_of_each(values: Iterable[list[Any]], columns: Sequence[Column], key: Sequence[str]) -> list[list[Any]]:
    """One statement may not meet a key twice; the last one counts."""
    places = [number for number, column in enumerate(columns) if column.name in key]
    return list({tuple(row[place] for place in places): row for row in values}.values())
