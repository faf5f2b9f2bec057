"""Webhooks: who is told what happens, the messages, and how they fared."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flask import Response

from shoal.api import cursor, present
from shoal.api.answers.webhooks import (
    MessageDetail,
    MessageList,
    NewWebhook,
    WebhookList,
    WebhookView,
)
from shoal.api.context import answer, platform, tenant
from shoal.api.routes import Routes
from shoal.api.webhook_schemas import (
    MessagePath,
    MessageQuery,
    RotateQuery,
    WaitQuery,
    WebhookBody,
    WebhookChange,
    WebhookPath,
)
from shoal.core.webhook import Webhook, WebhookState
from shoal.store.webhook_messages import MessageFilter
from shoal.webhooks.webhooks import Webhooks, shown, shown_attempt, shown_message

routes = Routes("webhooks", "/api/v1", "Who is told what happens")

POLL_S = 0.1


@routes.post("/webhooks", {201: NewWebhook})
def add_webhook(body: WebhookBody) -> Response:
    """Add a webhook. Its secret is in this answer, and in no other."""
    hook, secret = _all().add(body, tenant(), by_api=True)
    headers = {"Location": f"{present.PREFIX}/webhooks/{hook.id}"}
    return answer({**shown(hook), "secret": secret}, 201, headers)


@routes.get("/webhooks", {200: WebhookList})
def list_webhooks() -> Response:
    """List webhooks by name, with their state."""
    return answer({"data": [shown(hook) for hook in _all().all(tenant())]})


@routes.get("/webhooks/<webhook>", {200: WebhookView})
def show_webhook(path: WebhookPath) -> Response:
    """Show a webhook."""
    return answer(shown(_own(path)))


@routes.patch("/webhooks/<webhook>", {200: WebhookView})
def change_webhook(path: WebhookPath, body: WebhookChange) -> Response:
    """Change a webhook, pause it, or take it up again."""
    hook, changes = _own(path), body.model_dump(mode="json", exclude_unset=True)
    state = changes.pop("state", None)
    if changes:
        hook = _all().change(hook, changes, by_api=True)
    if state is not None and state != hook.state:
        hook = (_all().pause if state == WebhookState.PAUSED else _all().resume)(hook)
    return answer(shown(hook))


@routes.delete("/webhooks/<webhook>", {204: None})
def remove_webhook(path: WebhookPath) -> Response:
    """Remove a webhook, with what waits for it and what is kept of what was sent."""
    _all().remove(_own(path))
    return Response(status=204)


@routes.post("/webhooks/<webhook>/test", {200: MessageDetail, 202: MessageDetail})
def test_webhook(path: WebhookPath, query: WaitQuery) -> Response:
    """Send a `ping` now, and wait for the answer if asked to.

    200 when it was sent in time, whatever the receiver said; else 202, and the delivery to ask about later.
    """
    message = _all().ping(_own(path))
    patience = min(query.wait, platform().settings.api_wait_seconds)
    sent = _within(patience, lambda: bool(_all().attempts(message)))
    return answer(_detail(message), 200 if sent else 202)


@routes.post("/webhooks/<webhook>/rotate", {200: NewWebhook})
def rotate_secret(path: WebhookPath, query: RotateQuery) -> Response:
    """Make a new secret; for a while messages are signed with the one before, too."""
    hook, secret = _all().rotate(_own(path), timedelta(seconds=query.keep_seconds))
    return answer({**shown(hook), "secret": secret})


@routes.get("/webhook-deliveries", {200: MessageList})
def list_messages(query: MessageQuery) -> Response:
    """List deliveries, the newest first."""
    place = cursor.read(query.cursor, int, str)
    before = None if place is None else (int(place[0]), str(place[1]))
    rows = _all().messages(query.limit + 1, MessageFilter(tenant(), _known(query.webhook), query.state, before))
    seen = rows[: query.limit]
    last = cursor.write([seen[-1].created_ms, seen[-1].id]) if seen else query.cursor
    return answer({"data": [shown_message(row) for row in seen], "cursor": last, "more": len(rows) > query.limit})


@routes.get("/webhook-deliveries/<message>", {200: MessageDetail})
def show_message(path: MessagePath) -> Response:
    """Show a delivery with its attempts."""
    return answer(_detail(path.message))


@routes.post("/webhook-deliveries/<message>/resend", {202: MessageDetail})
def resend_message(path: MessagePath) -> Response:
    """Send it once more, with the same id."""
    _all().resend(_all().message(path.message, tenant()))
    return answer(_detail(path.message), 202)


def _all() -> Webhooks:
    return platform().webhooks


def _known(name: str | None) -> str | None:
    """The id of a webhook of the caller's; of one that there is not, no message is found."""
    if name is None:
        return None
    return next((hook.id for hook in _all().all(tenant()) if name in (hook.id, hook.name)), name)


def _own(path: WebhookPath) -> Webhook:
    return _all().find(path.webhook, tenant())


def _detail(message: str) -> dict[str, Any]:
    found = _all().message(message, tenant())
    return {**shown_message(found), "attempts": [shown_attempt(each) for each in _all().attempts(found.id)]}


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(POLL_S)
    return met
