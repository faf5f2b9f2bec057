"""What became of a URL."""

from __future__ import annotations

from pydantic import BaseModel, Field

from shoal.core.explanation import Verdict


class StepView(BaseModel):
    name: str = Field(description="What happened: submitted, found, asked, fetched, robots, filtered, queued, …")
    at: str | None = Field(description="When, if that is known.")
    reason: str = Field(description="For people.")
    recorded: bool = Field(description="False: nobody wrote it down; it follows from the job's rules.")
    detail: dict[str, str | int | float | bool | None] = Field(description="The same for programs.")


class ExplanationView(BaseModel):
    job: str
    asked: str
    url: str = Field(description="The canonical form, by which the job knows it.")
    verdict: Verdict
    certain: bool = Field(description="False: what rules leave out is not kept one by one, and this is worked out.")
    summary: str
    steps: list[StepView]
