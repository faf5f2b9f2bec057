"""Messages on their way: what is due is carried, a few at a time to each endpoint, so that a slow one holds up nobody.

It runs in a thread beside the housekeeping, never on a crawl's path. A message belongs to one postman at a time, for a
while: what is cut off is carried once more by whoever comes next, with the same id.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import uuid4

import structlog

from shoal.core.webhook import MessageState, Webhook, WebhookState
from shoal.errors import ShoalError
from shoal.store.webhook_messages import Due, Messages, Verdict
from shoal.store.webhook_rows import Message
from shoal.store.webhooks import WebhookStore
from shoal.webhooks.carrier import Carrier, Sent
from shoal.webhooks.sources import Source
from shoal.webhooks.verdict import judge

log = structlog.get_logger()

SENT_AT_ONCE = 64
PER_TENANT = 32
PER_ENDPOINT = 4
"""Messages under way to one; one at a time while it fails."""
OWNED = timedelta(seconds=90)
"""Longer than an attempt can take: then the message is somebody else's."""
LOOK_S = 1.0
OUTCOMES = ("delivered", "failed", "given_up")
"""Of attempts, for the metrics."""

Flying = dict["asyncio.Task[bool]", Webhook]


class Postman:
    """Carries what is due. Its clock is Redis'."""

    def __init__(
        self,
        hooks: WebhookStore,
        messages: Messages,
        sources: Sequence[Source],
        open_carrier: Callable[[], Carrier],
        now_ms: Callable[[], int],
        count: Callable[[str], None],
    ) -> None:
        self._hooks = hooks
        self._messages = messages
        self._sources = sources
        self._open_carrier = open_carrier
        self._now_ms = now_ms
        self._count = count
        self._owner = uuid4().hex
        self._thread: threading.Thread | None = None
        self._turns = itertools.count(1)
        self._served: dict[str, int] = {}

    def start(self) -> None:
        """Begin with what is due, in a thread of its own: no receiver, however slow, holds anybody up."""
        if (self._thread is None or not self._thread.is_alive()) and self._hooks.any_told():
            self._thread = threading.Thread(target=self._work_in_thread, name="postman", daemon=True)
            self._thread.start()

    def work(self, within: timedelta | None = None) -> int:
        """Carry all that is due, and all that comes of it meanwhile; returns how many attempts there were.

        After `within`, what is under way is let be: somebody else carries it later.
        """
        gathered = self._gather()
        if not gathered and not self._messages.due(self._now_ms()):
            return 0
        return asyncio.run(self._work(within, gathered))

    def carry_now(self, message: str) -> bool:
        """Carry this one; False when another one does."""
        return asyncio.run(self._carry_one(message))

    def _work_in_thread(self) -> None:
        try:
            self.work()
        except ShoalError as exc:
            log.warning("webhooks_failed", error=str(exc))

    def _gather(self) -> int:
        return sum(self._gather_from(source) for source in self._sources)

    def _gather_from(self, source: Source) -> int:
        """What is wrong with one source is no reason to say nothing of the others."""
        try:
            return source.gather(self._now_ms())
        except ShoalError as exc:
            log.warning("webhook_source_failed", source=type(source).__name__, error=str(exc))
        except Exception:
            log.exception("webhook_source_failed", source=type(source).__name__)
        return 0

    async def _work(self, within: timedelta | None, gathered: int) -> int:
        """Until nothing flies, nothing is due, and the sources have no more: they give a part of it at a time."""
        carrier, flying, done = self._open_carrier(), Flying(), 0
        try:
            async with asyncio.timeout(None if within is None else within.total_seconds()):
                while await self._take_off(carrier, flying) or flying or gathered:
                    done += await _land(flying)
                    gathered = await asyncio.to_thread(self._gather)
        except TimeoutError:
            pass
        finally:
            for task in flying:
                task.cancel()
            await asyncio.gather(*flying, return_exceptions=True)
            await carrier.close()
        return done

    async def _take_off(self, carrier: Carrier, flying: Flying) -> bool:
        """Begin with as many as there is room for; are there any?"""
        claimed = await asyncio.to_thread(self._claim, list(flying.values()))
        for hook, message in claimed:
            flying[asyncio.create_task(self._carry(carrier, hook, message))] = hook
        return bool(claimed)

    def _claim(self, under_way: Sequence[Webhook]) -> list[tuple[Webhook, Message]]:
        now = self._now_ms()
        of_hooks, of_tenants = Counter(each.id for each in under_way), Counter(each.tenant for each in under_way)
        claimed: list[tuple[Webhook, Message]] = []
        for due in self._in_turn() if len(under_way) < SENT_AT_ONCE else ():
            room = min(
                (1 if due.failing else PER_ENDPOINT) - of_hooks[due.webhook],
                PER_TENANT - of_tenants[due.tenant],
                SENT_AT_ONCE - len(under_way) - len(claimed),
            )
            hook = self._hooks.get(due.webhook) if room > 0 else None
            found = self._messages.claim(hook.id, self._owner, now, OWNED, room) if hook else []
            of_tenants[due.tenant] += len(found)
            claimed += [(hook, message) for message in found if hook]
            if found:
                self._served[due.webhook] = next(self._turns)
        return claimed

    def _in_turn(self) -> list[Due]:
        """Who was served longest ago first: however much waits for one, the others have their turn."""
        due = self._messages.due(self._now_ms())
        self._served = {each.webhook: self._served.get(each.webhook, 0) for each in due}
        return sorted(due, key=lambda each: self._served[each.webhook])

    async def _carry_one(self, name: str) -> bool:
        message = self._messages.claim_one(name, self._owner, self._now_ms(), OWNED)
        hook = self._hooks.get(message.webhook) if message else None
        if message is None or hook is None:
            return False
        carrier = self._open_carrier()
        try:
            return await self._carry(carrier, hook, message)
        finally:
            await carrier.close()

    async def _carry(self, carrier: Carrier, hook: Webhook, message: Message) -> bool:
        try:
            sent = await carrier.carry(hook, message, await asyncio.to_thread(self._now_ms))
            return await asyncio.to_thread(self._settle, message, sent)
        except ShoalError as exc:  # it is carried once more when nobody owns it any longer
            log.warning("webhook_failed", webhook=hook.id, message=message.id, error=str(exc))
        except Exception:  # a fault of ours or of a library must not stand before the other messages
            log.exception("webhook_failed", webhook=hook.id, message=message.id)
        return False

    def _settle(self, message: Message, sent: Sent) -> bool:
        now, chance = self._now_ms(), random.random()
        verdicts: list[Verdict] = []

        def decide(hook: Webhook) -> Verdict:
            verdicts.append(judge(hook, message, sent, now, chance))
            return verdicts[0]

        if not self._messages.settle(message, self._owner, sent.attempt, decide):
            log.warning("webhook_lost", webhook=message.webhook, message=message.id)
            return False
        self._tell(message, sent, verdicts[0])
        return True

    def _tell(self, message: Message, sent: Sent, verdict: Verdict) -> None:
        attempt = sent.attempt
        facts = {"webhook": message.webhook, "message": message.id, "type": message.type, "job": message.job}
        if sent.arrived:
            self._count("delivered")
            log.info("webhook_delivered", **facts, status=attempt.status, ms=attempt.elapsed_ms)
            return
        given_up = verdict.state is MessageState.FAILED
        self._count("given_up" if given_up else "failed")
        told = {"status": attempt.status, "why": attempt.reason, "tries": message.tries + 1}
        if given_up:
            log.warning("webhook_given_up", **facts, **told)
        else:
            log.info("webhook_refused", **facts, **told)
        if verdict.endpoint.get("state") == WebhookState.DISABLED.value:
            log.warning("webhook_disabled", webhook=message.webhook, why=verdict.endpoint["reason"])


async def _land(flying: Flying) -> int:
    """Wait a moment for those under way; returns how many have arrived or failed."""
    if not flying:
        return 0
    landed, _ = await asyncio.wait(flying, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
    for task in landed:
        del flying[task]
    return sum(task.result() for task in landed)
