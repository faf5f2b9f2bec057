"""What OpenAPI says about settings of a job that are written in several ways, and about what goes together.

Formats that JSON Schema does not know (`selector`, `css`, `xpath`, `jmespath`, `web-url` and others) say in a word what
no pattern can: tools that do not know them take any text.
"""

from __future__ import annotations

from typing import Any

from shoal.core.field import MAX_SELECTOR_CHARS
from shoal.core.noise import MAX_IGNORED
from shoal.core.output import KEPT_RUNS, LEAST_ROWS, MOST_KEPT, MOST_KEYS
from shoal.core.pagination import MAX_NEXT_CHARS
from shoal.core.values import MOST

_FILES = (
    r"^\s*((s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]{1,62}|file:///[^/?#%@\\\s][^/?#%@\\]*)"
    r"(/[^/?#%@\\\s][^/?#%@\\]*)*/?\s*$"
)
_TABLE = r"^\s*postgres(ql)?://[^/?#\s]*/[^/?#\s]{1,200}/[^/?#\s]{1,400}\s*$"
_TO: dict[str, Any] = {"type": "string", "maxLength": 2_000}
_EVERY: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": LEAST_ROWS, "maximum": MOST},
        {"type": "string", "pattern": r"^([1-9][0-9]{1,8}s|[1-9][0-9]{0,6}(m|min|h|d)|[1-9][0-9]{2,12})$"},
        {"type": "null"},
    ],
    "default": None,
    "description": "Deliver a part whenever there are so many rows, or after so much time: `10000`, `5m`.",
}
_KEY: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 63},
    "maxItems": MOST_KEYS,
    "default": [],
    "description": "The columns by which a row is known; `url` and `number` by default.",
}
_KEEP: dict[str, Any] = {
    "anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_KEPT}, {"type": "null"}],
    "default": KEPT_RUNS,
    "description": "So many whole runs stay at the place; null: all.",
}


def _mapping(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, **more}


_TO_FILES = {**_TO, "pattern": _FILES, "description": "A folder, or a prefix in an object store."}
_TO_TABLE = {**_TO, "pattern": _TABLE, "description": "A table: postgresql://user@host/database/schema.table"}
_FORMAT = {"enum": ["jsonl", "csv", "parquet", "sqlite"], "default": "jsonl"}
OUTPUT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        _TO_FILES,
        _TO_TABLE,
        _mapping({"to": _TO_FILES, "format": _FORMAT, "every": _EVERY, "keep": _KEEP}, required=["to"]),
        _mapping({"to": _TO_TABLE, "every": _EVERY, "key": _KEY}, required=["to"]),
        {"type": "null"},
    ],
    "default": None,
}

NEXT_SCHEMA: dict[str, Any] = {
    "type": "string",
    "maxLength": MAX_NEXT_CHARS,
    "format": "selector",
    "default": "",
    "examples": ["a.next", "//a[@rel='next']"],
}

_TIME: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": 31_536_000},
        {"type": "string", "pattern": r"^\s*[1-9][0-9]{0,2}\s*(s|m|min|h|d)\s*$"},
    ]
}
REVISIT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "boolean"},
        {"type": "string", "pattern": r"^[1-9][0-9]{0,2}(s|m|min|h|d)\.\.[1-9][0-9]{0,2}(s|m|min|h|d)$"},
        _mapping({"min": _TIME, "max": _TIME}),
        {"type": "null"},
    ],
    "default": None,
    "examples": [True, "1h..30d", {"min": "1h", "max": "7d"}],
}

SINCE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": r"^\s*[0-9]{1,9}(\.[0-9]{1,9})?\s*(s|m|min|h|d)\s*$"},
        {"type": "null"},
    ],
    "default": None,
    "examples": ["2026-01-01", "2026-01-01T08:00:00Z", "7d"],
}

_WEB_URL = {"type": "string", "maxLength": 8_192, "pattern": r"^\s*[Hh][Tt][Tt][Pp][Ss]?:", "format": "web-url"}
SITEMAPS_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "boolean"}, {"type": "array", "items": _WEB_URL}, _WEB_URL],
    "default": False,
}

_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": MOST}
_TYPES: dict[str, Any] = {"enum": ["string", "number", "integer", "boolean", "object", "array", "null"]}
_PROPERTY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": _TYPES,
        "minLength": _COUNT,
        "maxLength": _COUNT,
        "minimum": {"type": "number"},
        "maximum": {"type": "number"},
        "enum": {"type": "array", "minItems": 1},
    },
}
_ITEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "minProperties": 1,
    "description": "A JSON Schema for one item, without its `url`; nothing is looked up elsewhere.",
    "properties": {
        "type": _TYPES,
        "required": _TEXTS,
        "properties": {"type": "object", "additionalProperties": _PROPERTY},
        "additionalProperties": {"type": "boolean"},
        "minProperties": _COUNT,
    },
    "examples": [{"required": ["title"], "properties": {"price": {"type": "number", "minimum": 0}}}],
}
_SHARE: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "pattern": r"^\s*(100(\.0{1,6})?|0?[0-9]{1,2}(\.[0-9]{1,6})?)\s*%\s*$"},
        {"type": "string", "pattern": r"^\s*0{0,2}(1(\.0{1,6})?|0(\.[0-9]{1,6})?)\s*$"},
    ],
    "default": 0.05,
    "description": "The share of items that may be in quarantine before the contract counts as broken: 0.05 or 5%.",
}
_OF_A_SET = {"tolerance": _SHARE, "items": {**_COUNT, "default": 0, "description": "A run has at least so many."}}
_MODEL = {"type": "string", "minLength": 1, "maxLength": 100, "description": "A pydantic model that is registered."}
CONTRACT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        _mapping({"schema": _ITEM_SCHEMA, **_OF_A_SET}, required=["schema"]),
        _mapping({"model": _MODEL, **_OF_A_SET}, required=["model"]),
        _mapping({**_OF_A_SET, "items": {**_COUNT, "minimum": 1}}, required=["items"]),
        {"type": "null"},
    ],
    "default": None,
}

_SELECTOR = {"type": "string", "minLength": 1, "maxLength": MAX_SELECTOR_CHARS, "format": "css"}
_FIELD_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
CHANGES_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "boolean"},
        _mapping(
            {
                "ignore": {"type": "array", "items": _SELECTOR, "maxItems": MAX_IGNORED, "default": []},
                "ignore_dates": {"type": "boolean", "default": True},
                "content": {"enum": ["page", "main"], "default": "page"},
                "key": {**_FIELD_NAME, "description": "A field: by its value items are known again."},
                "ignore_fields": {"type": "array", "items": _FIELD_NAME, "maxItems": MAX_IGNORED, "default": []},
            }
        ),
        {"type": "null"},
    ],
    "default": None,
}

EACH_HAS_FIELDS: dict[str, Any] = {
    "description": "`each` is with fields.",
    "anyOf": [
        {"properties": {"each": {"type": "null"}}},
        {"properties": {"fields": {"minProperties": 1}}, "required": ["fields"]},
    ],
}
TOGETHER: list[dict[str, Any]] = [
    {
        "description": "`params` are for a spider.",
        "anyOf": [
            {"properties": {"params": {"maxProperties": 0}}},
            {"properties": {"spider": {"minLength": 1}}, "required": ["spider"]},
        ],
    },
    EACH_HAS_FIELDS,
    {
        "description": "`each` is without formats.",
        "anyOf": [
            {"properties": {"each": {"type": "null"}}},
            {"properties": {"formats": {"maxItems": 0, "maxProperties": 0}}},
        ],
    },
]
"""What goes together in a job."""
