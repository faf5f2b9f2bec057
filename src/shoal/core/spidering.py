"""What a job says to its spider: a name and params. The name is all that it can say about code."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

MAX_PARAMS = 16_384
"""Bytes of JSON."""


def _small_json(params: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(json.dumps(params, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValueError(f"params must be JSON: {exc}; put dates in quotes") from exc
    if size > MAX_PARAMS:
        raise ValueError(f"params have {size} bytes of JSON; at most {MAX_PARAMS} are taken")
    return params


def _or_nothing(params: object) -> object:
    return {} if params is None else params


SpiderName = Annotated[str, Field(max_length=100, pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]*)?$")]
Params = Annotated[dict[str, Any], BeforeValidator(_or_nothing), AfterValidator(_small_json)]
