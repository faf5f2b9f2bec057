"""Carries one message to its receiver, by HTTP or by mail, and tells how that went."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Protocol

import structlog

from shoal.core.frozen import frozen
from shoal.core.redact import visible, without_secrets
from shoal.core.retry import parse_retry_after
from shoal.core.signing import signed_headers
from shoal.core.url import Url, parse
from shoal.core.webhook import MAIL, Webhook, domain_of, hold_for, read_address
from shoal.errors import NotFound, ShoalError, Undelivered
from shoal.fetch.port import FetchLimits, Response
from shoal.store.webhook_rows import Attempt, Message
from shoal.webhooks.letters import Letters

log = structlog.get_logger()

MAX_SAID = 1_024
"""Bytes of an answer that are kept."""
LIMITS = FetchLimits(
    connect=timedelta(seconds=10), first_byte=timedelta(seconds=15), total=timedelta(seconds=15), max_body=MAX_SAID
)
MAILS_AT_ONCE = 4
MAIL_TOTAL_S = 60.0
"""For one mail, with the time that it waits for others; less than a message is owned."""
GONE = 410
ASKS_FOR_REST = (429, 503)


class Poster(Protocol):
    """What sends a message by HTTP."""

    async def post(self, url: Url, headers: dict[str, str], body: bytes, limits: FetchLimits) -> Response: ...

    async def close(self) -> None: ...


class Mails(Protocol):
    """What sends one by mail."""

    def send(self, to: str, subject: str, text: str, message: str, seconds: int) -> tuple[int, str]: ...


@frozen
class Sent:
    """How an attempt went."""

    attempt: Attempt
    rest: timedelta | None = None
    """The receiver asks to be left alone, for so long."""
    hopeless: bool = False
    """No other attempt can go better."""

    @property
    def arrived(self) -> bool:
        return not self.attempt.reason

    @property
    def gone(self) -> bool:
        """The receiver does not want to be told any more."""
        return self.attempt.status == GONE


class Carrier:
    """Carries messages; one for each event loop."""

    def __init__(self, poster: Poster, letters: Letters, mails: Mails | None, domains: Collection[str]) -> None:
        """`domains`: where mail of endpoints may go that came over the API."""
        self._poster = poster
        self._letters = letters
        self._mails = mails
        self._domains = domains
        self._threads = ThreadPoolExecutor(MAILS_AT_ONCE, "mail")
        """Of mail's own: a mail server that hangs must not take those that everything else is done in."""

    async def carry(self, hook: Webhook, message: Message, now_ms: int) -> Sent:
        """One attempt; what fails is told, never raised."""
        started = time.perf_counter()
        try:
            sent = await (self._mail if hook.is_mail else self._post)(hook, message, now_ms)
        except NotFound as exc:
            sent = Sent(Attempt(now_ms, 0, str(exc), 0.0, ""), hopeless=True)
        except ShoalError as exc:
            code = exc.code if isinstance(exc, Undelivered) else 0
            sent = Sent(Attempt(now_ms, code, _clean(str(exc), hook), _ms(started), ""))
        except Exception as exc:  # a fault of ours or of a library: it counts, or it would be tried for ever
            log.exception("webhook_fault", webhook=hook.id, message=message.id)
            sent = Sent(Attempt(now_ms, 0, f"fault: {type(exc).__name__} here; the log has more", _ms(started), ""))
        return sent

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._poster.close()

    async def _post(self, hook: Webhook, message: Message, now_ms: int) -> Sent:
        url = parse(hook.settings.url)
        body = await asyncio.to_thread(self._letters.write, hook, message)
        headers = {
            **hook.settings.headers,
            **signed_headers(hook.signing(now_ms), message.id, now_ms // 1000, body),
            "Content-Type": "application/json",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
        }
        answer = await self._poster.post(url, headers, body, LIMITS)
        said = _clean(answer.wire_body.decode("utf-8", "replace"), hook, cut=len(answer.wire_body) >= MAX_SAID)
        reason = "" if 200 <= answer.status < 300 else _reason(answer)
        asked = parse_retry_after(answer.header("retry-after"), answer.header("date"))
        rest = hold_for(asked) if answer.status in ASKS_FOR_REST else None
        elapsed = round(answer.elapsed.total_seconds() * 1000, 1)
        return Sent(Attempt(now_ms, answer.status, reason, elapsed, said), rest)

    async def _mail(self, hook: Webhook, message: Message, now_ms: int) -> Sent:
        to = read_address(hook.settings.url[len(MAIL) :])
        if self._mails is None:
            raise Undelivered("no mail server is configured any more (SHOAL_SMTP_URL)")
        if hook.by_api and domain_of(to) not in self._domains:
            raise Undelivered("the operator does not allow mail to this domain any more (SHOAL_MAIL_DOMAINS)")
        subject, text = await asyncio.to_thread(self._letters.mail, message)
        started = time.perf_counter()
        given = (to, subject, text, message.id, now_ms // 1000)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(MAIL_TOTAL_S):
                code, said = await loop.run_in_executor(self._threads, self._mails.send, *given)
        except TimeoutError as exc:
            raise Undelivered(f"mail: it was not taken within {MAIL_TOTAL_S:g} s") from exc
        return Sent(Attempt(now_ms, code, "" if code == 250 else said, _ms(started), said))


def _reason(answer: Response) -> str:
    if 300 <= answer.status < 400:
        return f"http_{answer.status}: redirects are not followed"
    return f"http_{answer.status}"


def _clean(text: str, hook: Webhook, *, cut: bool = False) -> str:
    """Of a stranger, for people: without our secrets, should it repeat them, and nothing that a screen obeys."""
    known = hook.hidden
    plain = without_secrets(text, known)
    return visible(_without_beginning(plain, known) if cut else plain, lines=True)[: 2 * MAX_SAID]


def _without_beginning(text: str, known: Sequence[str]) -> str:
    """A text that was cut may end within a secret."""
    ends = (size for each in known for size in range(len(each) - 1, 3, -1) if text.endswith(each[:size]))
    return text[: len(text) - max(ends, default=0)]


def _ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
