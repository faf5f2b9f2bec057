"""Items compared, of two versions or of two runs: two streams in the same order, merged, a row of each at a time.

Rows are the same when they have the same key: page and place on it, or the value of a field. By page, the database has
them in order already. By a field, they are put in order on the disk first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, cast

import orjson

from shoal.core.frozen import frozen
from shoal.store.items import ItemRow

MAX_FIELDS = 1_000
"""Of which there are sums; further ones are told row by row only."""
STRETCH = 2_000
"""Rows of each version that one part of a comparison is made of."""

Key = tuple[Any, ...]


@frozen
class Keyed:
    """An item in its order."""

    key: Key
    item: ItemRow


@frozen
class Change:
    """A row, and how it differs between both versions."""

    kind: str
    """added, removed, changed, or same where that is asked for."""
    key: Key
    before: ItemRow | None
    after: ItemRow | None
    fields: Mapping[str, tuple[Any, Any]]
    """Name → (before, after) of what differs; of a row that is in one version only, nothing."""

    @property
    def item(self) -> ItemRow:
        """That it is about; the newer one if there are two."""
        item = self.after or self.before
        assert item is not None
        return item

    def as_json(self, key: str | None = None) -> dict[str, Any]:
        """For programs; with the value of the field that rows are known by, if it is one."""
        item = self.item
        named = {"key": item.data.get(key)} if key is not None else {}
        told: dict[str, Any] = {"change": self.kind, "url": item.url, "number": item.number, **named}
        if self.kind == "changed":
            told["fields"] = {name: {"before": old, "after": new} for name, (old, new) in self.fields.items()}
        else:
            told["data"] = item.data
        return told


@dataclass(slots=True)
class FieldSums:
    """How often a field differs in rows that both versions have."""

    changed: int = 0
    filled: int = 0
    """It was empty before."""
    emptied: int = 0


@dataclass(slots=True)
class Summary:
    """Of a whole comparison; complete when all changes have been read."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    same: int = 0
    fields: dict[str, FieldSums] = field(default_factory=dict[str, FieldSums])

    @property
    def differs(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @property
    def as_json(self) -> dict[str, Any]:
        """For programs."""
        rows = {name: getattr(self, name) for name in ("added", "removed", "changed", "same")}
        return {**rows, "fields": {name: asdict(sums) for name, sums in self.fields.items()}}


@frozen
class Stretch:
    """A part of a comparison."""

    changes: list[Change]
    summary: Summary
    upto: Key | None
    """The key that it goes up to; None at the end."""


def compare(
    before: Iterable[Keyed],
    after: Iterable[Keyed],
    summary: Summary,
    ignore: Collection[str] = (),
    *,
    with_same: bool = False,
) -> Iterator[Change]:
    """What differs between two streams that are in order of their keys; `summary` is filled on the way.

    Fields to `ignore` do not count. Rows that are the same are told `with_same` only.
    """
    old, new = iter(before), iter(after)
    left, right = next(old, None), next(new, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left.key < right.key):
            assert left is not None
            summary.removed += 1
            yield Change("removed", left.key, left.item, None, {})
            left = next(old, None)
        elif left is None or right.key < left.key:
            summary.added += 1
            yield Change("added", right.key, None, right.item, {})
            right = next(new, None)
        else:
            fields = _differences(left.item.data, right.item.data, summary, ignore)
            if fields or with_same:
                yield Change("changed" if fields else "same", right.key, left.item, right.item, fields)
            left, right = next(old, None), next(new, None)


def compare_stretch(
    before: Iterable[Keyed],
    after: Iterable[Keyed],
    most: int,
    ignore: Collection[str] = (),
    *,
    with_same: bool = False,
) -> Stretch:
    """The next part of a comparison: at most so many changes, and no more rows than are read at once."""
    sides = [list(islice(side, STRETCH + 1)) for side in (before, after)]
    # Where a side goes on, nobody knows yet what is behind its last row.
    upto = min((side[STRETCH - 1].key for side in sides if len(side) > STRETCH), default=None)
    old, new = ([row for row in side if upto is None or row.key <= upto] for side in sides)
    summary = Summary()
    changes = list(islice(compare(old, new, summary, ignore, with_same=with_same), most))
    return Stretch(changes, summary, changes[-1].key if len(changes) == most else upto)


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], summary: Summary, ignore: Collection[str]
) -> dict[str, tuple[Any, Any]]:
    names = [*after, *(name for name in before if name not in after)]
    found = {
        name: (before.get(name), after.get(name))
        for name in names
        if name not in ignore and not _same(before.get(name), after.get(name))
    }
    if not found:
        summary.same += 1
        return {}
    summary.changed += 1
    for name, (old, new) in found.items():
        if name not in summary.fields and len(summary.fields) >= MAX_FIELDS:
            continue
        sums = summary.fields.setdefault(name, FieldSums())
        if _is_empty(old):
            sums.filled += 1
        elif _is_empty(new):
            sums.emptied += 1
        else:
            sums.changed += 1
    return found


def _same(before: Any, after: Any) -> bool:
    """As JSON has it: 1 and 1.0 are one number, and neither is true, however deep they are."""
    return before == after and _is_true_to_kind(before, after)


def _is_true_to_kind(before: Any, after: Any) -> bool:
    """Of values that are equal: is none a number where the other is a truth?"""
    if isinstance(before, dict):
        return all(_is_true_to_kind(value, after[name]) for name, value in cast(dict[str, Any], before).items())
    if isinstance(before, list):
        return all(map(_is_true_to_kind, cast(list[Any], before), after))
    return isinstance(before, bool) is isinstance(after, bool)


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def by_page(items: Iterable[ItemRow]) -> Iterator[Keyed]:
    """Items that come in order of fingerprint and number."""
    return (Keyed((item.fingerprint, item.number), item) for item in items)


@contextmanager
def by_field(before: Iterable[ItemRow], after: Iterable[ItemRow], name: str) -> Generator[list[Iterator[Keyed]]]:
    """Both in order of a field's value, by way of a file; rows of the same value are numbered in their own order."""
    with TemporaryDirectory(prefix="shoal-diff-") as folder:
        shelf = sqlite3.connect(f"{folder}/rows.db")
        try:
            shelf.execute("PRAGMA journal_mode=OFF")
            shelf.execute("PRAGMA synchronous=OFF")
            shelf.execute("CREATE TABLE rows (side INT, key TEXT, page INT, number INT, row BLOB)")
            for side, items in enumerate((before, after)):
                shelf.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", (_packed(side, name, i) for i in items))
            shelf.execute("CREATE INDEX in_order ON rows (side, key, page, number)")
            shelf.commit()
            yield [_in_order(shelf, side) for side in (0, 1)]
        finally:
            shelf.close()


def _packed(side: int, name: str, item: ItemRow) -> tuple[Any, ...]:
    value: Any = item.data.get(name)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    key = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if value is None:  # without a name it is known by its place: one more would make others of all behind it
        key = f"{key} {item.fingerprint} {item.number}"
    row = orjson.dumps([item.job, item.fingerprint, item.number, item.url, item.data, item.version])
    return side, key, item.fingerprint, item.number, row


def _in_order(shelf: sqlite3.Connection, side: int) -> Iterator[Keyed]:
    rows = shelf.execute("SELECT key, row FROM rows WHERE side = ? ORDER BY key, page, number", (side,))
    last, nth = None, 0
    for key, row in rows:
        last, nth = key, nth + 1 if key == last else 0
        # SQLite compares the bytes of UTF-8, and so must we
        yield Keyed((key.encode(), nth), ItemRow(*orjson.loads(row)))
