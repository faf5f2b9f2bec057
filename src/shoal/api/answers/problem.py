"""Errors as RFC 9457 problem details."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    errors: list[FieldProblem] = Field(default_factory=list["FieldProblem"])


class FieldProblem(BaseModel):
    field: str
    detail: str
