"""Small values as people write them, rates, sizes and times, for whatever has such settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

Unlimited = Literal["unlimited"]
Forever = Literal["forever"]

MOST = 10**15
"""Of anything that is counted: whole numbers are exact up to there, in JSON and in Redis."""
STORED = "stored"
"""The context in which a value is read that was checked when it came."""

_RATE = re.compile(r"(?P<count>\d+(?:\.\d+)?)\s*/\s*(?P<unit>s|sec|second|m|min|minute|h|hour)\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)i?b?\Z", re.IGNORECASE)
_DURATION = re.compile(r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>s|m|min|h|d)\Z")
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_rate(value: object) -> object:
    """`4`, `0.5`, `30/m` or `unlimited`."""
    if isinstance(value, str) and (match := _RATE.match(value.strip())):
        return float(match["count"]) / _SECONDS[match["unit"][0]]
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        return float(value)
    return value


def read_size(value: object) -> object:
    """`1000000`, `500MB` or `2g`; a thousand bytes are a kilobyte."""
    if isinstance(value, str) and (match := _SIZE.match(value.strip())):
        return int(float(match["count"]) * _UNITS[match["unit"].lower()])
    return value


def read_duration(value: object) -> object:
    """`90`, `90s`, `15m`, `2h` or `1d`, in seconds."""
    if isinstance(value, str) and (match := _DURATION.match(value.strip())):
        return float(match["count"]) * _SPANS[match["unit"][0]]
    return value


def read_moment(text: str, now_s: float) -> int:
    """The ms of a moment: an age such as `2h` before now, or an ISO 8601 time, which is UTC when it has no zone."""
    age = read_duration(text)
    if isinstance(age, float):
        return round(max(0.0, now_s - age) * 1000)
    at = datetime.fromisoformat(text.strip())
    return round((at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp() * 1000)


def _or_say(read: Callable[[object], object], forms: str, *words: str) -> BeforeValidator:
    """Reads a value; a text that is none is refused with the forms that there are."""

    def validate(value: object) -> object:
        found = read(value)
        if isinstance(found, str) and found not in words and not _is_number(found):
            raise ValueError(forms)
        return found

    return BeforeValidator(validate)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def no_boolean(value: object) -> object:
    """`true` is not 1."""
    if value is True or value is False:
        raise ValueError("input should be a number")
    return value


SLOWEST_RATE = 0.0001
"""About once in three hours; what is slower is a schedule, and would keep a host from everybody."""

RateText = _or_say(
    read_rate, "write requests a second, minute or hour, such as 4, 30/m or 100/h; or unlimited", "unlimited"
)

Rate = Annotated[Annotated[float, Field(ge=SLOWEST_RATE, le=100_000)] | Unlimited, RateText]
Parallel = Annotated[Annotated[int, Field(ge=1, le=100_000)] | Unlimited, BeforeValidator(no_boolean)]
Size = Annotated[
    int,
    Field(ge=1, le=10**18),
    _or_say(read_size, "write bytes, or a number with kB, MB, GB or TB, such as 500MB"),
]
Duration = Annotated[
    float,
    Field(gt=0, le=31_536_000),
    _or_say(read_duration, "write seconds, or a number with s, m, h or d, such as 90, 15m or 2h"),
]
_KEEP = "write a number with h or d, such as 12h or 30d; or forever"
_KEEP_S = (3_600, 315_360_000)


def _read_keep(value: object) -> object:
    """`12h` or `30d`, in seconds; or `forever`. A text without a unit says nothing."""
    found = read_duration(value)
    if isinstance(found, str) and found != "forever":
        raise ValueError(_KEEP)
    if isinstance(found, int | float) and not _KEEP_S[0] <= found <= _KEEP_S[1]:
        raise ValueError("at least an hour, such as 12h, and at most ten years; or forever")
    return found


Keep = Annotated[
    Annotated[float, Field(ge=_KEEP_S[0], le=_KEEP_S[1])] | Forever,
    BeforeValidator(_read_keep),
]
"""An hour to ten years: who writes 30 means days, and must not lose everything half a minute later."""
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,60}$")]
