"""Items held against a JSON Schema.

Schemas come from users, items from strangers: nothing is looked up elsewhere, patterns are searched in linear time, and
reasons are short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs

from shoal.core.contract import MAX_REASONS, Judge, Reasons, told

MAX_SCHEMA_CHARS = 65_536
MAX_SCHEMA_DEPTH = 40
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
        why = "; ".join(_faults(schema)) or _said(exc)
        raise ValueError(f"not a JSON Schema that can be used: {why}") from exc

    def judge(item: Mapping[str, Any]) -> Reasons:
        data = dict(item)
        if validator.is_valid(data):
            return ()
        return tuple(_reason(error) for error in islice(validator.iter_errors(data), MAX_REASONS))

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
        return told(".".join([*path[known:], str(kind.property)]), "is required")
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.AnyOf | jsonschema_rs.ValidationErrorKind.OneOfNotValid):
        ways = (" and ".join(_reason(each, len(path)) for each in way[:_SHOWN]) for way in kind.context[:_SHOWN])
        return told(place, f"fits none of {kind.name}: {' | '.join(ways)}")
    return told(place, error.message)


def _said(exc: Exception) -> str:
    path = ".".join(map(str, getattr(exc, "instance_path", ())))
    message = getattr(exc, "message", None) or str(exc)
    return told(path, message)


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
