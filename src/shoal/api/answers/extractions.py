"""Further versions of a job's items."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from shoal.store.extractions import ExtractionState


class ExtractionView(BaseModel):
    job: str
    version: str
    state: ExtractionState
    total: int = Field(description="Stored pages when it began, without redirects.")
    pages: int = Field(description="Of these, done.")
    items: int
    failed: int = Field(description="Pages that could not be read.")
    reasons: dict[str, int] = Field(description="Why not.")
    error: str
    created_at: str
    ended_at: str | None
    spec: dict[str, Any]


class ExtractionList(BaseModel):
    data: list[ExtractionView]
