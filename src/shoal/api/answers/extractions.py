"""Further versions of a job's items."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from shoal.store.extractions import ExtractionState


class ExtractionView(BaseModel):
    job: str
    version: str
    state: ExtractionState
    total: int = Field(description="Stored pages when it began, without redirects.")
    pages: int = Field(description="Of these, done.")
    items: int
    quarantined: int = Field(description="Items that break the contract; they are not among the items.")
    failed: int = Field(description="Pages that could not be read.")
    reasons: dict[str, int] = Field(description="Why not.")
    error: str
    created_at: str
    ended_at: str | None
    spec: dict[str, Any] = Field(description="What is taken, with the contract that holds for it.")


class ExtractionList(BaseModel):
    data: list[ExtractionView]


class ChangeView(BaseModel):
    change: Literal["added", "removed", "changed"]
    url: str
    number: int = Field(description="Its place on the page.")
    fields: dict[str, Any] | None = Field(default=None, description="Of a changed row: what differs, before and after.")
    data: dict[str, Any] | None = Field(default=None, description="Of a row that is in one version only: all of it.")


class DiffSummary(BaseModel):
    added: int
    removed: int
    changed: int
    same: int
    fields: dict[str, dict[str, int]] = Field(description="How often each was changed, filled or emptied.")


class DiffView(BaseModel):
    before: str
    after: str
    data: list[ChangeView] = Field(description="May be empty although there is more: the next rows are the same.")
    summary: DiffSummary = Field(description="Of the rows that this answer is about; add them up.")
    cursor: str | None
    more: bool
