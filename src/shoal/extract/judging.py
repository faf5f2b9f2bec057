"""Items held against their job's contract, where they are taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from shoal.core.contract import Judge, Reasons, judge_by_schema

Flaws = tuple[tuple[int, Reasons], ...]
"""The places of items that break the contract, with the reasons."""


def flaws_of(extraction: str, items: Sequence[Mapping[str, Any]]) -> Flaws:
    """Of items that were taken by `JobSpec.extraction`."""
    judge = _judge_of(extraction) if items else None
    if judge is None:
        return ()
    judged = ((place, judge(item)) for place, item in enumerate(items))
    return tuple((place, reasons) for place, reasons in judged if reasons)


@lru_cache(maxsize=200)
def _judge_of(extraction: str) -> Judge | None:
    settings: dict[str, Any] = json.loads(extraction) if extraction else {}
    contract: dict[str, Any] = settings.get("contract") or {}
    schema = contract.get("schema")
    return judge_by_schema(json.dumps(schema)) if schema else None
