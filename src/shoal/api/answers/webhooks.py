"""Webhooks, their messages, and how these fared."""

from __future__ import annotations

from pydantic import BaseModel, Field

from shoal.api.answers.listing import Listing
from shoal.core.happening import EventName
from shoal.core.webhook import MessageState, WebhookState


class WebhookView(BaseModel):
    id: str
    name: str
    url: str = Field(description="Without what may be a token.")
    events: list[EventName]
    jobs: list[str]
    labels: list[str]
    headers: dict[str, str] = Field(description="Their values are not shown.")
    template: str
    state: WebhookState
    reason: str = Field(description="Why it is disabled.")
    created_at: str
    delivered_at: str | None = Field(description="When a message last arrived.")
    failures: int = Field(description="Attempts in a row that failed.")
    held_until: str | None = Field(description="The receiver has asked to be left alone until then.")
    secrets: int = Field(description="How many messages are signed with: more than one while they rotate.")


class NewWebhook(WebhookView):
    secret: str = Field(description="Shown this once: what receivers verify signatures with.")


class WebhookList(BaseModel):
    data: list[WebhookView]


class MessageView(BaseModel):
    id: str = Field(description="The same over all attempts: the header webhook-id.")
    webhook: str
    type: str
    job: str | None
    state: MessageState
    tries: int
    message: str = Field(description="Why the last attempt failed.")
    created_at: str
    updated_at: str
    next_at: str | None = Field(description="When it is tried again; null when at once, or no more.")


class AttemptView(BaseModel):
    at: str
    status: int = Field(description="0 when there was no answer.")
    reason: str = Field(description="Why it failed; empty when it arrived.")
    elapsed_ms: float
    answer: str = Field(description="Its first kilobyte.")


class MessageDetail(MessageView):
    attempts: list[AttemptView] = Field(description="The first first.")


class MessageList(Listing):
    data: list[MessageView]
