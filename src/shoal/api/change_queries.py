"""What can be asked about changes: the shapes of these requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shoal.api.schemas import Cursor, Limit, Query
from shoal.changes.kinds import Kind

_KINDS = r"^(new|changed|gone|unchanged|unknown)(,(new|changed|gone|unchanged|unknown)){0,4}$"
JobId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,40}$")]


class ChangeSumsQuery(Query):
    since: JobId | None = Field(
        default=None, description="The run to compare with. By default the newest finished job of the same name before."
    )
    of: Literal["pages", "items"] = "pages"
    cursor: Cursor = Field(default=None, description="From the answer before, to go on behind it.")


class ChangesQuery(ChangeSumsQuery):
    kind: Annotated[str, Field(max_length=60, pattern=_KINDS)] | None = Field(
        default=None, description="Only these, with commas: new,changed,gone. By default all but unchanged."
    )
    limit: Limit = 100

    @property
    def kinds(self) -> frozenset[Kind]:
        """Those that are wanted."""
        return frozenset(map(Kind, self.kind.split(","))) if self.kind else frozenset(Kind) - {Kind.UNCHANGED}


class PageChangeQuery(Query):
    url: Annotated[str, Field(max_length=8_192, pattern=r"^[^\x00]*$")]
    since: JobId | None = Field(default=None, description="As for the list of changes.")
