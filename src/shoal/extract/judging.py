"""Items held against their job's contract, where they are taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from shoal.core.contract import MAX_REASON_CHARS, Judge, Reasons, judge_by_model
from shoal.errors import BadSpec

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
    if schema := contract.get("schema"):
        from shoal.core.json_schema import judge_by_schema  # with a library that few jobs need

        return judge_by_schema(json.dumps(schema))
    return _judge_by_name(contract["model"]) if contract.get("model") else None


def _judge_by_name(name: str) -> Judge:
    """By an operator's model. Items that it cannot judge are not taken for good."""
    from shoal.spiders.finder import explain  # with all that it needs, which most pages do not
    from shoal.spiders.models import find_model

    try:
        judge_item = judge_by_model(find_model(name))
    except BadSpec as exc:
        unknown = (str(exc)[:MAX_REASON_CHARS],)
        return lambda _: unknown

    def judge(item: Mapping[str, Any]) -> Reasons:
        try:
            return judge_item(item)
        except MemoryError:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a validator of the operator's raises; it is shown
            return (f"{name}: {explain(exc)}"[:MAX_REASON_CHARS],)

    return judge
