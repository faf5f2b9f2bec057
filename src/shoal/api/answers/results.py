"""What jobs have brought: pages, items, errors, and where they were delivered."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from shoal.api.answers.jobs import Links
from shoal.api.answers.listing import Listing
from shoal.core.model import JobState


class PageView(BaseModel):
    id: int
    job: str
    url: str
    host: str
    status: int
    depth: int
    attempt: int
    content_type: str
    charset: str
    size: int
    elapsed_ms: float
    fetched_at: str
    checked_at: str | None = Field(description="When its host last said that this is the page; null: when fetched.")
    reused: str | None = Field(description="How it was carried over from an earlier job; null: it was fetched.")
    redirect: str | None
    canonical: str | None
    fingerprint: str = Field(description="Of its URL: 16 hex digits.")
    duplicate_of: str | None = Field(description="Fingerprint of an earlier page that says the same.")
    request_id: str
    engine: str = Field(description="What fetched it: http or browser.")
    notes: dict[str, Any] | None = Field(
        description="What was seen while it was rendered: console errors and the like."
    )
    body: str | None = Field(description="Where the stored body is.")
    captures: dict[str, str] = Field(
        description="Where the document after all scripts, the screenshot and the PDF of a rendered page are."
    )


class PageList(Listing):
    data: list[PageView]


class LineageView(BaseModel):
    """Where an item comes from."""

    fetched_at: str | None
    attempt: int | None = Field(description="Counted from 0.")
    archive_key: str | None = Field(description="The segment with the record that it was read from.")
    archive_offset: int | None
    archive_length: int | None
    version: str


class ItemView(BaseModel):
    id: int
    url: str
    number: int
    data: dict[str, Any]
    version: str = Field(description="Of the extraction.")
    lineage: LineageView | None = Field(default=None, description="With ?lineage=true.")


class ItemList(Listing):
    data: list[ItemView]


class QuarantineView(ItemView):
    reasons: list[str]


class QuarantineList(Listing):
    data: list[QuarantineView]


class ErrorView(BaseModel):
    id: int
    url: str
    host: str
    outcome: str
    reason: str
    detail: str
    depth: int
    attempts: int
    at: str


class ErrorList(Listing):
    data: list[ErrorView]


class DeliveryView(BaseModel):
    id: int
    version: str
    output: dict[str, Any]
    state: str
    rows: int
    parts: int
    tries: int
    message: str
    updated_at: str


class DeliveryList(BaseModel):
    data: list[DeliveryView]


class ScrapeError(BaseModel):
    url: str
    reason: str
    detail: str
    attempts: int


class Scraped(BaseModel):
    """The one page, or why there is none."""

    id: str = Field(description="The job that fetches it.")
    state: JobState
    request_id: str
    page: PageView | None
    item: dict[str, Any] | None = Field(description="The first of its items.")
    items: list[dict[str, Any]] = Field(description="All of them, up to a cap; the job's results have the rest.")
    more: bool = Field(description="Are there more items than these?")
    error: ScrapeError | None
    links: Links
