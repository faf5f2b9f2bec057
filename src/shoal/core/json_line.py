"""Values as lines of JSON."""

from __future__ import annotations

import re
from typing import Any, cast

import orjson

from shoal.core.redact import encodable

_UNSAFE = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Valid in JSON, but ends of lines to some readers, and orders to some terminals."""


def json_line(value: Any) -> str:
    """A value as JSON on one line, whoever reads it: valid UTF-8, no other ends of lines, no control characters."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:  # half a character somewhere
        text = orjson.dumps(_encodable(value)).decode()
    return (text if text.isprintable() else _UNSAFE.sub(_escaped, text)) + "\n"


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(str(name)): _encodable(part) for name, part in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(part) for part in cast("list[Any]", value)]
    return value
