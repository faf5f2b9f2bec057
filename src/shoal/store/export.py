"""Rows for other programs: as records, and as lines of JSON or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from shoal.core.field import field_names
from shoal.core.json_line import json_line
from shoal.core.ledger import Ask
from shoal.core.likeness import hex_of
from shoal.core.redact import encodable
from shoal.core.spec import JobSpec
from shoal.store.items import ItemRow, Quarantined
from shoal.store.page_rows import DeadLetter

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
    "fingerprint",
    "duplicate_of",
    "reused",
)
STORED_OF_PAGE = (*(name for name in PAGE_COLUMNS if name != "fetched_at"), "fetched_ms")
_NAMES_OF_PAGE = (*STORED_OF_PAGE[:-1], "fetched_at")
QUARANTINE_COLUMNS = ("url", "number", "reasons", "data")
DEAD_COLUMNS = ("url", "outcome", "reason", "detail", "attempts", "depth", "at")
ASK_COLUMNS = ("at", "job", "url", "status", "reason", "rate", "parallel", "source", "robots", "rule")
_FORMULA = re.compile("[\t\r\n]|[\\s\x00\u200b\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20]")
"""What a spreadsheet may take for a formula: OWASP's list, also in full width and behind what cannot be seen."""


def item_columns(spec: JobSpec) -> tuple[str, ...]:
    return ("url", *field_names(spec.fields), *spec.formats)


def item_record(item: ItemRow) -> Record:
    return {"url": item.url, **item.data}


def stored_item_record(url: str, data: str) -> Record:
    """The same of what is stored."""
    return {"url": url, **orjson.loads(data)}


def quarantine_record(row: Quarantined) -> Record:
    item = row.item
    return {"url": item.url, "number": item.number, "reasons": list(row.reasons), "data": dict(item.data)}


def page_record(values: Sequence[Any]) -> Record:
    """Of what is stored of a page under `STORED_OF_PAGE`. Millions are made: no value in between, no look at names."""
    record = dict(zip(_NAMES_OF_PAGE, values, strict=True))
    record["fingerprint"] = hex_of(record["fingerprint"])
    if record["duplicate_of"] is not None:
        record["duplicate_of"] = hex_of(record["duplicate_of"])
    record["fetched_at"] = iso(record["fetched_at"])
    return record


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
        return "".join(map(json_line, records))


class Csv:
    """Comma-separated values; lists as JSON; cells that a spreadsheet would run as a formula made harmless."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def head(self) -> str:
        return _csv_lines([[_cell(name) for name in self._columns]])

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
        value = json_line(value)[:-1]
    if not isinstance(value, str):
        return value
    text = encodable(value)
    return "'" + text if _FORMULA.match(text) else text
