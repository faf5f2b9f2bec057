"""The frontier: which URL may be fetched when. A typed face over the Lua operations.

Every change of state is one Lua call on Redis' own clock. Large inputs are cut into calls short enough that no other
worker waits for long.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import cast

import redis

from shoal.core.model import (
    AdmitReport,
    Candidate,
    Counters,
    HostSpeed,
    JobState,
    JobStatus,
    Lease,
    LeaseBatch,
    Outcome,
    Request,
    Settlement,
    SettleReport,
)
from shoal.core.spec import JobSpec
from shoal.frontier.entry import decode_record, encode
from shoal.frontier.scripts import Arg, Scripts, connect, translated_errors

ADMIT_AT_ONCE = 2_000
SETTLE_AT_ONCE = 500
LEASE_AT_MOST = 1_000
FORGET_AT_ONCE = 5_000
RING_LIFETIME = timedelta(seconds=15)
BURST_WINDOW_S = 0.1
"""A bucket holds this much time's worth of requests (at least one), so that a fast rate is not lost to late leases."""

_COUNTERS = tuple(field.name for field in fields(Counters))


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

    def create(self, job: str, spec: JobSpec) -> bool:
        """Make a job known; it stays open for URLs until `close`. False when it was known already."""
        rate = spec.requests_per_second
        args: list[Arg] = [job, spec.queue, rate, _burst(rate), spec.requests_at_once, spec.weight, spec.pages or 0]
        return bool(self._scripts.call("create", args))

    def admit(self, job: str, candidates: Sequence[Candidate], duplicates: int = 0) -> AdmitReport:
        """Let in what the job has not seen; `duplicates` are those that the caller recognised itself."""
        report = AdmitReport(None)
        for start in range(0, max(1, len(candidates)), ADMIT_AT_ONCE):
            args: list[Arg] = [job, duplicates if start == 0 else 0]
            for candidate in candidates[start : start + ADMIT_AT_ONCE]:
                args += _triple(candidate)
            state, admitted, seen, filtered, over = self._scripts.call("admit", args)
            report += AdmitReport(JobState(state) if state else None, admitted, seen, filtered, over)
        return report

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

    def configure_host(
        self,
        host: str,
        *,
        rate: float | None = None,
        parallel: int | None = None,
        hold: timedelta | None = None,
    ) -> None:
        """An operator's word on a host: limits of None are left to the jobs, 0 is unlimited; no hold, no change."""
        args: list[Arg] = [
            host,
            "" if rate is None else rate,
            "" if rate is None else _burst(rate),
            "" if parallel is None else parallel,
            "" if hold is None else _ms(hold),
        ]
        self._scripts.call("configure_host", args)

    # --- a request's way ----------------------------------------------------------------------------------------

    def lease(self, *, queues: Sequence[str], limit: int, lease_for: timedelta) -> LeaseBatch:
        """Give one worker the requests that may be fetched now."""
        args: list[Arg] = [min(limit, LEASE_AT_MOST), _ms(lease_for), *queues]
        group, wait, expired, *records = self._scripts.call("lease", args)
        leases = tuple(
            Lease(group, index, *decode_record(record)) for index, record in enumerate(cast(list[str], records), 1)
        )
        return LeaseBatch(leases, None if wait < 0 else timedelta(milliseconds=wait), expired)

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
        due = {q: timedelta(milliseconds=wait) for q, wait in zip(queues, waits, strict=True) if wait >= 0}
        return Glance(expired, due)

    def is_open(self, job: str) -> bool:
        """Is the submission of this job's URLs unfinished? Also when it never reached the frontier."""
        with translated_errors("is_open"):
            return self._client.hget(f"{self._prefix}:job:{job}", "open") in (None, "1")

    def status(self, job: str) -> JobStatus | None:
        """The job as the frontier knows it; None when it does not."""
        with translated_errors("status"):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hgetall(f"{self._prefix}:job:{job}")
            pipeline.hgetall(f"{self._prefix}:reasons:{job}")
            pipeline.zrange(f"{self._prefix}:slow:{job}", 0, 4, desc=True, withscores=True)
            pipeline.time()
            values, reasons, slow, (seconds, micros) = pipeline.execute()
        if not values:
            return None
        return JobStatus(
            job,
            JobState(values["state"]),
            Counters(**{name: int(values.get(name, 0)) for name in _COUNTERS}),
            {name: int(count) for name, count in reasons.items()},
            tuple(HostSpeed(host, int(latency)) for host, latency in slow),
            _optional_int(values.get("started")),
            _optional_int(values.get("ended")),
            seconds * 1000 + micros // 1000,
        )

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


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def _optional_int(value: str | None) -> int | None:
    return None if value is None else int(value)
