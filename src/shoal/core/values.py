"""Small values as people write them, rates, sizes and times, for whatever has such settings."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

Unlimited = Literal["unlimited"]
Forever = Literal["forever"]

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


def no_boolean(value: object) -> object:
    """`true` is not 1."""
    if value is True or value is False:
        raise ValueError("input should be a number")
    return value


SLOWEST_RATE = 0.0001
"""About once in three hours; what is slower is a schedule, and would keep a host from everybody."""

Rate = Annotated[Annotated[float, Field(ge=SLOWEST_RATE, le=100_000)] | Unlimited, BeforeValidator(read_rate)]
Parallel = Annotated[int, Field(ge=1, le=100_000)] | Unlimited
Size = Annotated[int, Field(ge=1, le=10**18), BeforeValidator(read_size)]
Duration = Annotated[float, Field(gt=0, le=31_536_000), BeforeValidator(read_duration)]
Keep = Annotated[Annotated[float, Field(ge=3_600, le=315_360_000)] | Forever, BeforeValidator(read_duration)]
"""An hour to ten years: who writes 30 means days, and must not lose everything half a minute later."""
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,60}$")]
