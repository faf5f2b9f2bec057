"""What the fields of items look like, over all and by host: how many are filled, of which types, how many different
values, from where to where.

Items are added one by one, and a tally is a page of JSON however many there are. Different values are counted exactly
while there are few; beyond that they are estimated from the smallest of their hashes (k minimum values).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isfinite
from typing import Any, cast

import orjson

MAX_FIELDS = 200
MAX_HOSTS = 100
"""With a tally of their own; the others count in the whole."""
KEPT = 256
"""Hashes of a field over all items: up to so many different values are counted exactly."""
KEPT_OF_HOST = 24
MAX_NAME_CHARS = 100
MAX_EDGE_CHARS = 40
"""Of the first and the last of dates."""

_HASHES = 1 << 64
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d|\Z)")


@dataclass(slots=True)
class FieldTally:
    """One field."""

    filled: int = 0
    types: dict[str, int] = field(default_factory=dict[str, int])
    low: float | str | None = None
    """The least number, the first date, or the fewest characters or entries."""
    high: float | str | None = None
    hashes: list[int] = field(default_factory=list[int])
    """The smallest ones, in order."""
    ranged: str = ""
    """The type whose range it is."""

    def add(self, value: Any, kept: int) -> None:
        kind, edge = _kind(value)
        self.filled += 1
        self.types[kind] = self.types.get(kind, 0) + 1
        if kind == self.main_type:
            if kind != self.ranged:  # another one was more frequent before
                self.ranged, self.low, self.high = kind, None, None
            self._stretch(edge)
        self._remember(_hash(value), kept)

    @property
    def main_type(self) -> str:
        """The most frequent one."""
        return max(self.types, key=lambda kind: self.types[kind], default="")

    def distinct(self, kept: int) -> int:
        """How many different values; an estimate beyond what is kept."""
        if len(self.hashes) < kept:
            return len(self.hashes)
        return round((kept - 1) * _HASHES / max(1, self.hashes[-1]))

    def _stretch(self, edge: float | str) -> None:
        if isinstance(edge, float) and not isfinite(edge):
            return  # JSON has no word for it: what is saved would have no range
        if self.low is None or self.high is None or isinstance(self.low, str) != isinstance(edge, str):
            self.low = self.high = edge
        else:
            self.low = min(cast(Any, self.low), edge)
            self.high = max(cast(Any, self.high), edge)

    def _remember(self, number: int, kept: int) -> None:
        hashes = self.hashes
        if len(hashes) >= kept and number >= hashes[-1]:
            return
        at = bisect_left(hashes, number)
        if at == len(hashes) or hashes[at] != number:
            hashes.insert(at, number)
            del hashes[kept:]


@dataclass(slots=True)
class Group:
    """Items together, of a host or all."""

    items: int = 0
    fields: dict[str, FieldTally] = field(default_factory=dict[str, FieldTally])

    def add(self, values: Mapping[str, Any], kept: int) -> None:
        self.items += 1
        for name, value in values.items():
            known = self.fields.get(name)
            if known is None:
                if len(self.fields) >= MAX_FIELDS:
                    continue
                known = self.fields[name] = FieldTally()
            if not _is_empty(value):
                known.add(value, kept)

    def fill_rate(self, name: str) -> float:
        """The share of items that have a value."""
        known = self.fields.get(name)
        return known.filled / self.items if known and self.items else 0.0


@dataclass(slots=True)
class Tally:
    """All items of a job, and those of each host."""

    whole: Group = field(default_factory=Group)
    hosts: dict[str, Group] = field(default_factory=dict[str, Group])

    def add(self, url: str, item: Mapping[str, Any]) -> None:
        """Count one item more."""
        values = dict(_flat(item))
        self.whole.add(values, KEPT)
        host = url.split("/", 3)[2] if url.count("/") >= 2 else ""
        group = self.hosts.get(host)
        if group is None:
            if len(self.hosts) >= MAX_HOSTS:
                return
            group = self.hosts[host] = Group()
        group.add(values, KEPT_OF_HOST)

    def to_json(self) -> str:
        return orjson.dumps(self).decode()

    @classmethod
    def of_json(cls, text: str) -> Tally:
        saved = orjson.loads(text)
        return cls(_group(saved["whole"]), {host: _group(group) for host, group in saved["hosts"].items()})


def describe(group: Group, kept: int) -> dict[str, Any]:
    """A group for programs; `kept` is how many hashes its fields have at most."""
    return {
        "items": group.items,
        "fields": {
            name: {
                "filled": field.filled,
                "fill_rate": round(group.fill_rate(name), 4),
                "type": field.main_type,
                "types": field.types,
                "distinct": field.distinct(kept),
                "distinct_is_exact": len(field.hashes) < kept,
                "low": field.low,
                "high": field.high,
            }
            for name, field in group.fields.items()
        },
    }


def _group(saved: Mapping[str, Any]) -> Group:
    return Group(saved["items"], {name: FieldTally(**values) for name, values in saved["fields"].items()})


def _flat(item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Objects by their own fields, one level deep: `price.amount`."""
    for name, value in item.items():
        if isinstance(value, dict) and value:
            for part, inner in cast("dict[str, Any]", value).items():
                yield f"{name}.{part}"[:MAX_NAME_CHARS], inner
        else:
            yield name[:MAX_NAME_CHARS], value


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _kind(value: Any) -> tuple[str, float | str]:
    """(type, what a range is made of)"""
    if isinstance(value, bool):
        return "bool", float(value)
    if isinstance(value, int):
        return "integer", float(value)
    if isinstance(value, float):
        return "number", value
    if isinstance(value, str):
        return ("date", value[:MAX_EDGE_CHARS]) if _DATE.match(value) else ("text", float(len(value)))
    kind = "list" if isinstance(value, list) else "object"
    return kind, float(len(cast("list[Any]", value)))


def _hash(value: Any) -> int:
    data = value.encode("utf-8", "replace") if isinstance(value, str) else orjson.dumps(value)
    return int.from_bytes(blake2b(data, digest_size=8).digest())
