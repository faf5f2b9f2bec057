"""The words of the domain as values.

A request is in exactly one place at any time: queued, delayed, leased or finished. These classes carry it between
the places; only the frontier moves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from datetime import timedelta
from enum import IntEnum, StrEnum

from shoal.core.frozen import frozen
from shoal.core.manners import Limit, Signal
from shoal.core.url import Url


class Lane(StrEnum):
    """How urgent a job is, or how slow its hosts are."""

    HIGH = "high"
    BATCH = "batch"
    SLOW = "slow"


class Engine(StrEnum):
    """What fetches the page."""

    HTTP = "http"
    BROWSER = "browser"
    AUTO = "auto"
    """Without a browser where that is enough, with one where a page needs it."""


class Level(IntEnum):
    """Priority inside one host's queue; the lower number goes first."""

    FIRST = 0
    NORMAL = 1
    LAST = 2


class JobState(StrEnum):
    """The life of a job."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (JobState.FINISHED, JobState.CANCELLED)


class Outcome(StrEnum):
    """What became of a leased request."""

    DONE = "done"
    RETRY = "retry"
    DEAD = "dead"
    FILTERED = "filtered"
    ROBOTS = "robots"


def queue_name(engine: Engine, lane: Lane) -> str:
    """The Celery queue, and the frontier's rotation, that a job belongs to.

    Pages are first asked for without a browser where nobody knows whether they need one.
    """
    return f"{Engine.HTTP if engine is Engine.AUTO else engine}.{lane}"


ALL_QUEUES: tuple[str, ...] = tuple(
    queue_name(engine, lane) for lane in Lane for engine in (Engine.HTTP, Engine.BROWSER)
)
"""Those that requests are leased from, the most urgent first."""
CONTROL_QUEUE = "control"
"""Housekeeping; there is nothing to lease."""
SERVED_QUEUES = (*ALL_QUEUES, CONTROL_QUEUE)


def read_queues(text: str) -> tuple[str, ...]:
    """Names of queues, comma-separated, each once and in their order; raises ValueError for one that there is not."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in SERVED_QUEUES]
    if unknown or not names:
        shown = ", ".join(unknown) or "(none given)"
        raise ValueError(f"unknown queue {shown}; there are {', '.join(SERVED_QUEUES)}")
    return tuple(sorted(set(names), key=SERVED_QUEUES.index))


def is_for_browser(queue: str) -> bool:
    """Are the pages of this queue rendered?"""
    return queue.startswith(f"{Engine.BROWSER}.")


@frozen
class Request:
    """One URL to fetch within a job."""

    url: Url
    depth: int = 0
    level: Level = Level.NORMAL
    attempt: int = 0
    hops: int = 0
    losses: int = 0
    render: bool = False
    """It needs a browser, in a job that otherwise does without: it is leased from the browser's queue of its lane."""
    callback: str = ""
    """The callback of the job's spider that gets the page; empty for its first one."""
    meta: str = ""
    """What the spider sends along to it: JSON in ASCII, on one line."""
    found_on: int | None = None
    """Fingerprint of the page that first led to it; None when it was submitted, or nobody knows."""


@frozen
class Rejected:
    """A discovered URL that the job's rules leave out, and why."""

    url: Url
    reason: str


Candidate = Request | Rejected


def further(candidates: Iterable[Candidate], depth: int) -> list[Candidate]:
    """Those of a page at this depth that are more of the same: they are as deep as it is, its links are deeper."""
    return [each for each in candidates if isinstance(each, Request) and each.depth <= depth]


class Mark(StrEnum):
    """What is special about a lease."""

    NONE = ""
    PROBE = "?"
    """The host was down: this request finds out whether it still is, and nothing is held against it."""
    DOOMED = "!"
    """The host is down for good: not to be fetched, only to be given up."""
    STRANGER = "~"
    """The host's address or domain is not known: to be found out, and the request given back."""


@frozen
class Lease:
    """One worker's right to fetch one request. (group, index) is its fencing token."""

    group: int
    index: int
    job: str
    request: Request
    queue: str = ""
    """The lane that it came from."""
    mark: Mark = Mark.NONE
    limit: Limit | None = None
    """What the host was asked under."""


@frozen
class LeaseBatch:
    """What one lease call gave, and when it is worth asking again."""

    leases: tuple[Lease, ...]
    next_due: timedelta | None
    """Time until something can be leased; zero when more could have been had at once, None when nothing waits."""
    expired: int
    """Leases of other workers that are past their deadline and wait for `reap`."""
    ended: tuple[str, ...] = ()
    """Jobs that came to their end by this call: what was left of them was beyond their budget."""
    server: str = ""
    """The run of the server: one that was started anew may have lost what it was told last."""
    trusted: bool = True
    """False: it was started anew, and is to be looked at before it gives anything."""


@frozen
class Settlement:
    """The end of one lease."""

    lease: Lease
    outcome: Outcome
    reason: str = ""
    delay: timedelta = timedelta()
    """For a retry: not before this much later."""
    hold_host: timedelta = timedelta()
    """Ask the host for nothing during this time (Retry-After)."""
    latency: timedelta = timedelta()
    received: int = 0
    counts: bool = True
    """Was it an attempt? Not when nobody asked the host: then nothing is learnt about it, nor held against a retry."""
    signal: Signal = Signal.NONE
    """What was learnt about the host."""
    render: bool = False
    """For a retry: from now on it is for the browser. That is how a page is handed over; `retry:` and the reason are
    counted even when it was no attempt."""
    saved: int = 0
    """Bytes of a body that did not have to come."""
    unasked: timedelta = timedelta()
    """The host was not asked after all: this much of its time, which the lease has booked, is free again."""


@frozen
class SettleReport:
    """What a settle call changed beyond its own leases."""

    late: int
    """Settlements refused because the lease had been lost."""
    ended: tuple[str, ...]
    """Jobs that this very call brought to their end."""


@frozen
class Sent:
    """Where candidates went, in a frontier that is spread over servers: what the pages that led to them must know."""

    life: str = ""
    """Of the job."""
    fence: int = 0
    """How many losses of servers had been noticed before."""
    slots: frozenset[int] = frozenset()
    owed: frozenset[int] = frozenset()
    """Slots that were away, and did not get theirs."""

    def __or__(self, other: Sent) -> Sent:
        return Sent(
            other.life or self.life, min(self.fence, other.fence), self.slots | other.slots, self.owed | other.owed
        )


@frozen
class AdmitReport:
    """What became of the candidates of one admit call."""

    state: JobState | None
    """None: the frontier does not know the job."""
    admitted: int = 0
    duplicates: int = 0
    filtered: int = 0
    over_budget: int = 0
    sent: Sent | None = field(default=None, compare=False)
    """None in a frontier that is in one piece."""

    def __add__(self, other: AdmitReport) -> AdmitReport:
        return AdmitReport(
            other.state,
            self.admitted + other.admitted,
            self.duplicates + other.duplicates,
            self.filtered + other.filtered,
            self.over_budget + other.over_budget,
            self.sent | other.sent if self.sent and other.sent else self.sent or other.sent,
        )
