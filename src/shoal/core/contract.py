"""What a job promises about its items: a JSON Schema, or a pydantic model by its name; and how much may break it.

An item that breaks the contract is kept apart with the reasons, neither dropped nor mixed in. Schemas come from users,
items from strangers: nothing is looked up elsewhere, patterns are searched in linear time, and reasons are short.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any

import jsonschema_rs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.dataclasses import dataclass

from shoal.core.values import MOST, no_boolean

MAX_SCHEMA_CHARS = 65_536
MAX_SCHEMA_DEPTH = 40
MAX_REASONS = 10
"""Of one item."""
MAX_REASON_CHARS = 300
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 22)

_SHOWN = 3
"""Of what an item could be, and of what is wrong with it if it is that."""
_DRAFTS: Mapping[Any, str] = {
    jsonschema_rs.Draft4Validator: "http://json-schema.org/draft-04/schema#",
    jsonschema_rs.Draft6Validator: "http://json-schema.org/draft-06/schema#",
    jsonschema_rs.Draft7Validator: "http://json-schema.org/draft-07/schema#",
    jsonschema_rs.Draft201909Validator: "https://json-schema.org/draft/2019-09/schema",
    jsonschema_rs.Draft202012Validator: "https://json-schema.org/draft/2020-12/schema",
}
"""The schemas of schemas."""
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


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises ValueError unless items can be held against it."""
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValueError("this is not JSON: dates and the like belong into quotes") from exc
    if len(text) > MAX_SCHEMA_CHARS:
        raise ValueError(f"a schema of {len(text)} characters; at most {MAX_SCHEMA_CHARS}")
    if _depth(schema) > MAX_SCHEMA_DEPTH:
        raise ValueError(f"a schema of more than {MAX_SCHEMA_DEPTH} levels")
    judge_by_schema(text)


@lru_cache(maxsize=100)
def judge_by_schema(text: str) -> Judge:
    """A judge of items from a schema (JSON); raises ValueError for one that cannot be used."""
    schema: dict[str, Any] = json.loads(text)
    try:
        validator = jsonschema_rs.validator_for(schema, validate_formats=True, pattern_options=_PATTERNS, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as exc:
        told = "; ".join(_faults(schema)) or _said(exc)
        raise ValueError(f"not a JSON Schema that can be used: {told}") from exc

    def judge(item: Mapping[str, Any]) -> Reasons:
        data = dict(item)
        if validator.is_valid(data):
            return ()
        return tuple(_reason(error) for error in islice(validator.iter_errors(data), MAX_REASONS))

    return judge


def judge_by_model(model: type[BaseModel]) -> Judge:
    """A judge of items from a pydantic model."""

    def judge(item: Mapping[str, Any]) -> Reasons:
        try:
            model.model_validate(dict(item))
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False)
            return tuple(_line(".".join(map(str, error["loc"])), error["msg"]) for error in errors[:MAX_REASONS])
        return ()

    return judge


def _faults(schema: dict[str, Any]) -> Reasons:
    """Of the schema itself, as far as the schema of schemas knows them."""
    validator = jsonschema_rs.validator_cls_for(schema)
    if validator not in _DRAFTS:
        return ()
    errors = validator({"$ref": _DRAFTS[validator]}).iter_errors(schema)
    return tuple(_reason(error) for error in islice(errors, MAX_REASONS))


def _reason(error: jsonschema_rs.ValidationError, known: int = 0) -> str:
    """With its place in the item, without so many parts of it that are told already."""
    path, kind = [str(part) for part in error.instance_path], error.kind
    place = ".".join(path[known:])
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        return _line(".".join([*path[known:], str(kind.property)]), "is required")
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.AnyOf | jsonschema_rs.ValidationErrorKind.OneOfNotValid):
        ways = (" and ".join(_reason(each, len(path)) for each in way[:_SHOWN]) for way in kind.context[:_SHOWN])
        return _line(place, f"fits none of {kind.name}: {' | '.join(ways)}")
    return _line(place, error.message)


def _line(place: str, message: str) -> str:
    """Short, with its end: what is wrong with a value often stands behind the value."""
    line = f"{place}: {message}" if place else message
    half = MAX_REASON_CHARS // 2
    return line if len(line) <= MAX_REASON_CHARS else f"{line[:half]} … {line[3 - half :]}"


def _said(exc: Exception) -> str:
    path = ".".join(map(str, getattr(exc, "instance_path", ())))
    message = getattr(exc, "message", None) or str(exc)
    return _line(path, message)


def _depth(value: object) -> int:
    """Of values within values; without recursion, as users write it."""
    deepest, rest = 0, [(value, 1)]
    while rest:
        each, depth = rest.pop()
        deepest = max(deepest, depth)
        if isinstance(each, dict):
            rest += [(part, depth + 1) for part in each.values()]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(each, list):
            rest += [(part, depth + 1) for part in each]  # pyright: ignore[reportUnknownVariableType]
    return deepest
