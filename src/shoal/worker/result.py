"""What came of one lease: all that must be stored, and how the lease is to be settled."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from shoal.core.ledger import Ask
from shoal.core.likeness import Duplicates
from shoal.core.manners import Limit, LimitSource
from shoal.core.model import Candidate, Lease, Outcome, Request, Settlement
from shoal.core.redact import without_secrets
from shoal.core.tail import line_of
from shoal.errors import FetchError
from shoal.store.archive import Attachment, Exchange
from shoal.store.items import ItemRow, Quarantined
from shoal.store.page_rows import CarriedOver, DeadLetter, FoundLinks, PageRow

_NO_LIMIT = Limit(0.0, 0, LimitSource.DEFAULT)


@dataclass(slots=True)
class Result:
    """What came of one lease; filled in while its visit lasts, and then not changed any more."""

    settlement: Settlement
    page: PageRow | None = None
    exchange: Exchange | None = None
    items: tuple[ItemRow, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    """Those of its items that break the job's contract."""
    letter: DeadLetter | None = None
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    duplicates: int = 0
    asks: tuple[Ask, ...] = ()
    """What the host was asked, for the ledger."""
    stored: bool = False
    """All that there is to store is stored; only what it leads to may not have arrived."""
    needed: bool | None = None
    """Did the page need a browser, by what came without one? None when nobody asked."""
    alike: Duplicates | None = None
    """What becomes of the page if it says what an earlier one says; None when nobody looks."""
    attachments: tuple[Attachment, ...] = ()
    """What is kept of a rendered page besides its response."""
    outlinks: bytes | None = None
    """All that it leads to, packed, for jobs that are followed by others."""
    carried: CarriedOver | None = None
    """From which earlier job the page was carried over."""
    itemless: bool = False
    """Does its job take nothing from its pages, so that there cannot be any items of an earlier attempt?"""

    @property
    def found(self) -> list[FoundLinks]:
        """Links that could not be found again, should the frontier lose them: no body is kept, or scripts made it."""
        page = self.page
        if not self.candidates:
            return []
        rendered = page is not None and page.engine == "browser"
        kept = self.exchange or (self.carried and page and page.archive)
        if self.stored or (kept and not rendered) or (page is not None and page.redirect):
            return []
        links: dict[int, list[str]] = {}
        for candidate in self.candidates:
            if isinstance(candidate, Request):
                links.setdefault(candidate.depth, []).append(line_of(candidate))
        job = self.settlement.lease.job
        fingerprint = page.fingerprint if page else self.settlement.lease.request.url.fingerprint
        return [FoundLinks(job, depth, tuple(urls), fingerprint) for depth, urls in links.items()]


def given_up(lease: Lease, outcome: Outcome, error: FetchError, secrets: Iterable[str] = ()) -> Result:
    """A request that will not be tried again, with its letter; a server may repeat the secrets that it was sent."""
    request = lease.request
    letter = DeadLetter(
        job=lease.job,
        fingerprint=request.url.fingerprint,
        url=str(request.url),
        host=request.url.host,
        outcome=outcome.value,
        reason=error.reason,
        detail=clean(without_secrets(error.detail, secrets)[:500]),
        depth=request.depth,
        attempts=request.attempt + 1,
        at_ms=now_ms(),
        callback=request.callback,
        meta=request.meta or None,
        found_on=request.found_on,
    )
    return Result(Settlement(lease, outcome, error.reason), letter=letter)


def put_off(lease: Lease, reason: str, delay: timedelta) -> Result:
    """A request to be tried later, with nothing held against it."""
    return Result(Settlement(lease, Outcome.RETRY, reason=reason, delay=delay, counts=False))


def handed_over(lease: Lease, reason: str) -> Result:
    """A request that a browser is to fetch; nothing is held against it."""
    later = put_off(lease, reason, timedelta())
    return replace(later, settlement=replace(later.settlement, render=True))


def gap_of(lease: Lease) -> timedelta:
    """Between two requests to the host of a lease."""
    rate = lease.limit.rate if lease.limit else 0.0
    return timedelta(seconds=1 / rate) if rate else timedelta()


@dataclass(slots=True)
class Inquiry:
    """What is noted on the way of one lease, for the ledger."""

    lease: Lease
    robots: str = ""
    """The version of robots.txt that holds."""
    rule: str = ""
    """Its line that decided."""
    asks: list[Ask] = field(default_factory=list[Ask])

    def note(self, at_ms: int, host: str, url: str, status: int, reason: str) -> None:
        limit = self.lease.limit or _NO_LIMIT
        self.asks.append(
            Ask(at_ms, host, self.lease.job, url, status, reason, limit.rate, limit.parallel, limit.source,
                self.robots, self.rule)
        )  # fmt: skip

    def complete(self, result: Result) -> Result:
        result.asks = tuple(self.asks)
        return result


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def clean(text: str) -> str:
    """What every database can store: no lone surrogates, no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
