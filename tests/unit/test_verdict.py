"""What comes of an attempt."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shoal.core.webhook import MESSAGE_TRIES, MessageState, Secret, Webhook, WebhookSettings, WebhookState
from shoal.store.webhook_rows import Attempt, Message
from shoal.webhooks.carrier import Sent
from shoal.webhooks.verdict import judge

DAY_MS = 86_400_000
HOOK = Webhook(
    "wh_1", "default", WebhookSettings(url="https://example.org/"), (Secret("x"),), WebhookState.ENABLED, "", 0
)
MESSAGE = Message("msg_1", "wh_1", "job.finished", "j1", 0, {}, None, None, MessageState.WAITING, 0, "", 0, 0, 0)


def _sent(status: int, reason: str = "http", **more: object) -> Sent:
    return replace(Sent(Attempt(0, status, reason, 1.0, "")), **more)


def test_what_arrives_forgets_what_failed() -> None:
    verdict = judge(replace(HOOK, failures=3, given_up=2), MESSAGE, _sent(204, ""), 5, 0.0)
    assert verdict.state is MessageState.DELIVERED
    assert (verdict.endpoint["failures"], verdict.endpoint["given_up"], verdict.endpoint["delivered_ms"]) == (0, 0, 5)


def test_what_fails_is_tried_again() -> None:
    verdict = judge(HOOK, MESSAGE, _sent(500), 1_000, 0.0)
    assert (verdict.state, verdict.due_ms) == (MessageState.WAITING, 6_000)
    assert verdict.endpoint == {"failures": 1, "failing_since_ms": 1_000}


def test_a_receiver_that_asks_for_rest_has_it() -> None:
    verdict = judge(HOOK, MESSAGE, _sent(429, rest=timedelta(minutes=2)), 0, 0.0)
    assert (verdict.due_ms, verdict.endpoint["hold_ms"]) == (120_000, 120_000)


@pytest.mark.parametrize(
    ("given_up", "since_days", "disabled"), [(0, 4, False), (1, 4, False), (2, 4, True), (2, 2, False), (9, 2, False)]
)
def test_an_endpoint_is_disabled_after_several_messages_over_days(
    given_up: int, since_days: int, *, disabled: bool
) -> None:
    hook = replace(HOOK, given_up=given_up, failing_since_ms=1)
    verdict = judge(hook, replace(MESSAGE, tries=MESSAGE_TRIES - 1), _sent(500), since_days * DAY_MS, 0.0)
    assert verdict.state is MessageState.FAILED
    assert (verdict.endpoint.get("state") == "disabled") is disabled


def test_gone_is_gone_and_a_test_is_sent_once() -> None:
    assert judge(HOOK, MESSAGE, _sent(410), 0, 0.0).endpoint["state"] == "disabled"
    ping = replace(MESSAGE, type="ping")
    assert judge(HOOK, ping, _sent(500), 0, 0.0).state is MessageState.FAILED
    assert judge(HOOK, ping, _sent(500), 0, 0.0).endpoint == {}
    assert judge(HOOK, ping, _sent(410), 0, 0.0).endpoint["state"] == "disabled"
    assert judge(HOOK, MESSAGE, _sent(0, hopeless=True), 0, 0.0).state is MessageState.FAILED
