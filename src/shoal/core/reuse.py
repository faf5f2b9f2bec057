"""May a page that an earlier job has stored be used again? Decided from what is known of it; nobody is asked here.

Three answers: it is used as it is, without a request; its host is asked whether it has changed (a conditional GET); or
it is fetched as if nobody knew it. A server may say "not modified" of a page that it has changed: now and then a page
is fetched in full, whatever was said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from email.utils import parsedate_to_datetime
from enum import StrEnum

from shoal.core.frozen import frozen
from shoal.core.revisit import Revisiting

FRESH, NOT_DUE, NOT_MODIFIED = "fresh", "not_due", "not_modified"
REUSED = frozenset({FRESH, NOT_DUE, NOT_MODIFIED})
"""Reasons with which a page that was carried over counts as done."""
MAX_ETAG, MAX_DATE = 1_000, 100
"""Characters of what a server gives us to ask with; longer ones are not kept."""
MOST_UNVERIFIED = 10
"""Times in a row that a server is believed."""
VERIFY_AFTER_MS = 30 * 86_400_000
"""And no body is believed for longer than this."""
SKEW_MS = 300_000
"""Clocks of machines may differ by this much; a page from further in the future has no known age."""
_CONDITIONS = frozenset({"if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"})


class Way(StrEnum):
    """What to do about a page."""

    FETCH = "fetch"
    ASK = "ask"
    """Whether it has changed."""
    REUSE = "reuse"
    """Without a request."""


@frozen
class Decision:
    """What to do about a page, and why."""

    way: Way
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """To ask with."""


PLAINLY = Decision(Way.FETCH)


@frozen
class Validators:
    """What a server gave us to ask with, as it came."""

    etag: str | None = None
    last_modified: str | None = None

    def conditions(self, given_ms: int) -> dict[str, str]:
        """What to ask with: both, if there are both, as a server that knows ETags leaves the other aside.

        A date that is none, or not before the time when it was given, says nothing about the next version.
        """
        date = self.last_modified if self.last_modified and _is_past(self.last_modified, given_ms) else None
        found = {"If-None-Match": self.etag, "If-Modified-Since": date}
        return {name: value for name, value in found.items() if value}


NO_VALIDATORS = Validators()


@frozen
class Known:
    """What is known of the earlier page."""

    fetched_ms: int
    """When its body came."""
    checked_ms: int
    """When its host last said that this is the page."""
    validators: Validators = NO_VALIDATORS
    interval_ms: int | None = None
    unverified: int = 0
    """Times in a row that the host said so without sending it."""
    rendered: bool = False
    """A browser made it of many answers: no single one tells whether it has changed."""


@frozen
class Rules:
    """What a job says about pages that are known."""

    max_age_ms: int | None = None
    revisit: Revisiting | None = None
    asks: bool = True
    """May its requests be conditional? Not when the user sends conditions of his own."""


NO_RULES = Rules()


def decide(known: Known, rules: Rules, now_ms: int) -> Decision:
    """What to do about a page."""
    age = now_ms - known.checked_ms
    if age >= -SKEW_MS:
        if rules.max_age_ms is not None and age <= rules.max_age_ms:
            return Decision(Way.REUSE, FRESH)
        if rules.revisit and known.interval_ms is not None and age < rules.revisit.within(known.interval_ms):
            return Decision(Way.REUSE, NOT_DUE)
    headers = known.validators.conditions(known.checked_ms)
    if not headers or known.rendered or not rules.asks or is_doubtful(known, now_ms):
        return PLAINLY
    return Decision(Way.ASK, NOT_MODIFIED, headers)


def is_doubtful(known: Known, now_ms: int) -> bool:
    """Has the host been believed for long enough?"""
    return known.unverified >= MOST_UNVERIFIED or now_ms - known.fetched_ms > VERIFY_AFTER_MS


def interval_after(known: Known, rules: Rules, now_ms: int, *, changed: bool | None) -> int | None:
    """The page's interval once its host was asked again; it begins with the time between two visits."""
    if rules.revisit is None:
        return known.interval_ms
    before = known.interval_ms if known.interval_ms is not None else max(0, now_ms - known.checked_ms)
    return rules.revisit.next_interval(before, changed=changed)


def read_validators(headers: tuple[tuple[bytes, bytes], ...]) -> Validators:
    """Those of an answer that can be sent back as they are; `*` would match anything."""
    etag = date = None
    for name, value in headers:
        if len(name) == 4 and etag is None and name.lower() == b"etag":
            etag = _sendable(value, MAX_ETAG)
        elif len(name) == 13 and date is None and name.lower() == b"last-modified":
            date = _sendable(value, MAX_DATE)
    if etag is None and date is None:
        return NO_VALIDATORS
    return Validators(None if etag == "*" else etag, date)


def has_conditions(headers: Mapping[str, str]) -> bool:
    """Does the user ask with conditions of his own?"""
    return any(name.lower() in _CONDITIONS for name in headers)


def _sendable(value: bytes, most: int) -> str | None:
    value = value.strip()
    if not value or len(value) > most or not value.isascii():
        return None
    text = value.decode("ascii")
    return text if text.isprintable() else None


def _is_past(date: str, at_ms: int) -> bool:
    try:
        moment_ms = parsedate_to_datetime(date).timestamp() * 1000
    except (ValueError, TypeError, OverflowError, IndexError):
        return False
    return moment_ms <= at_ms - 1000
