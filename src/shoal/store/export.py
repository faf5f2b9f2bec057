"""Rows for other programs: as records, and as lines of JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from shoal.core.field import parse_fields
from shoal.core.ledger import Ask
from shoal.core.spec import JobSpec
from shoal.store.pages import DeadLetter, ItemRow, PageRow

Record = dict[str, Any]

FORMATS = ("jsonl", "csv")
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
ASK_COLUMNS = ("at", "job", "url", "status", "reason", "rate", "parallel", "source", "robots", "rule")
_FORMULA_START = ("=", "+", "-", "@", "\t", "\r")


def item_columns(spec: JobSpec) -> tuple[str, ...]:
    return ("url", *(field.name for field in parse_fields(spec.fields)))


def item_record(item: ItemRow) -> Record:
    return {"url": item.url, **item.data}


def page_record(page: PageRow) -> Record:
    values = {name: getattr(page, name) for name in PAGE_COLUMNS if name != "fetched_at"}
    return {**values, "fetched_at": iso(page.fetched_ms)}


def dead_record(letter: DeadLetter) -> Record:
    return {
        **{name: getattr(letter, name) for name in DEAD_COLUMNS if name != "at"},
        "at": iso(letter.at_ms),
    }


def ask_record(ask: Ask) -> Record:
    """An entry of the ledger; which host it is about is known."""
    plain = {name: getattr(ask, name) for name in ("job", "url", "status", "reason", "robots", "rule")}
    limits = {"rate": limit(ask.rate), "parallel": limit(ask.parallel), "source": ask.source.value}
    values = {**plain, **limits, "at": iso(ask.at_ms)}
    return {name: values[name] for name in ASK_COLUMNS}


def limit(value: float | None) -> float | str | None:
    """A limit as people write it: none is `unlimited`, and None is nobody's."""
    return "unlimited" if value == 0 else value


def iso(ms: int) -> str:
    """A time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


class Encoder(Protocol):
    """Records as text."""

    def head(self) -> str:
        """What stands before the first record."""
        ...

    def encode(self, records: Iterable[Record]) -> str:
        """Some records as whole lines."""
        ...


class JsonLines:
    """One JSON object a line."""

    def head(self) -> str:
        return ""

    def encode(self, records: Iterable[Record]) -> str:
        return "".join(orjson.dumps(record).decode() + "\n" for record in records)


class Csv:
    """Comma-separated values; lists as JSON; cells that a spreadsheet would run as a formula made harmless."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def head(self) -> str:
        return _csv_lines([self._columns])

    def encode(self, records: Iterable[Record]) -> str:
        return _csv_lines([_cell(record.get(name)) for name in self._columns] for record in records)


def encoder(kind: str, columns: Sequence[str]) -> Encoder:
    """The encoder of a format."""
    return Csv(columns) if kind == "csv" else JsonLines()


def _csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        value = orjson.dumps(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULA_START):
        return "'" + value
    return value
