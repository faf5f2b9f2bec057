"""What the frontier should be, in plain Python.

Each operation takes what a caller gives to the frontier and returns what the frontier should answer. Where the answer
depends on Redis' clock, which cannot be set, the model is told what happened and says whether it may have: it knows
each moment as a span between two looks at the same machine's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from shoal.core.manners import DEFAULT_MANNERS
from shoal.core.model import (
    AdmitReport,
    Candidate,
    Counters,
    JobState,
    Lease,
    LeaseBatch,
    Level,
    Outcome,
    Rejected,
    Request,
    Settlement,
    SettleReport,
)
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import BURST_WINDOW_S, HostChange, Keep

ROUNDING_MS = 0.1
"""Redis keeps slots to a thousandth of a millisecond; a few dozen of these roundings may add up."""

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
    parallel: int

    @property
    def burst(self) -> float:
        return max(1.0, self.rate * BURST_WINDOW_S)


@dataclass(slots=True)
class HostModel:
    """A host, whichever jobs ask it."""

    rate: float | None = None
    parallel: int | None = None
    paused: bool = False
    hold: Span = LONG_AGO
    booked: Span = LONG_AGO
    """Until when the requests handed out so far use up the host's rate."""
    quiet_until: float = 0
    """No hold and no booking ever reached beyond this."""
    listed: Span | None = None
    """When a request of it last came back, or an operator last spoke."""

    @property
    def has_word(self) -> bool:
        return self.rate is not None or self.parallel is not None or self.paused

    def limits(self, spec: JobSpec) -> Limits:
        rate = spec.requests_per_second if self.rate is None else self.rate
        parallel = spec.requests_at_once if self.parallel is None else self.parallel
        return Limits(
            DEFAULT_MANNERS.rate if rate is None else rate, DEFAULT_MANNERS.parallel if parallel is None else parallel
        )

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

    def book(self, limits: Limits, now: Span) -> None:
        """One more request, if the token bucket allows it.

        Over any time the requests handed out are at most burst + rate · time; written in ms, so that it holds for jobs
        with different rates too: the requests' intervals add up to at most burst intervals + time.
        """
        if not limits.rate:
            return
        interval = 1000 / limits.rate
        self.booked = self.booked.latest(now).plus(interval)
        self.quiet_until = max(self.quiet_until, self.booked.hi)
        excess = self.booked.lo - (now.hi + limits.burst * interval)
        assert excess <= ROUNDING_MS, f"asked {excess:.3f} ms too early at {limits.rate}/s"


@dataclass(slots=True)
class JobModel:
    """A job, and where each of its requests is, but for those that are leased."""

    name: str
    spec: JobSpec
    state: JobState = JobState.RUNNING
    open: bool = True
    ended: bool = False
    seen: set[int] = field(default_factory=set[int])
    admitted: int = 0
    lines: dict[tuple[str, Level], list[Request]] = field(default_factory=dict[tuple[str, Level], list[Request]])
    delayed: dict[Request, Span] = field(default_factory=dict[Request, Span])
    leased: int = 0
    finished: dict[Url, str] = field(default_factory=dict[Url, str])
    """URL → done, dead or dropped."""
    dead: dict[Request, str] = field(default_factory=dict[Request, str])
    """Those that can be replayed → what they died of."""
    tokens: set[str] = field(default_factory=set[str])
    """Replays that were made."""
    sums: Counter[str] = field(default_factory=Counter[str])
    """filtered, duplicates, retries, lost, received"""
    reasons: Counter[str] = field(default_factory=Counter[str])

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

    def first(self, host: str) -> Request | None:
        """The next request for a host."""
        return next((line[0] for level in Level if (line := self.lines.get((host, level)))), None)

    def line(self, request: Request) -> list[Request]:
        return self.lines.setdefault((request.url.host, request.level), [])

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

    def drop_beyond_budget(self) -> None:
        """What came last goes first, host by host."""
        excess = max(0, -self.budget) if self.spec.pages is not None else 0
        for host in sorted({host for (host, _), line in self.lines.items() if line}):
            for level in reversed(Level):
                line = self.lines.get((host, level), [])
                while line and excess > 0:
                    self.finish(line.pop(), "dropped")
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
        self.admitted += 1
        self.line(candidate).append(candidate)
        return AdmitReport(self.state, admitted=1)


class FrontierModel:
    """All jobs, hosts and leases."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobModel] = {}
        self.forgotten: dict[str, JobModel] = {}
        self.hosts: dict[str, HostModel] = {}
        self.leased: dict[tuple[int, int], tuple[str, Request]] = {}
        self.deadlines: dict[int, Span] = {}
        self.events: dict[str, list[tuple[str, str]]] = {}
        self.stats = Counter[str]()
        self._last_group = 0

    def tell(self, name: str, kind: str, state: JobState) -> None:
        self.events.setdefault(name, []).append((kind, state.value))

    def host(self, name: str) -> HostModel:
        return self.hosts.setdefault(name, HostModel())

    def inflight(self, host: str) -> int:
        return sum(request.url.host == host for _, request in self.leased.values())

    # --- a job's life -------------------------------------------------------------------------------------------

    def create(self, name: str, spec: JobSpec) -> bool:
        if name in self.jobs:
            return False
        self.jobs[name] = JobModel(name, spec)
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

    def configure_job(self, name: str, spec: JobSpec) -> tuple[JobState | None, bool]:
        """The job's limits and queue are those of another spec."""
        job = self.jobs.get(name)
        if job is None:
            return None, False
        job.spec = spec
        if not job.ended:
            job.drop_beyond_budget()
        self.tell(name, "changed", job.state)
        ended = name in self._end_jobs()
        return job.state, ended

    def configure_host(self, name: str, change: HostChange, now: Span) -> None:
        self.host(name).change(change, now)

    # --- a request's way ----------------------------------------------------------------------------------------

    def promote(self, promoted: Mapping[str, Sequence[Request]], now: Span) -> None:
        """Delayed requests, job by job in the order of their due times, were put into their queues."""
        for name, requests in promoted.items():
            job = self.jobs[name]
            assert job.state is JobState.RUNNING, f"{name} is {job.state}, but its retries were taken up"
            for request in requests:
                due = job.delayed.pop(request)
                assert due.lo <= now.hi, f"{request.url} was retried {due.lo - now.hi:.3f} ms too early"
                urgent = replace(request, level=Level.FIRST)
                job.line(urgent).append(urgent)

    def lease(self, batch: LeaseBatch, queues: Sequence[str], limit: int, lease_for: timedelta, now: Span) -> None:
        assert len(batch.leases) <= limit
        assert [lease.index for lease in batch.leases] == list(range(1, len(batch.leases) + 1))
        places = [queues.index(self.jobs[lease.job].spec.queue) for lease in batch.leases]
        assert places == sorted(places), "a less urgent queue was served before a more urgent one"
        for lease in batch.leases:
            self._take(lease, now)
        if batch.leases:
            self._note_group({lease.group for lease in batch.leases}, lease_for, now)

    def _take(self, lease: Lease, now: Span) -> None:
        job, request, host = self.jobs[lease.job], lease.request, self.host(lease.request.url.host)
        assert job.state is JobState.RUNNING, f"{job.name} is {job.state}, but {request.url} was handed out"
        assert request == job.first(request.url.host), f"{request.url} is not the next of its host"
        limits = host.limits(job.spec)
        assert not limits.parallel or self.inflight(request.url.host) < limits.parallel, f"{request.url}: over the cap"
        assert host.hold.lo <= now.hi, f"{request.url}: the host is on hold"
        assert not host.paused, f"{request.url}: the host is paused"
        host.book(limits, now)
        job.line(request).pop(0)
        job.leased += 1
        self.leased[lease.group, lease.index] = lease.job, request

    def _note_group(self, groups: set[int], lease_for: timedelta, now: Span) -> None:
        (group,) = groups
        assert group > self._last_group, "a fencing token came twice"
        self._last_group = group
        self.deadlines[group] = now.plus(_ms(lease_for))

    def settle(self, settlements: Sequence[Settlement], now: Span) -> SettleReport:
        late = 0
        for settlement in settlements:
            taken = self._give_up(settlement.lease, now)
            if taken is None:
                late += 1
            else:
                self._settle_one(*taken, settlement, now)
        self.stats["late"] += late
        return SettleReport(late, self._end_jobs())

    def _settle_one(self, job: JobModel, request: Request, settlement: Settlement, now: Span) -> None:
        outcome = settlement.outcome
        job.sums["received"] += settlement.received
        self.stats[f"{outcome}:{settlement.reason}" if settlement.reason else outcome] += 1
        if settlement.reason:
            job.reasons[f"{outcome}:{settlement.reason}"] += 1
        if settlement.hold_host:
            host = self.host(request.url.host)
            host.hold_until(host.hold.latest(now.plus(_ms(settlement.hold_host))))
        if outcome is Outcome.DEAD:
            job.die(request, settlement.reason)
        elif outcome is not Outcome.RETRY:
            job.finish(request, "done" if outcome is Outcome.DONE else "dropped")
        elif job.state is JobState.CANCELLED:
            job.finish(request, "dropped")
        else:
            job.sums["retries"] += 1
            job.delayed[replace(request, attempt=request.attempt + 1)] = now.plus(_ms(settlement.delay))

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


def _ms(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)
