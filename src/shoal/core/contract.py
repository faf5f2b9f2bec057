"""What a job promises about its items: a JSON Schema, or a pydantic model by its name; and how much may break it.

An item that breaks the contract is kept apart with the reasons, neither dropped nor mixed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.dataclasses import dataclass

from shoal.core.values import MOST, no_boolean

MAX_REASONS = 10
"""Of one item."""
MAX_REASON_CHARS = 300
_SHARE = re.compile(r"(?P<number>[0-9]{1,3}(\.[0-9]{1,6})?)\s*(?P<percent>%?)")

Reasons = tuple[str, ...]
Judge = Callable[[Mapping[str, Any]], Reasons]
"""What is wrong with an item; nothing when it keeps the contract."""


def _read_share(value: object) -> object:
    """`5%` or `0.05`."""
    if not isinstance(value, str):
        return no_boolean(value)
    if not (match := _SHARE.fullmatch(value.strip())):
        raise ValueError("write a share such as 5% or 0.05")
    return float(match["number"]) / (100 if match["percent"] else 1)


Share = Annotated[float, BeforeValidator(_read_share), Field(ge=0, le=1)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", str_strip_whitespace=True))
class Contract:
    """What items must be like, and a set of them."""

    schema: dict[str, Any] = Field(default_factory=dict[str, Any])
    """A JSON Schema for one item, without its `url`."""
    model: str = Field(default="", max_length=100)
    """The name of a registered pydantic model, in place of a schema."""
    tolerance: Share = 0.05
    """The share of items that may be in quarantine before the contract counts as broken."""
    items: int = Field(default=0, ge=0, le=MOST)
    """A run with fewer items than this breaks it, too."""

    @field_validator("schema")
    @classmethod
    def _can_be_used(cls, schema: dict[str, Any]) -> dict[str, Any]:
        if schema:
            from shoal.core.json_schema import check_schema  # with a library that few jobs need

            check_schema(schema)
        return schema

    @model_validator(mode="after")
    def _says_something(self) -> Contract:
        if bool(self.schema) == bool(self.model) and (self.schema or not self.items):
            raise ValueError("give a `schema`, or the name of a `model`, one of them")
        return self

    def is_kept(self, valid: int, invalid: int) -> str:
        """Why a set of so many items, and of so many in quarantine, breaks the contract; empty when it does not."""
        total = valid + invalid
        if valid < self.items:
            return f"{valid} items; the contract wants at least {self.items}"
        if total and invalid / total > self.tolerance:
            return f"{invalid} of {total} items are in quarantine; the contract allows {self.tolerance:.1%}"
        return ""


def judge_by_model(model: type[BaseModel]) -> Judge:
    """A judge of items from a pydantic model."""

    def judge(item: Mapping[str, Any]) -> Reasons:
        try:
            model.model_validate(dict(item))
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False)
            return tuple(told(".".join(map(str, error["loc"])), error["msg"]) for error in errors[:MAX_REASONS])
        return ()

    return judge


def told(place: str, message: str) -> str:
    """Short, with its end: what is wrong with a value often stands behind the value."""
    line = f"{place}: {message}" if place else message
    half = MAX_REASON_CHARS // 2
    return line if len(line) <= MAX_REASON_CHARS else f"{line[:half]} … {line[3 - half :]}"
