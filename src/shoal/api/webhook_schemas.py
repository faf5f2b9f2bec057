"""The shapes of requests about webhooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from shoal.api.schemas import Cursor, Exact, Limit, Query
from shoal.core.happening import TOLD_UNASKED, EventName
from shoal.core.values import Label
from shoal.core.webhook import MAX_FILTERS, MAX_HEADERS_SENT, NAME, MessageState, WebhookSettings

_EXAMPLE: dict[str, JsonValue] = {
    "url": "https://example.org/hooks/shoal",
    "events": ["job.finished", "job.failed"],
    "labels": ["nightly"],
}


class WebhookBody(WebhookSettings):
    """Where to tell what, and how."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})


class WebhookChange(Exact):
    """What can be changed of a webhook; what is not named stays."""

    url: Annotated[str, Field(min_length=1, max_length=2_000)] = ""
    name: Annotated[str, Field(pattern=NAME)] = ""
    events: tuple[EventName, ...] = Field(default=TOLD_UNASKED, min_length=1, max_length=20)
    jobs: tuple[Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")], ...] = Field(
        default=(), max_length=MAX_FILTERS
    )
    labels: tuple[Label, ...] = Field(default=(), max_length=MAX_FILTERS)
    headers: dict[str, str] = Field(default_factory=dict, max_length=MAX_HEADERS_SENT)
    template: str = ""
    state: Literal["enabled", "paused"] = "enabled"
    """`enabled` also takes up one that was disabled."""


class WebhookPath(Exact):
    webhook: str = Field(max_length=80, pattern=r"^[^\x00]*$", description="Its id or its name.")


class MessagePath(Exact):
    message: str = Field(max_length=80, pattern=r"^[^\x00]*$", description="A delivery's id: msg_…")


class WaitQuery(Query):
    wait: float = Field(
        default=0, ge=0, le=300, description="Seconds to wait for the first attempt, up to the server's cap."
    )


class RotateQuery(Query):
    keep_seconds: float = Field(
        default=86_400, ge=0, le=604_800, description="So long are messages signed with the secret before, too."
    )


class MessageQuery(Query):
    webhook: Annotated[str, Field(max_length=80, pattern=r"^[^\x00]*$")] | None = Field(
        default=None, description="Only those to this webhook."
    )
    state: MessageState | None = None
    limit: Limit = 50
    cursor: Cursor = Field(default=None, description="From the answer before, to go on behind it.")
