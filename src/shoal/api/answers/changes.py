"""What has changed since an earlier run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

KindName = Literal["new", "changed", "gone", "unchanged", "unknown"]


class SideView(BaseModel):
    status: int
    redirect: str | None
    fetched_at: str


class RunChangeView(BaseModel):
    kind: KindName
    url: str
    why: str = Field(
        description="Of a page: content, status or redirect; http_404, http_410 or not_linked; or why not known."
    )
    host: str | None = None
    detail: str | None = None
    before: SideView | None = Field(default=None, description="Of a page: as it was in the earlier run.")
    after: SideView | None = Field(default=None, description="Of a page: as it is in this one.")
    number: int | None = Field(default=None, description="Of an item: its place on the page.")
    key: Any = Field(default=None, description="Of an item: the value by which it is known again.")
    fields: dict[str, Any] | None = Field(
        default=None, description="Of a changed item: what differs, before and after."
    )
    data: dict[str, Any] | None = Field(default=None, description="Of another item: all of it.")


class RunChangeList(BaseModel):
    job: str
    since: str = Field(description="The earlier run.")
    data: list[RunChangeView] = Field(description="May be empty although there is more.")
    cursor: str | None
    more: bool


class ChangeSums(BaseModel):
    job: str
    since: str
    new: int
    changed: int
    gone: int
    unchanged: int
    unknown: int
    why: dict[str, dict[str, int]] = Field(description="Kind → why → how many.")
    hosts: dict[str, dict[str, int]] = Field(description="Host → kind → how many.")
    fields: dict[str, int] = Field(description="Of items: how often each field changed.")
    cursor: str | None = Field(description="Where to go on: the sums are of a part, to be added up.")
    more: bool


class TextDiffView(BaseModel):
    lines: list[str] = Field(description="As in a unified diff: @@ before each part; a blank, - or + before each line.")
    added: int
    removed: int
    note: str = Field(description="Why it is not complete, if it is not.")


class PageChangeView(RunChangeView):
    job: str
    since: str
    diff: TextDiffView | None = Field(description="Of a changed page.")
