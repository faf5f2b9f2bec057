"""The types of columns: found by a look at every value, so that none is met later that does not fit.

Values that no one type can hold make their column a text: texts as they are, everything else as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from datetime import UTC, date, datetime
from enum import Enum
from itertools import count
from typing import Any, cast

from shoal.core.frozen import frozen
from shoal.core.json_line import json_line
from shoal.core.redact import encodable
from shoal.store.export import Record

MAX_COLUMNS = 1_000
MAX_PARTS = 100
"""Names within one object; one with more is written as JSON."""
MAX_DEPTH = 4
"""Of lists and objects in one another; what is deeper is written as JSON."""
OTHERS = "_others"
"""The column for what finds no place among the others, as JSON."""
_MOST, _LEAST = 2**63 - 1, -(2**63)


class Scalar(Enum):
    """Types without parts."""

    NOTHING = "nothing"
    BOOL = "bool"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TIME = "time"
    DATE = "date"


@frozen
class ListOf:
    """Lists of one type."""

    of: Type


@frozen
class Struct:
    """Objects: the names that were met, each with its type."""

    parts: tuple[tuple[str, Type], ...]


Type = Scalar | ListOf | Struct
Fit = Callable[[Any], Any]
"""A value as its column takes it; raises Unfit."""


class Unfit(Exception):
    """A value has another type than its column: it was changed after it was looked at."""

    def __init__(self, column: str = "") -> None:
        super().__init__(column)
        self.column = column


@frozen
class Column:
    """A column of a file or of a table."""

    name: str
    type: Type
    rest: bool = False
    """Is it for what finds no place among the others? It is the last one then."""


class Shape:
    """What columns there are, learnt record by record; memory grows with names and types, never with rows."""

    def __init__(self, names: Iterable[str] = (), declared: Mapping[str, Type] | None = None) -> None:
        self._seen: dict[str, Type] = dict.fromkeys(names, Scalar.NOTHING)
        self._declared = {name: fitter(kind) for name, kind in (declared or {}).items()}
        self._kinds = dict(declared or {})
        self._crowded = False
        self._named = len(self._seen)
        self._places: dict[str, int] = {}
        """Of names that nobody has given: how far in front each has stood in a record."""
        self._last: tuple[str, ...] = ()

    def look(self, record: Record) -> None:
        """Take a record's values into account."""
        if (names := tuple(record)) != self._last:
            self._last = names
            for place, name in enumerate(names):
                if name in self._places or len(self._places) < MAX_COLUMNS:
                    self._places[name] = min(place, self._places.get(name, place))
        for name, value in record.items():
            seen = self._seen.get(name)
            if seen is None:
                if len(self._seen) >= MAX_COLUMNS:
                    self._crowded = True
                    continue
                seen = self._seen[name] = Scalar.NOTHING
            if value is None or seen is Scalar.TEXT:
                pass
            elif _SIMPLE.get(value.__class__) is not seen or type(value) is int:
                self._seen[name] = joined(seen, type_of(value))
            if value is not None and name in self._declared:
                self._hold(name, value)

    def forget_type(self, name: str) -> None:
        """The column is a text from now on."""
        self._declared.pop(name, None)
        self._seen[name] = Scalar.TEXT

    def columns(self) -> tuple[Column, ...]:
        """The columns; a declared type counts as long as every value fits.

        Those that have no order of their own have one in which the rows' order of arrival does not matter.
        """
        given = list(self._seen)
        names = given[: self._named] + sorted(
            given[self._named :], key=lambda name: (self._places.get(name, MAX_COLUMNS), name)
        )
        found = [
            Column(name, completed(self._kinds[name], kind) if name in self._declared else kind)
            for name, kind in ((name, self._seen[name]) for name in names)
        ]
        return (*found, Column(_free_name(set(names)), Scalar.TEXT, rest=True)) if self._crowded else tuple(found)

    def _hold(self, name: str, value: Any) -> None:
        try:
            self._declared[name](value)
        except Unfit:
            del self._declared[name]
            wider = widened(self._kinds[name])
            if wider != self._kinds[name]:
                self._kinds[name], self._declared[name] = wider, fitter(wider)
                self._hold(name, value)


def type_of(value: Any, depth: int = 0) -> Type:
    """The narrowest type of a JSON value."""
    if value is None:
        return Scalar.NOTHING
    simple = _SIMPLE.get(value.__class__)
    if simple is not None:
        return simple if simple is not Scalar.INTEGER or _LEAST <= value <= _MOST else Scalar.TEXT
    if depth >= MAX_DEPTH:
        return Scalar.TEXT
    if isinstance(value, list):
        inner: Type = Scalar.NOTHING
        for part in cast("list[Any]", value):
            inner = joined(inner, type_of(part, depth + 1))
        return ListOf(inner)
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return _struct({name: type_of(part, depth + 1) for name, part in parts.items()})
    return Scalar.TEXT


def joined(one: Type, other: Type) -> Type:
    """The narrowest type that holds both."""
    if one == other or other is Scalar.NOTHING:
        return one
    if one is Scalar.NOTHING:
        return other
    if {one, other} == {Scalar.INTEGER, Scalar.NUMBER}:
        return Scalar.NUMBER
    if isinstance(one, ListOf) and isinstance(other, ListOf):
        return ListOf(joined(one.of, other.of))
    if isinstance(one, Struct) and isinstance(other, Struct):
        parts = dict(one.parts)
        for name, kind in other.parts:
            parts[name] = joined(parts.get(name, Scalar.NOTHING), kind)
        return _struct(parts)
    return Scalar.TEXT


def completed(declared: Type, seen: Type) -> Type:
    """A declared type; where it says nothing, what the values tell."""
    if declared is Scalar.NOTHING:
        return seen
    if isinstance(declared, ListOf) and isinstance(seen, ListOf):
        return ListOf(completed(declared.of, seen.of))
    if isinstance(declared, Struct) and isinstance(seen, Struct):
        met = dict(seen.parts)
        return Struct(tuple((name, completed(kind, met.get(name, Scalar.NOTHING))) for name, kind in declared.parts))
    return declared


def widened(kind: Type) -> Type:
    """With a time of day for dates: what holds for every date that was met before."""
    if isinstance(kind, ListOf):
        return ListOf(widened(kind.of))
    if isinstance(kind, Struct):
        return Struct(tuple((name, widened(part)) for name, part in kind.parts))
    return Scalar.TIME if kind is Scalar.DATE else kind


def fitter(kind: Type) -> Fit:
    """What makes a value fit; raises Unfit for one that cannot."""
    if isinstance(kind, ListOf):
        return _list_fitter(fitter(kind.of))
    if isinstance(kind, Struct):
        return _struct_fitter({name: fitter(part) for name, part in kind.parts})
    return _FITTERS[kind]


def as_text(value: Any) -> str | None:
    """Texts as they are, everything else as JSON."""
    if value is None:
        return None
    return encodable(value) if isinstance(value, str) else json_line(value)[:-1]


def _free_name(taken: Set[str]) -> str:
    """For the column of the rest: one that no field has."""
    return next(name for number in count(1) if (name := OTHERS if number == 1 else f"{OTHERS}_{number}") not in taken)


class Rows:
    """Records as rows of these columns."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self.columns = tuple(columns)
        self._fits = [(column.name, fitter(column.type)) for column in self.columns if not column.rest]
        self._named = frozenset(name for name, _ in self._fits)
        self._others = any(column.rest for column in self.columns)

    def row(self, record: Record) -> list[Any]:
        """The record's values, a column each; raises Unfit with the column's name."""
        values: list[Any] = []
        name = ""
        try:
            for name, fit in self._fits:
                value = record.get(name)
                values.append(None if value is None else fit(value))
        except Unfit:
            raise Unfit(name) from None
        if self._others:
            rest = {name: value for name, value in record.items() if name not in self._named}
            values.append(as_text(rest) if rest else None)
        return values


_SIMPLE: dict[type, Scalar] = {
    bool: Scalar.BOOL,
    int: Scalar.INTEGER,
    float: Scalar.NUMBER,
    str: Scalar.TEXT,
}


def _struct(parts: Mapping[str, Type]) -> Type:
    """Nothing can be written of an object without names; one with too many would take over the file."""
    return Struct(tuple(parts.items())) if 0 < len(parts) <= MAX_PARTS else Scalar.TEXT


def _list_fitter(fit: Fit) -> Fit:
    def fitted(value: Any) -> Any:
        if not isinstance(value, list):
            raise Unfit
        return [None if part is None else fit(part) for part in cast("list[Any]", value)]

    return fitted


def _struct_fitter(fits: Mapping[str, Fit]) -> Fit:
    def fitted(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Unfit
        parts = cast("dict[str, Any]", value)
        if not parts.keys() <= fits.keys():
            raise Unfit
        return {encodable(name): None if parts.get(name) is None else fit(parts[name]) for name, fit in fits.items()}

    return fitted


def _bool(value: Any) -> Any:
    if type(value) is not bool:
        raise Unfit
    return value


def _integer(value: Any) -> Any:
    if type(value) is not int or not _LEAST <= value <= _MOST:
        raise Unfit
    return value


def _number(value: Any) -> Any:
    if type(value) is not float and type(value) is not int:
        raise Unfit
    return float(value)


def _time(value: Any) -> Any:
    """ISO 8601; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise Unfit from None


def _date(value: Any) -> Any:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise Unfit from None


_FITTERS: dict[Scalar, Fit] = {
    Scalar.NOTHING: as_text,
    Scalar.TEXT: as_text,
    Scalar.BOOL: _bool,
    Scalar.INTEGER: _integer,
    Scalar.NUMBER: _number,
    Scalar.TIME: _time,
    Scalar.DATE: _date,
}
