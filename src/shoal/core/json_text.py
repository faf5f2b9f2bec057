"""JSON of strangers: read strictly and quickly, and where that fails, as far as it can be kept.

Sites write half emoji (`"\\ud83d"`), `NaN`, numbers beyond all bounds and line breaks within texts. None of that is
worth losing the rest for: half a pair becomes U+FFFD, as it does in browsers, and a number that nobody can store null.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

MAX_FORGIVEN_CHARS = 16_000_000
"""Of a text that is read once more when it is no strict JSON: that takes several times as long."""
_MAX_DIGITS = 1_000
"""Of a number; no double needs as many, and who reads a million of them is busy for long."""
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Whole pairs, then halves, then all others: what stands behind a backslash begins no escape."""


def read_json(text: str | bytes) -> Any:
    """The value; raises ValueError when there is none to be had."""
    try:
        return orjson.loads(text)
    except (ValueError, RecursionError) as exc:
        if len(text) > MAX_FORGIVEN_CHARS:
            raise ValueError("not JSON, and too long to be looked at closely") from exc
    return _forgiving(text if isinstance(text, str) else text.decode())


def _forgiving(text: str) -> Any:
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(_whole, text)
    try:
        return json.loads(text, strict=False, parse_int=_integer, parse_float=_number, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None


def _whole(match: re.Match[str]) -> str:
    return match[0] if match[1] is None else "\\ufffd"


def _integer(digits: str) -> float | int | None:
    """As the quick reader has them: those of more than 64 bits are doubles."""
    if len(digits) > _MAX_DIGITS:
        return None
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else _number(digits)


def _number(digits: str) -> float | None:
    number = float(digits) if len(digits) <= _MAX_DIGITS else math.inf
    return number if math.isfinite(number) else None
