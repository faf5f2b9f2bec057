"""Values, which nobody changes: making one costs little, and so does their class, of which there are hundreds.

A frozen dataclass is made field by field through `object.__setattr__`, which takes five times as long: with some twenty
values a page, a tenth of a worker's time. And each of its methods is text that is compiled whenever a process begins,
which was a fifth of what starting a command takes. These are frozen for the type checker alone, which is as good in a
program that is checked as a whole; and but for `__init__`, all classes share their methods' code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """A dataclass with slots that compares and hashes by its fields, and is not to be changed."""
    made: Any = dataclass(slots=True, repr=False, eq=False)(cls)
    known = fields(made)
    methods = _comparing([each.name for each in known if each.compare])
    methods["__repr__"] = _speaking([each.name for each in known if each.repr])
    for name, method in methods.items():
        if cls.__dict__.get(name) is None:  # with `__eq__`, Python says that there is no `__hash__`
            setattr(made, name, method)
    return made


def _comparing(names: list[str]) -> dict[str, Callable[..., Any]]:
    read: Callable[[object], object] = attrgetter(*names) if names else _nothing_of

    def equals(self: object, other: object) -> Any:
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(read(self))

    return {"__eq__": equals, "__hash__": hashed}


def _nothing_of(_value: object) -> tuple[()]:
    return ()


def _speaking(names: list[str]) -> Callable[[Any], str]:
    return lambda self: f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


@cache
def names_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields of such a value."""
    return tuple(each.name for each in fields(kind))


def values_of(value: object) -> dict[str, Any]:
    """Field → what stands there, as it is: `dataclasses.asdict` would go on into each of these."""
    return {name: getattr(value, name) for name in names_of(type(value))}


def changed(value: T, **new: object) -> T:
    """The same with other fields, of a value that has many: `dataclasses.replace` takes three times as long."""
    read, place = _reader(type(value))
    values = list(read(value))
    for name, other in new.items():
        values[place[name]] = other
    return type(value)(*values)


@cache
def _reader(kind: type[Any]) -> tuple[Callable[[object], tuple[Any, ...]], dict[str, int]]:
    """(what reads all fields that such a value is made from, the place of each)"""
    names = [each.name for each in fields(kind) if each.init]
    return attrgetter(*names), {name: at for at, name in enumerate(names)}
