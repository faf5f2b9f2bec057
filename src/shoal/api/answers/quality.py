"""What items are like: fields in numbers, and in what a job differs from earlier ones."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class DriftView(BaseModel):
    what: Literal["volume", "quarantine", "fill", "type"]
    field: str
    value: str
    expected: str
    runs: int = Field(description="Earlier runs that were looked at.")
    detail: str


class FieldView(BaseModel):
    filled: int
    fill_rate: float
    type: str
    types: dict[str, int]
    distinct: int
    distinct_is_exact: bool
    low: float | str | None = Field(description="Of numbers and dates; of texts and lists their length.")
    high: float | str | None


class FieldGroup(BaseModel):
    items: int
    fields: dict[str, FieldView]


class FieldsView(FieldGroup):
    complete: bool = Field(description="Are all items counted?")
    quarantined: int
    drift: list[DriftView]
    hosts: dict[str, FieldGroup]
