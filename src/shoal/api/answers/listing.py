"""Rows, and where the next ones are."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Listing(BaseModel):
    cursor: str | None = Field(description="Go on behind the last row with ?cursor=…; also later, for what comes then.")
    more: bool = Field(description="Is there more at this moment?")
