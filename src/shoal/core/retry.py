"""What is retried, and when. Nothing else decides this.

Exponential backoff with full jitter: the n-th retry waits a random time between 0 and `base · 2ⁿ`, at most `cap`,
and never less than what the server asked for with Retry-After (clamped to `retry_after_cap`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from shoal.core.frozen import frozen
from shoal.core.manners import Signal
from shoal.core.model import Outcome

RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
BUSY_STATUS = frozenset({429, 503})
"""Answers that mean the host, not the page, wants a rest."""

RETRIED_REASONS = frozenset(
    {
        "timeout_connect",
        "timeout_first_byte",
        "timeout_body",
        "timeout_total",
        "connect_refused",
        "connect_failed",
        "connection_lost",
        "dns_failed",
        "bad_http",
        "robots_unreachable",
        "job_unknown",
        "proxy_failed",
        "proxy_refused",
        "proxy_gateway",
        "proxy_wait",
        "browser_crashed",
        "browser_missing",
        "memory_short",
        "page_crashed",
        "render_timeout",
        "selector_missing",
    }
)
"""Failures without a status that may pass. TLS faults, unknown hosts, addresses that are blocked, bodies that are too
large and the like do not."""


@frozen
class RetryDecision:
    """What to do with a request that failed."""

    outcome: Outcome
    delay: timedelta = timedelta()
    hold_host: timedelta = timedelta()


@frozen
class RetryPolicy:
    """How often and how patiently to try again."""

    retries: int = 3
    base: timedelta = timedelta(seconds=1)
    cap: timedelta = timedelta(minutes=5)
    retry_after_cap: timedelta = timedelta(minutes=10)

    def decide(
        self,
        reason: str,
        attempt: int,
        retry_after: timedelta | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> RetryDecision:
        """Retry or give up, for the attempt (counted from 0) that has just failed."""
        asked = min(retry_after or timedelta(), self.retry_after_cap)
        hold = asked if reason in _BUSY_REASONS else timedelta()
        if not _passes(reason) or attempt >= self.retries:
            return RetryDecision(Outcome.DEAD, hold_host=hold)
        base = ROBOTS_BASE if reason == "robots_unreachable" else self.base
        longest = min(base * (2 ** min(attempt, 30)), self.cap)
        backoff = longest * jitter()
        if reason in _PATIENT:  # it said that this was too soon
            backoff = (backoff + longest) / 2
        return RetryDecision(Outcome.RETRY, max(backoff, asked), hold)


ROBOTS_BASE = timedelta(seconds=30)
"""A robots.txt that cannot be had is waited for: 30 s, 60 s, 2 min, …"""
_BUSY_REASONS = frozenset(f"http_{status}" for status in BUSY_STATUS)
_PATIENT = _BUSY_REASONS | {"robots_unreachable"}
_RETRIED = RETRIED_REASONS | {f"http_{status}" for status in RETRIED_STATUS}


def _passes(reason: str) -> bool:
    return reason in _RETRIED or (reason.startswith("http_5") and reason not in ("http_501", "http_505"))


_SILENT = frozenset({"timeout_first_byte", "timeout_body", "timeout_total"})
_DOWN = frozenset({"timeout_connect", "connect_refused", "connect_failed", "dns_failed", "dns_not_found"})
NOT_ASKED = frozenset(
    {
        *("robots_pending", "robots_unreachable", "robots_disallowed", "host_down", "worker_lost", "internal_error"),
        *("row_refused", "job_unknown", "store_down", "proxy_failed", "proxy_refused", "proxy_gateway", "proxy_wait"),
        *("bad_url", "blocked_address", "browser_crashed", "browser_missing"),
    }
)
"""Failures that say nothing about the host: it was not asked, or the fault is ours or a proxy's."""


def signal_of(reason: str) -> Signal:
    """What a failure tells about the host."""
    if reason in NOT_ASKED:
        return Signal.NONE
    if reason in _DOWN:
        return Signal.DOWN
    if reason in _SILENT:
        return Signal.SLOW
    if reason in _BUSY_REASONS:
        return Signal.BUSY
    return Signal.OK if reason.startswith("http_4") else Signal.ALIVE


def parse_retry_after(value: str | None, sent: str | None = None, now: datetime | None = None) -> timedelta | None:
    """Seconds or an HTTP date; None when absent, negative or garbage.

    A date is that of the server's clock, so it is compared with the `Date` of the same answer; with ours only where
    there is none.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:12]), 10**9))
    when = _date(text)
    if when is None:
        return None
    left = when - (_date(sent or "") or now or datetime.now(UTC))
    return left if left > timedelta() else timedelta()


def _date(text: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
