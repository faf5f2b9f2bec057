"""Values of which there are many for each page: nobody changes them, and making one costs little.

A frozen dataclass is made field by field through `object.__setattr__`, which takes five times as long: with some twenty
values a page, a tenth of a worker's time. These are frozen for the type checker alone, which is as good in a program
that is checked as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """A dataclass with slots that compares and hashes by its fields, and is not to be changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
