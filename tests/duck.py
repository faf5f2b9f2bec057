"""Parquet as DuckDB reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import duckdb


@dataclass(frozen=True, slots=True)
class Read:
    """What a query brought."""

    types: dict[str, str]
    rows: list[dict[str, Any]]


def query(sql: str) -> Read:
    connection: Any = cast(Any, duckdb).connect()
    try:
        found = connection.sql(sql)
        names: list[str] = found.columns
        types = dict(zip(names, map(str, found.types), strict=True))
        return Read(types, [dict(zip(names, row, strict=True)) for row in found.fetchall()])
    finally:
        connection.close()


def read(file: Path | str) -> Read:
    """A file, or several: `folder/*.parquet`."""
    return query(f"SELECT * FROM read_parquet('{file}')")
