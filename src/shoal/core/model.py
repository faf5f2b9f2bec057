"""The words of the domain as values.

A request is in exactly one place at any time: queued, delayed, leased or finished. These classes carry it between
the places; only the frontier moves it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum, StrEnum

from shoal.core.manners import Limit, Signal
from shoal.core.trouble import Trouble
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


def is_for_browser(queue: str) -> bool:
    """Are the pages of this queue rendered?"""
    return queue.startswith(f"{Engine.BROWSER}.")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Rejected:
    """A discovered URL that the job's rules leave out, and why."""

    url: Url
    reason: str


Candidate = Request | Rejected


class Mark(StrEnum):
    """What is special about a lease."""

    NONE = ""
    PROBE = "?"
    """The host was down: this request finds out whether it still is, and nothing is held against it."""
    DOOMED = "!"
    """The host is down for good: not to be fetched, only to be given up."""
    STRANGER = "~"
    """The host's address or domain is not known: to be found out, and the request given back."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class SettleReport:
    """What a settle call changed beyond its own leases."""

    late: int
    """Settlements refused because the lease had been lost."""
    ended: tuple[str, ...]
    """Jobs that this very call brought to their end."""


@dataclass(frozen=True, slots=True)
class AdmitReport:
    """What became of the candidates of one admit call."""

    state: JobState | None
    """None: the frontier does not know the job."""
    admitted: int = 0
    duplicates: int = 0
    filtered: int = 0
    over_budget: int = 0

    def __add__(self, other: AdmitReport) -> AdmitReport:
        return AdmitReport(
            other.state,
            self.admitted + other.admitted,
            self.duplicates + other.duplicates,
            self.filtered + other.filtered,
            self.over_budget + other.over_budget,
        )


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker's sign of life."""

    name: str
    queues: tuple[str, ...]
    processes: int
    active: int
    """Slices under way."""
    slices: int
    """Slices since it started."""
    memory_mb: int
    started_ms: int
    version: str


class Breaker(StrEnum):
    """What is done about a host that cannot be reached."""

    CLOSED = "closed"
    """It can."""
    TRIPPED = "tripped"
    """It is left alone, but for a probe now and then."""
    DOWN = "down"
    """The probes failed as well: its requests are given up."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided about a host."""

    at_ms: int
    what: str
    """`slowed`, `restored`, `held`, `tripped`, `down`, `reached`, `slow_lane`, `fast_lane`, `crawl_delay` or `set`."""
    reason: str
    """For people: `http_429: 8 → 4 a second`."""


@dataclass(frozen=True, slots=True)
class HostStatus:
    """What the frontier knows about a host, and how it will be treated."""

    host: str
    rate: float | None
    """An operator's limit: requests a second, 0 is unlimited, None leaves it to the jobs."""
    parallel: int | None
    paused: bool
    hold: timedelta
    """Ask it for nothing during this time: it said so, or an operator."""
    next_slot: timedelta
    """Its bucket is empty until then."""
    in_flight: int
    latency_ms: int | None
    waiting_jobs: int
    """Jobs that stand at its cap."""
    seen_ms: int
    """Last asked or set."""
    lane: Lane | None = None
    """`slow` when it has proved slow; None leaves it to the jobs."""
    pace: float | None = None
    """Requests a second that it is asked at the most, because it cannot take more; None when it can."""
    breaker: Breaker = Breaker.CLOSED
    probe_in: timedelta = timedelta()
    """With an open breaker: the next probe."""
    crawl_delay: float | None = None
    """Seconds between requests that its robots.txt asks for."""
    group: str = ""
    """`@domain` when it shares its domain's bucket."""
    address: str = ""
    """Where it lives, when addresses are looked at."""
    decisions: tuple[Decision, ...] = ()
    """What was lately decided about it, the newest first."""

    @property
    def reason(self) -> str:
        """Of the newest decision."""
        return self.decisions[0].reason if self.decisions else ""

    @property
    def state(self) -> str:
        if self.paused:
            return "paused"
        if self.breaker is not Breaker.CLOSED:
            return self.breaker.value
        if self.hold:
            return "held"
        if self.pace is not None:
            return "slowed"
        return "at_cap" if self.waiting_jobs else "open"


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How much waits in one queue, over all jobs."""

    queue: str
    queued: int
    delayed: int
    leased: int
    jobs_due: int
    """Running jobs that have something to lease, now or later."""

    @property
    def pending(self) -> int:
        return self.queued + self.delayed + self.leased


@dataclass(frozen=True, slots=True)
class Load:
    """How full the frontier is."""

    urls: int
    memory: int
    memory_limit: int
    """Redis' own, in bytes; 0 is none."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a job, as the frontier tells it."""

    id: str
    job: str
    kind: str
    """`state`, `ended`, `changed` or `drift`."""
    state: str


@dataclass(frozen=True, slots=True)
class HostSpeed:
    """A host and how long it lately took to answer."""

    host: str
    latency_ms: int


@dataclass(frozen=True, slots=True)
class Counters:
    """A job's sums. `admitted = queued + delayed + leased + done + dead + dropped`; `seen = admitted + filtered`."""

    seen: int = 0
    admitted: int = 0
    filtered: int = 0
    duplicates: int = 0
    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    dropped: int = 0
    retries: int = 0
    lost: int = 0
    received: int = 0

    @property
    def reconciles(self) -> bool:
        places = self.queued + self.delayed + self.leased + self.done + self.dead + self.dropped
        return self.admitted == places and self.seen == self.admitted + self.filtered

    @property
    def pending(self) -> int:
        return self.queued + self.delayed + self.leased


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as the frontier, or after its end the database, knows it."""

    job: str
    state: JobState
    counters: Counters
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    slowest: tuple[HostSpeed, ...] = ()
    started_ms: int | None = None
    ended_ms: int | None = None
    now_ms: int = 0
    open: bool = False
    """More URLs may be submitted."""
    rate: float = 0.0
    """Pages a second over the last five to ten seconds."""
    rested_ms: int = 0
    """Time that it was paused since its first lease."""
    troubles: tuple[Trouble, ...] = ()
    """While it runs: what workers cannot use at the moment."""

    @property
    def eta(self) -> timedelta | None:
        """When what waits now would be done at the present rate; a crawl that finds more takes longer."""
        if self.state is not JobState.RUNNING or not self.rate:
            return None
        return timedelta(seconds=self.counters.pending / self.rate)

    @property
    def redirects(self) -> int:
        """How many of the done requests were only pointers to others."""
        return self.reasons.get("done:redirect", 0)

    @property
    def elapsed(self) -> timedelta:
        """First lease to end, or to now, without the pauses."""
        if self.started_ms is None:
            return timedelta()
        return timedelta(milliseconds=max(0, (self.ended_ms or self.now_ms) - self.started_ms - self.rested_ms))
