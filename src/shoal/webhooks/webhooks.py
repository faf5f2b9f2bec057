"""What people and programs can do with webhooks. The command line and the API call the same functions."""

from __future__ import annotations

import secrets as random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from shoal.chores import Chore
from shoal.core.egress import Egress
from shoal.core.flaws import flaws_of
from shoal.core.happening import EVENTS
from shoal.core.redact import HIDDEN
from shoal.core.signing import new_secret
from shoal.core.url import Url
from shoal.core.webhook import (
    MAIL,
    MAX_OLD_SECRETS,
    OLD_SECRET,
    MessageState,
    Secret,
    Webhook,
    WebhookSettings,
    WebhookState,
    domain_of,
    fair_share,
    host_of,
    read_place,
    shown_place,
)
from shoal.errors import Conflict, InputError
from shoal.store.export import iso
from shoal.store.webhook_cursors import Cursors
from shoal.store.webhook_messages import MessageFilter, Messages
from shoal.store.webhook_rows import Attempt, Message
from shoal.store.webhooks import WebhookStore
from shoal.webhooks.postman import Postman

KEPT_DAYS = 30
"""Of messages, with their attempts."""
MOST_MESSAGES = 100_000
"""Over all endpoints; the oldest that do not wait go first, then the oldest of endpoints that have most waiting."""
MAX_WAITING = 10_000
"""For one endpoint; the oldest are given up."""
TRIM_AT_ONCE = 1_000
TRIM_ROUNDS = 100
TRIM_EVERY = timedelta(minutes=1)


class Webhooks:
    """Endpoints and what is sent to them."""

    def __init__(
        self,
        hooks: WebhookStore,
        messages: Messages,
        cursors: Cursors,
        postman: Postman,
        egress: Egress,
        now_ms: Callable[[], int],
        mail_domains: Collection[str] | None,
    ) -> None:
        """`mail_domains`: where mail may be sent for who comes over the API; None: there is no mail server."""
        self._hooks = hooks
        self._messages = messages
        self._cursors = cursors
        self._egress = egress
        self._now_ms = now_ms
        self._mail_domains = mail_domains
        self.postman = postman

    # --- endpoints ------------------------------------------------------------------------------------------------

    def add(self, settings: WebhookSettings, tenant: str, *, by_api: bool = False) -> tuple[Webhook, str]:
        """(the endpoint, its secret): the secret is shown this once."""
        settings, secret = self._placed(settings, by_api=by_api), new_secret()
        name = f"wh_{random.token_hex(8)}"
        hook = Webhook(
            name, tenant, settings, (Secret(secret),), WebhookState.ENABLED, "", self._now_ms(), by_api=by_api
        )
        self._hooks.add(hook)
        return hook, secret

    def all(self, tenant: str | None = None) -> list[Webhook]:
        return self._hooks.all(tenant)

    def find(self, name: str, tenant: str | None = None) -> Webhook:
        return self._hooks.find(name, tenant)

    def change(self, hook: Webhook, changes: Mapping[str, Any], *, by_api: bool = False) -> Webhook:
        """Some of its settings; a disabled one stays so until it is resumed. Who says where it is answers for it."""

        def changed(now: Webhook) -> Webhook:
            whose = now.by_api or (by_api and "url" in changes)
            settings = self._placed(read_settings_of({**now.settings.model_dump(), **changes}), by_api=whose)
            if "headers" not in changes and now.settings.headers and host_of(settings.url) != host_of(now.settings.url):
                raise InputError("its headers were given for another host: give those for this one, or {}", "headers")
            return replace(now, settings=settings, by_api=whose)

        return self._hooks.edit(hook.id, changed)

    def rotate(self, hook: Webhook, keep: timedelta = OLD_SECRET) -> tuple[Webhook, str]:
        """(the endpoint, its new secret): for a while messages are signed with both."""
        secret, now = new_secret(), self._now_ms()
        until = now + keep // timedelta(milliseconds=1)

        def changed(found: Webhook) -> Webhook:
            old = [replace(each, until_ms=min(each.until_ms or until, until)) for each in found.secrets]
            valid = [each for each in old if (each.until_ms or 0) > now]
            return replace(found, secrets=(Secret(secret), *valid[:MAX_OLD_SECRETS]))

        return self._hooks.edit(hook.id, changed), secret

    def pause(self, hook: Webhook) -> Webhook:
        """What happens waits until it is resumed."""
        if hook.state is WebhookState.DISABLED:
            raise Conflict(f"webhook {hook.name} is disabled: {hook.reason}")
        return self._hooks.set_state(hook.id, WebhookState.PAUSED)

    def resume(self, hook: Webhook) -> Webhook:
        """Also one that was disabled: what waits for it is sent."""
        return self._hooks.set_state(hook.id, WebhookState.ENABLED)

    def remove(self, hook: Webhook) -> None:
        """With all that is kept about it."""
        self._hooks.remove(hook.id)

    # --- messages -------------------------------------------------------------------------------------------------

    def ping(self, hook: Webhook) -> str:
        """A message that is sent at once, to see whether it arrives; returns its id."""
        self._check_enabled(hook)
        return self._messages.ping(hook, f"ping:{random.token_hex(8)}", self._now_ms())

    def message(self, name: str, tenant: str | None = None) -> Message:
        return self._messages.get(name, tenant)

    def messages(self, limit: int, wanted: MessageFilter) -> list[Message]:
        return self._messages.newest(limit, wanted)

    def attempts(self, message: str) -> list[Attempt]:
        return self._messages.attempts(message)

    def resend(self, message: Message) -> None:
        """Once more, with the same id."""
        self._check_enabled(self._hooks.find(message.webhook))
        if message.state is MessageState.WAITING and not message.tries:
            raise Conflict(f"delivery {message.id} is waiting to be sent already")
        self._messages.resend(message.id, self._now_ms())

    def age_of_oldest_s(self) -> tuple[int, float]:
        """(messages that wait, seconds that the oldest has waited)"""
        found = self._messages.backlog()
        waited = 0 if found.oldest_ms is None else max(0, self._now_ms() - found.oldest_ms)
        return found.waiting, waited / 1000

    # --- housekeeping ---------------------------------------------------------------------------------------------

    def chores(self) -> tuple[Chore, ...]:
        return Chore("webhooks", self.postman.start), Chore("trim_webhooks", self.trim, TRIM_EVERY)

    def trim(self) -> None:
        """What is too old, or too much."""
        now = self._now_ms()
        waiting = self._messages.waiting()
        most = min(MAX_WAITING, fair_share(waiting.values(), MOST_MESSAGES))
        for webhook in (name for name, count in waiting.items() if count > most):
            _until_few(
                lambda hook=webhook: self._messages.fail_surplus(hook, most, now, f"more than {most} messages wait")
            )
        before = now - timedelta(days=KEPT_DAYS) // timedelta(milliseconds=1)
        _until_few(lambda: self._messages.trim(before, MOST_MESSAGES, TRIM_AT_ONCE))
        self._cursors.trim(before)

    def _check_enabled(self, hook: Webhook) -> None:
        if hook.state is not WebhookState.ENABLED:
            why = f": {hook.reason}" if hook.reason else ""
            raise Conflict(
                f"webhook {hook.name} is {hook.state.value}{why}; go on with: shoal webhooks resume {hook.name}"
            )

    def _placed(self, settings: WebhookSettings, *, by_api: bool) -> WebhookSettings:
        """With a place that may be asked, and a name."""
        place = read_place(settings.url, self._egress)
        if isinstance(place, str):
            self._check_mail(place, by_api=by_api)
            if settings.template or settings.headers:
                raise InputError("mail has no template and no headers", "template" if settings.template else "headers")
        url = str(place) if isinstance(place, Url) else MAIL + place
        host = place.hostname.strip("[]").replace(":", "-") if isinstance(place, Url) else place.replace("@", "-at-")
        name = settings.name or host.replace("+", "-").replace("%", "-").lstrip("._-")[:80]
        return WebhookSettings.model_validate({**settings.model_dump(), "url": url, "name": name})

    def _check_mail(self, address: str, *, by_api: bool) -> None:
        if self._mail_domains is None:
            raise InputError("no mail is sent here: the operator has named no mail server (SHOAL_SMTP_URL)", "url")
        if by_api and domain_of(address) not in self._mail_domains:
            allowed = ", ".join(sorted(self._mail_domains)) or "none"
            raise InputError(f"the operator allows mail to these domains (SHOAL_MAIL_DOMAINS): {allowed}", "url")


def _until_few(trim: Callable[[], int]) -> None:
    """As much at once as a database bears, as often as there is more: what grows fast is trimmed fast."""
    for _ in range(TRIM_ROUNDS):
        if trim() < TRIM_AT_ONCE:
            return


def read_settings_of(values: Mapping[str, Any]) -> WebhookSettings:
    """Validated, or one error that lists everything that is wrong."""
    try:
        return WebhookSettings.model_validate(values)
    except ValidationError as exc:
        flaws = flaws_of(exc, values, WebhookSettings)
        text = "\n".join(f"{flaw.place}: {flaw.message}" for flaw in flaws)
        raise InputError(text, flaws[0].place) from exc


def shown(hook: Webhook) -> dict[str, Any]:
    """For programs, without what nobody is shown."""
    settings = hook.settings
    return {
        "id": hook.id,
        "name": hook.name,
        "url": shown_place(settings.url),
        "events": [each for each in EVENTS if each in settings.events],
        "jobs": list(settings.jobs),
        "labels": list(settings.labels),
        "headers": dict.fromkeys(settings.headers, HIDDEN),
        "template": settings.template,
        "state": hook.state.value,
        "reason": hook.reason,
        "created_at": iso(hook.created_ms),
        "delivered_at": None if hook.delivered_ms is None else iso(hook.delivered_ms),
        "failures": hook.failures,
        "held_until": iso(hook.hold_ms) if hook.hold_ms else None,
        "secrets": len(hook.secrets),
    }


def shown_message(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "webhook": message.webhook,
        "type": message.type,
        "job": message.job or None,
        "state": message.state.value,
        "tries": message.tries,
        "message": message.error,
        "created_at": iso(message.created_ms),
        "updated_at": iso(message.updated_ms),
        "next_at": iso(message.due_ms) if message.state is MessageState.WAITING and message.due_ms else None,
    }


def shown_attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "at": iso(attempt.at_ms),
        "status": attempt.status,
        "reason": attempt.reason,
        "elapsed_ms": attempt.elapsed_ms,
        "answer": attempt.answer,
    }
