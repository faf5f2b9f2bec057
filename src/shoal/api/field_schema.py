"""What OpenAPI says about fields: short texts, or mappings."""

from __future__ import annotations

from typing import Any

from shoal.core.expressions import MAX_EXPRESSION_CHARS
from shoal.core.field import MAX_JOB_FIELDS, TYPES
from shoal.core.rules import TAKES

_TEXT = {"type": "string", "minLength": 1, "maxLength": MAX_EXPRESSION_CHARS}
_SOURCES: dict[str, Any] = {
    "css": {**_TEXT, "format": "css", "description": "A CSS selector."},
    "xpath": {**_TEXT, "format": "xpath", "description": "An XPath 1.0 expression."},
    "json": {
        **_TEXT,
        "format": "jmespath",
        "description": "A JMESPath in a JSON answer, or in the text that css or xpath finds.",
    },
    "jsonld": {
        **_TEXT,
        "format": "linked-data",
        "description": "A type of JSON-LD and the way from it: `Product.offers.price`.",
    },
    "microdata": {**_TEXT, "format": "linked-data", "description": "The same for microdata."},
    "opengraph": {
        **_TEXT,
        "format": "linked-data",
        "description": "A property: `title`, `image`, `product:price:amount`.",
    },
}
_EACH: dict[str, Any] = {
    "anyOf": [
        {**_TEXT, "maxLength": MAX_EXPRESSION_CHARS + len("microdata:"), "format": "short-rule"},
        {
            "type": "object",
            "properties": _SOURCES,
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
        {
            "type": "object",
            "properties": {name: _SOURCES[name] for name in ("css", "json")},
            "additionalProperties": False,
            "required": ["css", "json"],
        },
        {
            "type": "object",
            "properties": {name: _SOURCES[name] for name in ("xpath", "json")},
            "additionalProperties": False,
            "required": ["xpath", "json"],
        },
    ]
}
_RULE: dict[str, Any] = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        **_SOURCES,
        "attribute": {**_TEXT, "description": "Of the element, in place of its text."},
        "as": {"enum": [*TAKES], "description": "What is taken of an element.", "default": "text"},
        "regex": {**_TEXT, "description": "RE2: the first group of it, or all that matches."},
        "type": {"enum": [*TYPES]},
        "locale": {**_TEXT, "description": "How numbers, money and dates are written: `de`, `en-GB`."},
        "format": {**_TEXT, "description": "Of a date, as Python's strptime has it: `%d.%m.%Y`; or `unix`."},
        "many": {"type": "boolean", "default": False, "description": "All of them, as a list."},
        "each": {**_EACH, "description": "A list of objects, one for each that this finds, with `fields`."},
        "fields": {"type": "object", "minProperties": 1, "description": "An object: the same as the outer `fields`."},
        "default": {"description": "The value when there is none."},
        "required": {"type": "boolean", "default": False, "description": "Leave out items without it."},
        "const": {"description": "Always this value."},
    },
}
FIELDS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "maxProperties": MAX_JOB_FIELDS,
    "default": {},
    "additionalProperties": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 2_000}, _RULE]},
}
EACH_SCHEMA: dict[str, Any] = {"anyOf": [*_EACH["anyOf"], {"type": "null"}], "default": None}
