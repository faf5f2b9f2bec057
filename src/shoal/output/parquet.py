"""Parquet: a row group at a time, with typed columns. Needs pyarrow, which is an extra."""

# pyarrow has hardly any type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false, reportMissingParameterType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.core.redact import encodable
from shoal.errors import InputError
from shoal.output.columns import Column, ListOf, Rows, Scalar, Struct, Type
from shoal.store.export import Record

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 20_000
GROUP_CHARS = 16_000_000
"""A row group is written at so many rows, or at about so much text: all of it is held until then."""


def need_pyarrow() -> None:
    """Say at once what is missing."""
    try:
        import pyarrow  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as exc:
        raise InputError("Parquet needs pyarrow, which is not installed: pip install 'shoal[parquet]'") from exc


class ParquetFile:
    """A file under construction."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        need_pyarrow()
        import pyarrow as pa
        from pyarrow import parquet

        self._pa: Any = pa
        self._rows = Rows(columns)
        self._schema = pa.schema([pa.field(encodable(column.name), _arrow(column.type)) for column in columns])
        self._writer: Any = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._held: list[list[Any]] = []
        self._chars = 0

    def write(self, records: Iterable[Record]) -> None:
        for record in records:
            row = self._rows.row(record)
            self._held.append(row)
            self._chars += sum(len(value) for value in row if isinstance(value, str | list | dict))
            if len(self._held) >= GROUP_ROWS or self._chars >= GROUP_CHARS:
                self._flush()

    def close(self) -> None:
        if self._held:
            self._flush()
        self._writer.close()

    def abandon(self) -> None:
        self._held.clear()
        self._writer.close()

    def _flush(self) -> None:
        fields = list(self._schema)
        arrays = [
            self._pa.array([row[place] for row in self._held], type=field.type) for place, field in enumerate(fields)
        ]
        self._held.clear()
        self._chars = 0
        self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=self._schema))


def _arrow(kind: Type) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, ListOf):
        return pa.list_(_arrow(kind.of))
    if isinstance(kind, Struct):
        return pa.struct([pa.field(encodable(name), _arrow(part)) for name, part in kind.parts])
    return {
        Scalar.NOTHING: pa.string(),
        Scalar.BOOL: pa.bool_(),
        Scalar.INTEGER: pa.int64(),
        Scalar.NUMBER: pa.float64(),
        Scalar.TEXT: pa.string(),
        Scalar.TIME: pa.timestamp("ms", tz="UTC"),
        Scalar.DATE: pa.date32(),
    }[kind]
