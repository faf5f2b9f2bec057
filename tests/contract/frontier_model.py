"""What the frontier should be, in plain Python.

Each operation takes what a caller gives to the frontier and returns what the frontier should answer. Where the answer
depends on Redis' clock, which cannot be set, the model is told what happened and says whether it may have: it knows
each moment as a span between two looks at the same machine's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from shoal.core.job_status import Counters
from shoal.core.manners import BURST_WINDOW_S, LimitSource, Manners, Signal
from shoal.core.model import (
    AdmitReport,
    Candidate,
    JobState,
    Lease,
    LeaseBatch,
    Level,
    Mark,
    Outcome,
    Rejected,
    Request,
    Settlement,
    SettleReport,
)
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.host_change import HostChange, Keep

ROUNDING_MS = 0.1
"""Redis keeps slots to a thousandth of a millisecond; a few dozen of these roundings may add up."""

BURST_MS = BURST_WINDOW_S * 1000
SUSPECTS = 16
"""Requests that were lost with a worker, in the hands of one process."""
UNPROVEN_CAP = 64
"""Requests at once to a host without a cap that never answered."""
FAILURES, PROBES = 5, 5
"""So many failures in a row trip a breaker, so many failed probes let a host count as down."""
FIRST_PROBE_MS, LAST_PROBE_MS, DOWN_MS, LONGEST_DOWN_MS = 2_000, 30_000, 300_000, 3_600_000

_NOTHING = AdmitReport(None)


@dataclass(frozen=True, slots=True)
class Span:
    """A moment on Redis' clock, in ms, known to lie between two others."""

    lo: float
    hi: float

    def plus(self, ms: float) -> Span:
        return Span(self.lo + ms, self.hi + ms)

    def latest(self, other: Span) -> Span:
        return Span(max(self.lo, other.lo), max(self.hi, other.hi))


LONG_AGO = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds for one job on one host; 0 is unlimited."""

    rate: float
    source: LimitSource
    booked: float
    """What a request uses up of the host's rate: a slow job leaves the rest to others."""
    parallel: int
    own: bool = False
    """Does the job ask for less than the bucket gives, whoever else wants it?"""
    slowest: float = 0
    """On a host that several jobs want, `booked` is the highest rate that any of them may have asked at lately; when
    none has, a request uses up as much as at this one."""


@dataclass(slots=True)
class Breaker:
    """What is known about a host that cannot be reached."""

    fails: int = 0
    trip: int | None = None
    probe_at: Span = LONG_AGO
    gone: Span | None = None
    downs: int = 0

    @property
    def open(self) -> bool:
        return self.trip is not None or self.gone is not None

    def learn(self, signals: Counter[Signal], probed: bool, now: Span) -> None:
        """What the settlements of one call tell."""
        if signals.keys() & {Signal.OK, Signal.ALIVE, Signal.BUSY, Signal.SLOW}:
            self.fails, self.trip, self.gone, self.downs = 0, None, None, 0
        elif self.open and probed and signals[Signal.DOWN]:
            self._probe_failed(now)
        elif signals[Signal.DOWN] and not self.open:
            self.fails += signals[Signal.DOWN]
            if self.fails >= FAILURES:
                self.trip, self.probe_at = 0, now.plus(FIRST_PROBE_MS)

    def _probe_failed(self, now: Span) -> None:
        trip = (self.trip or 0) + 1
        if trip < PROBES and self.gone is None:
            self.trip = trip
            self.probe_at = now.plus(min(FIRST_PROBE_MS * 2**trip, LAST_PROBE_MS))
        else:
            self.downs += 1
            self.gone = now.plus(min(DOWN_MS * 2 ** (self.downs - 1), LONGEST_DOWN_MS))

    def check(self, mark: Mark, now: Span) -> None:
        """May a request be leased with this mark?"""
        match mark:
            case Mark.NONE:
                assert not self.open, "the host cannot be reached, and yet it is asked"
            case Mark.PROBE:
                assert self.open, "nobody needs to find out whether the host can be reached"
                due = self.probe_at if self.gone is None else self.gone
                assert due.lo <= now.hi, f"a probe {due.lo - now.hi:.3f} ms too early"
            case Mark.DOOMED:
                assert self.gone is not None and self.gone.hi > now.lo, "given up too early"
            case Mark.STRANGER:
                raise AssertionError("no host is a stranger")

    def let_pass(self, ms: float) -> None:
        self.probe_at = self.probe_at.plus(-ms)
        self.gone = self.gone and self.gone.plus(-ms)


@dataclass(slots=True)
class HostModel:
    """A host, whichever jobs ask it.

    How far it is slowed is not foretold: a host may be asked less than its limits allow, never more.
    """

    rate: float | None = None
    parallel: int | None = None
    paused: bool = False
    hold: Span = LONG_AGO
    booked: Span = LONG_AGO
    """Until when the requests handed out so far use up the host's rate."""
    own: dict[str, Span] = field(default_factory=dict[str, Span])
    """The same for each job that asks less than the host's rate."""
    late: Span = LONG_AGO
    """The same as `booked`, when each request used up as much as it can."""
    quiet_until: float = 0
    """No hold and no booking ever reached beyond this."""
    delay: float | None = None
    """Seconds between requests that its robots.txt asks for."""
    proven: bool = False
    """It has answered."""
    slowed: bool = False
    """It wanted less at some time, or answered late."""
    breaker: Breaker = field(default_factory=Breaker)
    listed: Span | None = None
    """When it was first asked, a request of it last came back, or an operator last spoke."""
    asked: bool = False

    @property
    def has_word(self) -> bool:
        return self.rate is not None or self.parallel is not None or self.paused

    def limits(self, spec: JobSpec, manners: Manners) -> Limits:
        rate, source, booked = self._rate(spec, manners)
        words = (self.parallel, spec.requests_at_once, manners.parallel)
        parallel = next(word for word in words if word is not None)
        parallel = parallel or (0 if self.proven else UNPROVEN_CAP)
        return Limits(rate, source, booked, parallel, 0 < rate < booked)

    def _rate(self, spec: JobSpec, manners: Manners) -> tuple[float, LimitSource, float]:
        """(rate, whose word it is, rate that is booked)"""
        if self.rate is not None:
            return self.rate, LimitSource.OPERATOR, self.rate
        plain, source = manners.rate, LimitSource.DEFAULT
        if self.delay is not None and spec.robots and (not plain or 1 / self.delay < plain):
            plain, source = 1 / self.delay, LimitSource.ROBOTS
        rate = spec.requests_per_second
        if rate is None:
            return plain, source, plain
        return rate, LimitSource.JOB, max(rate, plain) if rate and plain else rate

    def change(self, change: HostChange, now: Span) -> None:
        self.listed = now
        if not isinstance(change.rate, Keep):
            if change.rate != self.rate:
                self.booked = LONG_AGO
            self.rate = change.rate
        if not isinstance(change.parallel, Keep):
            self.parallel = change.parallel
        if not isinstance(change.paused, Keep):
            self.paused = change.paused
        if not isinstance(change.hold, Keep):
            self.hold_until(now.plus(_ms(change.hold)) if change.hold else LONG_AGO)

    def hold_until(self, hold: Span) -> None:
        self.hold = hold
        self.quiet_until = max(self.quiet_until, hold.hi)

    def book(self, job: str, limits: Limits, now: Span) -> None:
        """One more request, if the token bucket allows it: its slot is due within the burst window.

        Over any time the requests handed out are at most 1 + rate · (time + window), and that holds for jobs with
        different rates too.
        """
        if limits.booked:
            self.booked = self._taken(self.booked, limits.booked, now)
            self.late = self.late.latest(now).plus(1000 / (limits.slowest or limits.booked))
            self.quiet_until = max(self.quiet_until, self.late.hi)
        if limits.own:
            self.own[job] = self._taken(self.own.get(job, LONG_AGO), limits.rate, now)

    def _taken(self, slot: Span, rate: float, now: Span) -> Span:
        excess = slot.lo - (now.hi + BURST_MS)
        assert excess <= ROUNDING_MS, f"asked {excess:.3f} ms too early at {rate}/s"
        slot = slot.latest(now).plus(1000 / rate)
        self.quiet_until = max(self.quiet_until, slot.hi)
        return slot

    def learn(self, signals: Counter[Signal], probed: bool, now: Span) -> None:
        self.proven |= bool(signals.keys() & {Signal.OK, Signal.ALIVE, Signal.BUSY})
        self.slowed |= bool(signals.keys() & {Signal.BUSY, Signal.SLOW})
        self.breaker.learn(signals, probed, now)

    def let_pass(self, ms: float) -> None:
        self.hold, self.booked, self.late = self.hold.plus(-ms), self.booked.plus(-ms), self.late.plus(-ms)
        self.own = {job: slot.plus(-ms) for job, slot in self.own.items()}
        self.quiet_until -= ms
        self.listed = self.listed and self.listed.plus(-ms)
        self.breaker.let_pass(ms)


@dataclass(slots=True)
class JobModel:
    """A job, and where each of its requests is, but for those that are leased."""

    name: str
    spec: JobSpec
    tenant: str
    state: JobState = JobState.RUNNING
    open: bool = True
    ended: bool = False
    seen: set[int] = field(default_factory=set[int])
    admitted: int = 0
    lines: dict[tuple[str, bool, Level], list[Request]] = field(
        default_factory=dict[tuple[str, bool, Level], list[Request]]
    )
    """(host, whether it is for the browser half, level) → requests in their order."""
    delayed: dict[Request, Span] = field(default_factory=dict[Request, Span])
    leased: int = 0
    finished: dict[Url, str] = field(default_factory=dict[Url, str])
    """URL → done, dead or dropped."""
    dead: dict[Request, str] = field(default_factory=dict[Request, str])
    """Those that can be replayed → what they died of."""
    promoted: set[Request] = field(default_factory=set[Request])
    """Retries that the last lease has taken up; it may have served the job as a rival of another one before."""
    tokens: set[str] = field(default_factory=set[str])
    """Replays that were made."""
    sums: Counter[str] = field(default_factory=Counter[str])
    """filtered, duplicates, retries, lost, received"""
    reasons: Counter[str] = field(default_factory=Counter[str])
    host_pages: Counter[str] = field(default_factory=Counter[str])
    """Pages of each host that count for its budget, as long as there is one."""

    @property
    def counters(self) -> Counters:
        ends = Counter(self.finished.values())
        return Counters(
            seen=len(self.seen),
            admitted=self.admitted,
            queued=sum(map(len, self.lines.values())),
            delayed=len(self.delayed),
            leased=self.leased,
            done=ends["done"],
            dead=ends["dead"],
            dropped=ends["dropped"],
            **{name: self.sums[name] for name in ("filtered", "duplicates", "retries", "lost", "received")},
        )

    @property
    def half(self) -> str | None:
        """The queue of its requests for the browser; None when all of them are."""
        engine, lane = self.spec.queue.split(".")
        return f"browser.{lane}" if engine == "http" else None

    def rightly_marked(self, request: Request, render: bool = False) -> Request:
        """A job that is for the browser as a whole marks none of its requests."""
        return replace(request, render=self.half is not None and (request.render or render))

    @property
    def over(self) -> bool:
        if self.state is JobState.CANCELLED:
            return self.leased == 0
        return not self.open and self.counters.pending == 0

    @property
    def budget(self) -> float:
        """Pages that may still be admitted."""
        if self.spec.pages is None:
            return float("inf")
        counters = self.counters
        return self.spec.pages - (counters.admitted - counters.dead - counters.dropped)

    def next_ones(self, host: str, half: bool, trusted: Callable[[Request], bool]) -> list[Request]:
        """The next request for a host, in one half: one that was just promoted, or what was the next before.

        Those that cannot be trusted in the company that the worker has are passed over.
        """
        lines = [self.lines.get((host, half, level), []) for level in Level]
        waiting = [request for line in lines for request in line if trusted(request)]
        return [*waiting[:1], *[request for request in waiting if request not in self.promoted][:1]]

    def line(self, request: Request) -> list[Request]:
        return self.lines.setdefault((request.url.host, request.render, request.level), [])

    def finish(self, request: Request, end: str) -> None:
        assert request.url not in self.finished, f"{request.url} was {self.finished[request.url]}, and now is {end}"
        self.finished[request.url] = end

    def die(self, request: Request, reason: str) -> None:
        self.finish(request, "dead")
        self.dead[request] = reason

    def try_again(self, request: Request) -> None:
        """A dead request goes to the end of its host's front line."""
        assert self.finished.pop(request.url) == "dead"
        self.reasons -= Counter([f"dead:{self.dead.pop(request)}"])
        urgent = replace(request, level=Level.FIRST)
        self.line(urgent).append(urgent)
        self.count_page(request.url.host, 1)

    def count_page(self, host: str, n: int) -> None:
        if self.spec.host_pages is not None:
            self.host_pages[host] += n

    def drop_beyond_budget(self, places: Sequence[tuple[str, bool]]) -> None:
        """What came last goes first, host by host."""
        excess = max(0, -self.budget) if self.spec.pages is not None else 0
        for host, half in places:
            for level in reversed(Level):
                line = self.lines.get((host, half, level), [])
                while line and excess > 0:
                    self.finish(line.pop(), "dropped")
                    self.count_page(host, -1)
                    self.reasons["filtered:over_budget"] += 1
                    excess -= 1

    def drop_all_that_waits(self) -> None:
        waiting = [request for line in self.lines.values() for request in line]
        for request in [*waiting, *self.delayed]:
            self.finish(request, "dropped")
        self.lines.clear()
        self.delayed.clear()

    def take_in(self, candidates: Sequence[Candidate], duplicates: int) -> AdmitReport:
        report = AdmitReport(self.state, duplicates=duplicates)
        budget = self.budget
        for candidate in candidates:
            report += self._take_in_one(candidate, budget - report.admitted)
        self.sums["duplicates"] += report.duplicates
        self.sums["filtered"] += report.filtered + report.over_budget
        return report

    def _take_in_one(self, candidate: Candidate, budget: float) -> AdmitReport:
        fingerprint = candidate.url.fingerprint
        if fingerprint in self.seen:
            return AdmitReport(self.state, duplicates=1)
        self.seen.add(fingerprint)
        if isinstance(candidate, Rejected):
            self.reasons[f"filtered:{candidate.reason}"] += 1
            return AdmitReport(self.state, filtered=1)
        if budget <= 0:
            self.reasons["filtered:over_budget"] += 1
            return AdmitReport(self.state, over_budget=1)
        host = candidate.url.host
        if self.spec.host_pages is not None and self.host_pages[host] >= self.spec.host_pages:
            self.reasons["filtered:over_host_budget"] += 1
            return AdmitReport(self.state, over_budget=1)
        self.count_page(host, 1)
        self.admitted += 1
        marked = self.rightly_marked(candidate)
        self.line(marked).append(marked)
        return AdmitReport(self.state, admitted=1)


class FrontierModel:
    """All jobs, hosts and leases."""

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self.jobs: dict[str, JobModel] = {}
        self.forgotten: dict[str, JobModel] = {}
        self.hosts: dict[str, HostModel] = {}
        self.leased: dict[tuple[int, int], tuple[str, Request]] = {}
        self.probes: dict[tuple[int, int], str] = {}
        """Leases that find out whether a host can be reached → host."""
        self.deadlines: dict[int, Span] = {}
        self.events: dict[str, list[tuple[str, str]]] = {}
        self.stats = Counter[str]()
        self.specs: list[JobSpec] = []
        """Of all jobs that there ever were, as they ever were."""
        self._last_group = 0

    def tell(self, name: str, kind: str, state: JobState) -> None:
        self.events.setdefault(name, []).append((kind, state.value))

    def host(self, name: str) -> HostModel:
        return self.hosts.setdefault(name, HostModel())

    def limits(self, host: str, job: JobModel) -> Limits:
        """Limits that hold for certain: where jobs share a host, the fastest of all may be what is booked."""
        known = self.host(host)
        limits = known.limits(job.spec, self.manners)
        if known.rate is not None or not limits.booked:
            return limits
        each = [known.limits(spec, self.manners).booked for spec in self.specs]
        rates = [rate for rate in (*each, self.manners.rate) if rate]
        return replace(limits, booked=max(limits.booked, *rates), slowest=min(limits.booked, *rates))

    def let_pass(self, ms: float) -> None:
        """Time passes, and nothing happens."""
        for host in self.hosts.values():
            host.let_pass(ms)
        for job in self.jobs.values():
            job.delayed = {request: due.plus(-ms) for request, due in job.delayed.items()}
        self.deadlines = {group: deadline.plus(-ms) for group, deadline in self.deadlines.items()}

    def inflight(self, host: str) -> int:
        return sum(request.url.host == host for _, request in self.leased.values())

    # --- a job's life -------------------------------------------------------------------------------------------

    def create(self, name: str, spec: JobSpec, tenant: str) -> bool:
        if name in self.jobs:
            return False
        self.jobs[name] = JobModel(name, spec, tenant)
        self.specs.append(spec)
        self.tell(name, "state", JobState.RUNNING)
        return True

    def admit(self, name: str, candidates: Sequence[Candidate], duplicates: int) -> AdmitReport:
        job = self.jobs.get(name)
        if job is None:
            return _NOTHING
        if job.ended or job.state is JobState.CANCELLED:
            return replace(_NOTHING, state=job.state)
        return job.take_in(candidates, duplicates)

    def close(self, name: str) -> tuple[JobState | None, bool]:
        job = self.jobs.get(name)
        if job is None:
            return None, False
        job.open = False
        ended = name in self._end_jobs()
        return job.state, ended

    def cancel(self, name: str) -> tuple[JobState | None, bool]:
        job = self.jobs.get(name)
        if job is None:
            return None, False
        if not job.ended and job.state is not JobState.CANCELLED:
            job.state = JobState.CANCELLED
            job.drop_all_that_waits()
            self.tell(name, "state", job.state)
        ended = name in self._end_jobs()
        return job.state, ended

    def pause(self, name: str) -> JobState | None:
        return self._turn(name, JobState.RUNNING, JobState.PAUSED)

    def resume(self, name: str) -> JobState | None:
        return self._turn(name, JobState.PAUSED, JobState.RUNNING)

    def _turn(self, name: str, before: JobState, after: JobState) -> JobState | None:
        job = self.jobs.get(name)
        if job is None:
            return None
        if job.state is before:
            job.state = after
            self.tell(name, "state", after)
        return job.state

    def forget(self, name: str) -> bool:
        job = self.jobs.get(name)
        if job is not None and not job.ended:
            return False
        if job is not None:
            self.forgotten[name] = self.jobs.pop(name)
        return True

    def restore(self, name: str) -> bool:
        """A forgotten job comes back with its sums, and with what it has seen."""
        if name in self.jobs:
            return False
        job = self.forgotten[name]
        job.state, job.open, job.ended = JobState.RUNNING, True, False
        job.tokens.clear()
        job.host_pages.clear()
        for host in self.hosts.values():
            host.own.pop(name, None)
        self.jobs[name] = job
        self.tell(name, "state", job.state)
        return True

    def replay(self, name: str, token: str, dead: Sequence[Request]) -> JobState | None:
        job = self.jobs.get(name)
        if job is None or not dead:
            return None
        if not job.ended and job.state is not JobState.CANCELLED and token not in job.tokens:
            job.tokens.add(token)
            for request in dead:
                job.try_again(request)
        return job.state

    def configure_job(
        self, name: str, spec: JobSpec, places: Sequence[tuple[str, bool]]
    ) -> tuple[JobState | None, bool]:
        """The job's limits and queue are those of another spec; of its hosts, the first ones lose what is too much."""
        job = self.jobs.get(name)
        if job is None:
            return None, False
        job.spec = spec
        self.specs.append(spec)
        if not job.ended:
            job.drop_beyond_budget(places)
        self.tell(name, "changed", job.state)
        ended = name in self._end_jobs()
        return job.state, ended

    def configure_host(self, name: str, change: HostChange, now: Span) -> None:
        self.host(name).change(change, now)

    def learn_robots(self, name: str, delay: float | None, now: Span) -> None:
        host = self.host(name)
        host.delay = delay
        if delay:
            host.quiet_until = max(host.quiet_until, now.hi + delay * 1000)

    # --- a request's way ----------------------------------------------------------------------------------------

    def promote(self, promoted: Mapping[str, Sequence[Request]], now: Span) -> None:
        """Delayed requests, job by job in the order of their due times, were put into their queues."""
        for job in self.jobs.values():
            job.promoted.clear()
        for name, requests in promoted.items():
            job = self.jobs[name]
            assert job.state is JobState.RUNNING, f"{name} is {job.state}, but its retries were taken up"
            for request in requests:
                due = job.delayed.pop(request)
                assert due.lo <= now.hi, f"{request.url} was retried {due.lo - now.hi:.3f} ms too early"
                urgent = replace(request, level=Level.FIRST)
                job.line(urgent).append(urgent)
                job.promoted.add(urgent)

    def lease(self, batch: LeaseBatch, queues: Sequence[str], limit: int, lease_for: timedelta, now: Span) -> None:
        assert len(batch.leases) <= limit
        assert [lease.index for lease in batch.leases] == list(range(1, len(batch.leases) + 1))
        places = [queues.index(lease.queue) for lease in batch.leases]
        assert places == sorted(places), "a less urgent queue was served before a more urgent one"
        assert batch.ended == ()
        for lease in batch.leases:
            job = self.jobs[lease.job]
            assert lease.queue in ((job.half,) if lease.request.render else lanes_of(job.spec.queue))
            self._take(lease, now)
        if batch.leases:
            self._note_group({lease.group for lease in batch.leases}, lease_for, now)

    def _take(self, lease: Lease, now: Span) -> None:
        job, request, host = self.jobs[lease.job], lease.request, self.host(lease.request.url.host)
        assert job.state is JobState.RUNNING, f"{job.name} is {job.state}, but {request.url} was handed out"
        next_ones = job.next_ones(request.url.host, request.render, self.trusts)
        assert request in next_ones, f"{request.url} is not the next of its host"
        assert host.hold.lo <= now.hi, f"{request.url}: the host is on hold"
        assert not host.paused, f"{request.url}: the host is paused"
        host.breaker.check(lease.mark, now)
        if not host.asked:
            host.asked, host.listed = True, now
        if lease.mark is not Mark.DOOMED:
            self._ask(lease, job, host, now)
        job.line(request).remove(request)
        job.leased += 1
        self.leased[lease.group, lease.index] = lease.job, request

    def trusts(self, request: Request) -> bool:
        """May the one worker process that there is have this request, with those that it has?

        Of requests that were lost once it has a few, of those that were lost twice one, and no other beside it.
        """
        held = Counter(leased.losses for _, leased in self.leased.values())
        match request.losses:
            case 1:
                return not held[2] and held[1] < SUSPECTS
            case 2:
                return not (held[1] or held[2])
            case _:
                return True

    def _ask(self, lease: Lease, job: JobModel, host: HostModel, now: Span) -> None:
        name = lease.request.url.host
        limits = self.limits(name, job)
        assert not limits.parallel or self.inflight(name) < limits.parallel, f"{lease.request.url}: over the cap"
        host.book(job.name, limits, now)
        assert lease.limit is not None
        assert lease.limit.parallel == limits.parallel
        if lease.limit.source is LimitSource.THROTTLE:
            assert host.slowed
            assert lease.limit.rate < limits.rate or not limits.rate
        else:
            assert (lease.limit.rate, lease.limit.source) == (pytest.approx(limits.rate), limits.source)
        if lease.mark is Mark.PROBE:
            under_way = [token for token, probed in self.probes.items() if probed == name and token in self.leased]
            assert not under_way, f"two probes of {name} at a time"
            self.probes[lease.group, lease.index] = name

    def _note_group(self, groups: set[int], lease_for: timedelta, now: Span) -> None:
        (group,) = groups
        assert group > self._last_group, "a fencing token came twice"
        self._last_group = group
        self.deadlines[group] = now.plus(_ms(lease_for))

    def settle(self, settlements: Sequence[Settlement], now: Span) -> SettleReport:
        late, signals, probed = 0, dict[str, Counter[Signal]](), set[str]()
        for settlement in settlements:
            taken = self._give_up(settlement.lease, now)
            if taken is None:
                late += 1
                continue
            host = taken[1].url.host
            done = settlement.outcome is Outcome.DONE and settlement.counts
            signal = Signal.OK if done else settlement.signal
            signals.setdefault(host, Counter()).update([signal])
            self.host(host).proven |= bool(settlement.latency) and signal is not Signal.NONE
            if settlement.lease.mark is Mark.PROBE:
                probed.add(host)
            self._settle_one(*taken, settlement, now)
        for host, seen in signals.items():
            self.host(host).learn(seen, host in probed, now)
        self.stats["late"] += late
        return SettleReport(late, self._end_jobs())

    def _settle_one(self, job: JobModel, request: Request, settlement: Settlement, now: Span) -> None:
        outcome = settlement.outcome
        job.sums["received"] += settlement.received
        self.stats["received"] += settlement.received
        again = job.rightly_marked(request, settlement.render)
        handed_over = again.render and not request.render and job.state is not JobState.CANCELLED
        if settlement.counts or outcome is not Outcome.RETRY or handed_over:
            self.stats[f"{outcome}:{settlement.reason}" if settlement.reason else outcome] += 1
            if settlement.reason:
                job.reasons[f"{outcome}:{settlement.reason}"] += 1
        host = self.host(request.url.host)
        if settlement.hold_host:
            host.hold_until(host.hold.latest(now.plus(_ms(settlement.hold_host))))
        host.slowed |= settlement.latency >= timedelta(seconds=1)
        if outcome not in (Outcome.DONE, Outcome.RETRY):
            job.count_page(request.url.host, -1)
        if outcome is Outcome.DEAD:
            job.die(request, settlement.reason)
        elif outcome is not Outcome.RETRY:
            job.finish(request, "done" if outcome is Outcome.DONE else "dropped")
        elif job.state is JobState.CANCELLED:
            job.finish(request, "dropped")
        else:
            job.sums["retries"] += settlement.counts
            again = replace(again, attempt=request.attempt + settlement.counts)
            job.delayed[again] = now.plus(_ms(settlement.delay))

    def release(self, leases: Sequence[Lease], now: Span) -> SettleReport:
        given = [self._give_up(lease, now) for lease in leases]
        self._give_back([taken for taken in given if taken])
        return SettleReport(given.count(None), self._end_jobs())

    def renew(self, groups: Iterable[int], lease_for: timedelta, now: Span) -> frozenset[int]:
        lost = frozenset(group for group in groups if group not in self.deadlines)
        for group in set(groups) - lost:
            self.deadlines[group] = now.plus(_ms(lease_for))
        return lost

    def expired(self, now: Span) -> tuple[int, int]:
        """At least and at most so many lease groups are past their deadline."""
        surely = sum(deadline.hi <= now.lo for deadline in self.deadlines.values())
        perhaps = sum(deadline.lo <= now.hi for deadline in self.deadlines.values())
        return surely, perhaps

    def reap(self, groups: Sequence[int], limit: int, now: Span) -> tuple[int, tuple[str, ...]]:
        """These groups were taken back, in the order of their deadlines."""
        surely, _ = self.expired(now)
        assert min(surely, limit) <= len(groups) <= limit
        early = [group for group in groups if self.deadlines[group].lo > now.hi]
        assert not early, f"reaped before their deadlines: {early}"
        returned = [self._lose(token, now) for group in groups for token in sorted(self.leased) if token[0] == group]
        self._give_back(returned)
        self.stats["reaped"] += len(returned)
        return len(returned), self._end_jobs()

    def _lose(self, token: tuple[int, int], now: Span) -> tuple[JobModel, Request]:
        job, request = self._withdraw(token, now)
        job.sums["lost"] += 1
        return job, replace(request, losses=request.losses + 1)

    def _give_up(self, lease: Lease, now: Span) -> tuple[JobModel, Request] | None:
        token = lease.group, lease.index
        return self._withdraw(token, now) if token in self.leased else None

    def _withdraw(self, token: tuple[int, int], now: Span) -> tuple[JobModel, Request]:
        name, request = self.leased.pop(token)
        self.host(request.url.host).listed = now
        if not any(group == token[0] for group, _ in self.leased):
            del self.deadlines[token[0]]
        self.jobs[name].leased -= 1
        return self.jobs[name], request

    def _give_back(self, requests: Sequence[tuple[JobModel, Request]]) -> None:
        for job, request in reversed(requests):
            if job.state is JobState.CANCELLED:
                job.finish(request, "dropped")
            else:
                job.line(request).insert(0, request)

    def _end_jobs(self) -> tuple[str, ...]:
        """Jobs that have just come to their end."""
        ended = [job for job in self.jobs.values() if job.over and not job.ended]
        for job in ended:
            job.ended = True
            if job.state is not JobState.CANCELLED:
                job.state = JobState.FINISHED
            self.tell(job.name, "ended", job.state)
        return tuple(job.name for job in ended)


def lanes_of(queue: str) -> tuple[str, ...]:
    """The queues in which a job of this one may stand: slow hosts leave a batch."""
    engine, lane = queue.split(".")
    return (queue, f"{engine}.slow") if lane == "batch" else (queue,)


def _ms(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)
