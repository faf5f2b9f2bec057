"""What comes of an attempt: the message has arrived, is tried again, or is given up; and what that says of its
endpoint."""

from __future__ import annotations

from datetime import timedelta

from shoal.core.happening import PING
from shoal.core.webhook import (
    GIVE_UP_AFTER,
    GIVE_UP_MESSAGES,
    MessageState,
    Webhook,
    WebhookState,
    next_due,
)
from shoal.store.webhook_messages import Verdict
from shoal.store.webhook_rows import Message
from shoal.webhooks.carrier import Sent


def judge(hook: Webhook, message: Message, sent: Sent, now_ms: int, chance: float) -> Verdict:
    """Decide; nothing else is changed by it."""
    if sent.arrived:
        well = {"failures": 0, "failing_since_ms": None, "given_up": 0, "hold_ms": 0, "delivered_ms": now_ms}
        return Verdict(MessageState.DELIVERED, 0, well)
    if sent.hopeless or (message.type == PING and not sent.gone):
        return Verdict(MessageState.FAILED, 0, {})
    if sent.gone:
        told = {"state": WebhookState.DISABLED.value, "reason": "the receiver answered 410: it is gone"}
        return Verdict(MessageState.FAILED, 0, told)
    return _failed(hook, message, sent, now_ms, chance)


def _failed(hook: Webhook, message: Message, sent: Sent, now_ms: int, chance: float) -> Verdict:
    since = hook.failing_since_ms or now_ms
    endpoint: dict[str, object] = {"failures": hook.failures + 1, "failing_since_ms": since}
    due = next_due(message.tries + 1, now_ms, chance)
    if sent.rest is not None:
        endpoint["hold_ms"] = now_ms + _ms(sent.rest)
        due = None if due is None else max(due, now_ms + _ms(sent.rest))
    if due is not None:
        return Verdict(MessageState.WAITING, due, endpoint)
    given_up = hook.given_up + 1
    endpoint["given_up"] = given_up
    if given_up >= GIVE_UP_MESSAGES and now_ms - since >= _ms(GIVE_UP_AFTER):
        days = (now_ms - since) // _ms(timedelta(days=1))
        reason = f"nothing has arrived for {days} days, and {given_up} messages were given up: {sent.attempt.reason}"
        endpoint |= {"state": WebhookState.DISABLED.value, "reason": reason[:500]}
    return Verdict(MessageState.FAILED, 0, endpoint)


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
