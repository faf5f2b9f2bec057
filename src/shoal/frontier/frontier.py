"""The frontier: which URL may be fetched when. A typed face over the Lua operations.

Every change of state is one Lua call on Redis' own clock. Large inputs are cut into calls short enough that no other
worker waits for long.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from enum import Enum
from typing import cast

import orjson
import redis

from shoal.core.manners import DEFAULT_MANNERS
from shoal.core.model import (
    AdmitReport,
    Candidate,
    Counters,
    HostSpeed,
    JobState,
    JobStatus,
    Lease,
    LeaseBatch,
    Level,
    Outcome,
    Request,
    Settlement,
    SettleReport,
    WorkerBeat,
)
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.entry import decode_record, encode, encode_new
from shoal.frontier.scripts import Arg, Scripts, connect, translated_errors

ADMIT_AT_ONCE = 2_000
SETTLE_AT_ONCE = 500
LEASE_AT_MOST = 1_000
FORGET_AT_ONCE = 5_000
REMEMBER_AT_ONCE = 5_000
SWEEP_AT_ONCE = 1_000
RING_LIFETIME = timedelta(seconds=15)
BEAT_LIFETIME = timedelta(seconds=20)
"""A worker that is silent for this long is taken for dead."""
BURST_WINDOW_S = 0.1
"""A bucket holds this much time's worth of requests (at least one), so that a fast rate is not lost to late leases."""

RATE_LEAST_MS = 1_000
LONGEST_WAIT_MS = 86_400_000

_COUNTERS = tuple(field.name for field in fields(Counters))


class Keep(Enum):
    """No change."""

    KEEP = "keep"


KEEP = Keep.KEEP


@dataclass(frozen=True, slots=True)
class HostChange:
    """An operator's word on a host: None takes a limit back to what the jobs say, 0 is unlimited."""

    rate: float | Keep | None = KEEP
    parallel: int | Keep | None = KEEP
    paused: bool | Keep = KEEP
    hold: timedelta | Keep = KEEP
    """Ask it for nothing during this time; zero ends a hold."""


@dataclass(frozen=True, slots=True)
class Glance:
    """Is there work for a worker of these queues?"""

    expired: int
    waits: dict[str, timedelta]
    """Queue → time until something is due; queues without work are left out."""

    @property
    def due(self) -> tuple[str, ...]:
        return tuple(queue for queue, wait in self.waits.items() if not wait)


class Frontier:
    """All operations on one frontier."""

    def __init__(self, client: redis.Redis, prefix: str = "shoal") -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = Scripts(client, prefix)

    @classmethod
    def at(cls, url: str, prefix: str = "shoal") -> Frontier:
        return cls(connect(url), prefix)

    def close_connections(self) -> None:
        self._client.close()

    # --- a job's life -------------------------------------------------------------------------------------------

    def create(self, job: str, spec: JobSpec, expected: int = 0) -> bool:
        """Make a job known; it stays open for URLs until `close`. False when it was known already.

        Room is made at once for as many URLs as are expected, rather than little by little.
        """
        return bool(self._scripts.call("create", [job, *_limits(spec).values(), expected]))

    def admit(self, job: str, candidates: Sequence[Candidate], duplicates: int = 0) -> AdmitReport:
        """Let in what the job has not seen; `duplicates` are those that the caller recognised itself."""
        report = AdmitReport(None)
        for start in range(0, max(1, len(candidates)), ADMIT_AT_ONCE):
            args: list[Arg] = [job, duplicates if start == 0 else 0]
            for candidate in candidates[start : start + ADMIT_AT_ONCE]:
                args += _triple(candidate)
            report += self._admit(args)
        return report

    def admit_submitted(self, job: str, urls: Sequence[Url]) -> AdmitReport:
        """Let in URLs that were named by somebody; the same as `admit`, cheaper for ten thousand at once."""
        report, first = AdmitReport(None), Level.FIRST.value
        for start in range(0, max(1, len(urls)), ADMIT_AT_ONCE):
            args: list[Arg] = [job, 0]
            for url in urls[start : start + ADMIT_AT_ONCE]:
                args += (url.fingerprint, url.host, f"{first}{encode_new(url)}")
            report += self._admit(args)
        return report

    def _admit(self, args: list[Arg]) -> AdmitReport:
        state, admitted, seen, filtered, over = self._scripts.call("admit", args)
        return AdmitReport(JobState(state) if state else None, admitted, seen, filtered, over)

    def close(self, job: str) -> tuple[JobState | None, bool]:
        """No more URLs will come. (state, whether this call ended the job)"""
        state, ended = self._scripts.call("close", [job])
        return _state(state), bool(ended)

    def pause(self, job: str) -> JobState | None:
        """Take the job out of the rotation."""
        return _state(self._scripts.call("pause", [job]))

    def resume(self, job: str) -> JobState | None:
        """Put a paused job back into the rotation."""
        return _state(self._scripts.call("resume", [job]))

    def cancel(self, job: str) -> tuple[JobState | None, bool]:
        """Drop all that waits. (state, whether this call ended the job)"""
        state, ended = self._scripts.call("cancel", [job])
        return _state(state), bool(ended)

    def forget(self, job: str) -> bool:
        """Drop the keys of a job that has ended; False when it has not."""
        while True:
            left = cast(int, self._scripts.call("forget", [job, FORGET_AT_ONCE]))
            if left:
                return left == 1

    def restore(self, job: str, spec: JobSpec, status: JobStatus) -> bool:
        """Make a finished job known again with its sums; open until `close`. False when it is known."""
        fields: list[Arg] = []
        for name, value in _limits(spec).items():
            fields += (name, value)
        for name in _COUNTERS:
            fields += (name, getattr(status.counters, name))
        fields += ("redirects", status.redirects)
        if status.started_ms is not None:
            fields += ("started", status.started_ms)
        new = self._scripts.call("restore", [job, status.counters.seen, *fields])
        if new and status.reasons:
            with translated_errors("restore"):
                self._client.hset(f"{self._prefix}:reasons:{job}", mapping={**status.reasons})
        return bool(new)

    def remember(self, job: str, fingerprints: Sequence[int]) -> None:
        """What a restored job has seen."""
        for start in range(0, len(fingerprints), REMEMBER_AT_ONCE):
            self._scripts.call("remember", [job, *fingerprints[start : start + REMEMBER_AT_ONCE]])

    def replay(self, job: str, token: str, dead: Sequence[tuple[Request, str]]) -> JobState | None:
        """Try dead requests, each with the reason it died of, once more; the same token twice changes nothing."""
        state: str = ""
        for number, start in enumerate(range(0, len(dead), ADMIT_AT_ONCE)):
            args: list[Arg] = [job, f"{token}.{number}"]
            for request, reason in dead[start : start + ADMIT_AT_ONCE]:
                args += (request.url.host, reason, encode(request))
            state, _ = self._scripts.call("replay", args)
        return _state(state)

    def configure_job(self, job: str, spec: JobSpec) -> tuple[JobState | None, bool]:
        """Change a job's limits and its queue to what the spec says now. (state, whether this call ended the job)

        What waits beyond a smaller page budget is dropped.
        """
        args: list[Arg] = [job]
        for name, value in _limits(spec).items():
            args += (name, value)
        state, ended = self._scripts.call("configure_job", args)
        return _state(state), bool(ended)

    def configure_host(self, host: str, change: HostChange) -> None:
        """An operator's word on a host."""
        args: list[Arg] = [host]
        if not isinstance(change.rate, Keep):
            args += ("rate", _or_none(change.rate), "burst", "" if change.rate is None else _burst(change.rate))
        if not isinstance(change.parallel, Keep):
            args += ("parallel", _or_none(change.parallel))
        if not isinstance(change.paused, Keep):
            args += ("paused", 1 if change.paused else "")
        if not isinstance(change.hold, Keep):
            args += ("hold", _ms(change.hold) if change.hold else "")
        self._scripts.call("configure_host", args)

    def throttle(self, key: str, rate: float, burst: float) -> timedelta:
        """One more request of an API key: zero when it may, else the time after which to ask again."""
        return timedelta(milliseconds=int(self._scripts.call("throttle", [key, rate, max(1.0, burst)])))

    def sweep(self) -> int:
        """Hosts unused for a day leave the list."""
        return int(self._scripts.call("sweep", [SWEEP_AT_ONCE]))

    # --- a request's way ----------------------------------------------------------------------------------------

    def lease(self, *, queues: Sequence[str], limit: int, lease_for: timedelta) -> LeaseBatch:
        """Give one worker the requests that may be fetched now."""
        args: list[Arg] = [min(limit, LEASE_AT_MOST), _ms(lease_for), *queues]
        group, wait, expired, *records = self._scripts.call("lease", args)
        leases = tuple(
            Lease(group, index, *decode_record(record)) for index, record in enumerate(cast(list[str], records), 1)
        )
        return LeaseBatch(leases, None if wait < 0 else _wait(wait), expired)

    def settle(self, settlements: Sequence[Settlement]) -> SettleReport:
        """Bring leases to their end."""
        late, ended = 0, list[str]()
        for start in range(0, len(settlements), SETTLE_AT_ONCE):
            args: list[Arg] = []
            for settlement in settlements[start : start + SETTLE_AT_ONCE]:
                args += _block(settlement)
            refused, *jobs = self._scripts.call("settle", args)
            late += refused
            ended += jobs
        return SettleReport(late, tuple(ended))

    def renew(self, groups: Iterable[int], lease_for: timedelta) -> frozenset[int]:
        """Move the deadlines of lease groups still worked on; returns those that are lost."""
        args: list[Arg] = [_ms(lease_for), *groups]
        return frozenset(int(group) for group in self._scripts.call("renew", args)) if len(args) > 1 else frozenset()

    def release(self, leases: Sequence[Lease]) -> SettleReport:
        """Give requests back unfetched."""
        late, ended = 0, list[str]()
        for start in range(0, len(leases), SETTLE_AT_ONCE):
            args: list[Arg] = []
            for lease in leases[start : start + SETTLE_AT_ONCE]:
                args += (lease.group, lease.index)
            lost, *jobs = self._scripts.call("release", args)
            late += lost
            ended += jobs
        return SettleReport(late, tuple(ended))

    def reap(self, groups: int = 10) -> tuple[int, tuple[str, ...]]:
        """Take back expired leases. (requests given back, jobs that ended by this)"""
        returned, *ended = self._scripts.call("reap", [groups])
        return returned, tuple(ended)

    # --- looking ------------------------------------------------------------------------------------------------

    def glance(self, queues: Sequence[str]) -> Glance:
        """Is there work for a worker of these queues?"""
        expired, *waits = self._scripts.call("glance", list(queues))
        due = {q: _wait(wait) for q, wait in zip(queues, waits, strict=True) if wait >= 0}
        return Glance(expired, due)

    def status(self, job: str) -> JobStatus | None:
        """The job as the frontier knows it; None when it does not."""
        return self.statuses([job])[0]

    def statuses(self, jobs: Sequence[str]) -> list[JobStatus | None]:
        """Several jobs in one round trip, each as it was at one moment."""
        found: list[JobStatus | None] = []
        with translated_errors("status"):
            pipeline = self._client.pipeline(transaction=True)
            for job in jobs:
                pipeline.hgetall(f"{self._prefix}:job:{job}")
                pipeline.hgetall(f"{self._prefix}:reasons:{job}")
                pipeline.zrange(f"{self._prefix}:slow:{job}", 0, 4, desc=True, withscores=True)
            pipeline.time()
            *answers, (seconds, micros) = pipeline.execute()
        now = seconds * 1000 + micros // 1000
        for i, job in enumerate(jobs):
            values, reasons, slow = answers[3 * i : 3 * i + 3]
            found.append(_status(job, values, reasons, slow, now) if values else None)
        return found

    def known_jobs(self) -> list[str]:
        """Every job that lives in the frontier."""
        with translated_errors("known_jobs"):
            return sorted(cast("set[str]", self._client.smembers(f"{self._prefix}:jobs")))

    def ended_jobs(self, ago: timedelta) -> list[str]:
        """Jobs that ended at least so long ago and still have keys."""
        jobs = self.known_jobs()
        with translated_errors("ended_jobs"):
            pipeline = self._client.pipeline(transaction=False)
            for job in jobs:
                pipeline.hget(f"{self._prefix}:job:{job}", "ended")
            pipeline.time()
            *ended, (seconds, _) = pipeline.execute()
        latest = seconds * 1000 - _ms(ago)
        return [job for job, at in zip(jobs, ended, strict=True) if at is not None and int(at) <= latest]

    # --- workers -------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: WorkerBeat, lifetime: timedelta = BEAT_LIFETIME) -> None:
        """A worker lives; unless it says so again it is forgotten after `lifetime`."""
        with translated_errors("heartbeat"):
            worker = beat.name
            seconds, _ = self._client.time()
            pipeline = self._client.pipeline(transaction=True)
            pipeline.set(f"{self._prefix}:worker:{worker}", orjson.dumps(asdict(beat)), ex=lifetime)
            pipeline.zadd(f"{self._prefix}:workers", {worker: seconds * 1000 + lifetime // timedelta(milliseconds=1)})
            pipeline.zremrangebyscore(f"{self._prefix}:workers", "-inf", seconds * 1000)
            pipeline.execute()

    def depart(self, worker: str) -> None:
        """A worker has stopped."""
        with translated_errors("depart"):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.delete(f"{self._prefix}:worker:{worker}")
            pipeline.zrem(f"{self._prefix}:workers", worker)
            pipeline.execute()

    def count_slice(self) -> None:
        """One more slice was run."""
        with translated_errors("stats"):
            self._client.hincrby(f"{self._prefix}:stats", "slices", 1)

    # --- doorbells ----------------------------------------------------------------------------------------------

    def claim_ring(self, queue: str) -> bool:
        """True for the one caller that should ring now; nobody else needs to until it was answered or is stale."""
        with translated_errors("ring"):
            return bool(self._client.set(f"{self._prefix}:ring:{queue}", 1, nx=True, px=_ms(RING_LIFETIME)))

    def answer_ring(self, queue: str) -> None:
        """A slice has come to the door: the next ring may follow."""
        with translated_errors("ring"):
            self._client.delete(f"{self._prefix}:ring:{queue}")


def _burst(rate: float) -> float:
    return max(1.0, rate * BURST_WINDOW_S)


def _or_none(value: Arg | None) -> Arg:
    return "" if value is None else value


def _limits(spec: JobSpec) -> dict[str, Arg]:
    """A job's limits as its hash has them, in the order of create.lua."""
    rate, parallel = spec.requests_per_second, spec.requests_at_once
    rate = DEFAULT_MANNERS.rate if rate is None else rate
    return {
        "queue": spec.queue,
        "rate": rate,
        "burst": _burst(rate),
        "parallel": DEFAULT_MANNERS.parallel if parallel is None else parallel,
        "weight": spec.weight,
        "pages": spec.pages or 0,
    }


def _status(
    job: str, values: dict[str, str], reasons: dict[str, str], slow: list[tuple[str, float]], now_ms: int
) -> JobStatus:
    state = JobState(values["state"])
    return JobStatus(
        job,
        state,
        Counters(**{name: int(values.get(name, 0)) for name in _COUNTERS}),
        {name: int(count) for name, count in reasons.items()},
        tuple(HostSpeed(host, int(latency)) for host, latency in slow),
        _optional_int(values.get("started")),
        _optional_int(values.get("ended")),
        now_ms,
        values.get("open") == "1" and not state.ended,
        _rate(values, now_ms),
    )


def _rate(values: dict[str, str], now_ms: int) -> float:
    """Pages a second since the earlier mark, or since the first lease."""
    since = values.get("since") or values.get("started")
    if since is None or "ended" in values:
        return 0.0
    done = int(values.get("done", 0)) - int(values.get("since_done", 0))
    return round(1000 * done / max(RATE_LEAST_MS, now_ms - int(since)), 2)


def _triple(candidate: Candidate) -> tuple[Arg, Arg, Arg]:
    if isinstance(candidate, Request):
        return candidate.url.fingerprint, candidate.url.host, f"{candidate.level.value}{encode(candidate)}"
    return candidate.url.fingerprint, "", candidate.reason


def _block(settlement: Settlement) -> tuple[Arg, ...]:
    lease = settlement.lease
    entry = ""
    if settlement.outcome is Outcome.RETRY:
        entry = encode(replace(lease.request, attempt=lease.request.attempt + settlement.counts))
    return (
        lease.group,
        lease.index,
        settlement.outcome.value,
        settlement.reason,
        _ms(settlement.delay),
        _ms(settlement.hold_host),
        _ms(settlement.latency),
        settlement.received,
        entry,
    )


def _state(value: str) -> JobState | None:
    return JobState(value) if value else None


def _wait(ms: int) -> timedelta:
    return timedelta(milliseconds=min(ms, LONGEST_WAIT_MS))


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def _optional_int(value: str | None) -> int | None:
    return None if value is None else int(value)
