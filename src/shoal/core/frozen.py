"""Values of which there are many for each page: nobody changes them, and making one costs little.

A frozen dataclass is made field by field through `object.__setattr__`, which takes five times as long: with some twenty
values a page, a tenth of a worker's time. These are frozen for the type checker alone, which is as good in a program
that is checked as a whole.
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
    return dataclass(slots=True, unsafe_hash=True)(cls)


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
