"""Values as the Lua operations take them, and their answers as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, cast

from shoal.core.frozen import frozen
from shoal.core.host_status import HostSpeed
from shoal.core.job_status import Counters, JobStatus
from shoal.core.manners import Limit, LimitSource, Manners, Signal
from shoal.core.model import (
    Candidate,
    JobState,
    Lease,
    LeaseBatch,
    Level,
    Mark,
    Outcome,
    Request,
    Settlement,
    SettleReport,
)
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.entry import decode_record, digit, encode, encode_new
from shoal.frontier.scripts import Arg
from shoal.frontier.tag import WHOLE, Tag

COUNTERS = tuple(field.name for field in fields(Counters))
RATE_LEAST_MS = 1_000
LONGEST_WAIT_MS = 86_400_000
LATER = "later"
"""A retry that was no attempt."""
TO_BROWSER = "+"
"""Before the entry of a retry that is for the browser from now on."""


@frozen
class Glance:
    """Is there work for a worker of these queues?"""

    expired: int
    waits: dict[str, timedelta]
    """Queue → time until something is due; queues without work are left out."""

    @property
    def due(self) -> tuple[str, ...]:
        return tuple(queue for queue, wait in self.waits.items() if not wait)


def limits_of(spec: JobSpec, manners: Manners) -> list[Arg]:
    """A job's queue, limits and budgets as pairs of its hash's fields; '' is what the job does not say."""
    values: dict[str, Arg | None] = {
        "queue": spec.queue,
        "weight": spec.weight,
        "rate": spec.requests_per_second,
        "parallel": spec.requests_at_once,
        "rate0": manners.rate,
        "parallel0": manners.parallel,
        "robots": int(spec.robots),
        "pages": spec.pages or 0,
        "bytes": spec.bytes or 0,
        "seconds": spec.seconds or 0,
        "host_pages": spec.host_pages or 0,
        "host_bytes": spec.host_bytes or 0,
        "host_seconds": spec.host_seconds or 0,
    }
    return [part for name, value in values.items() for part in (name, or_none(value))]


def or_none(value: Arg | None) -> Arg:
    """'' says that there is no value."""
    return "" if value is None else value


_FIRST = str(Level.FIRST.value)
Triple = tuple[Arg, Arg, Arg]
"""Fingerprint, host, level and entry; or fingerprint, no host, and why it is refused."""


def triple(candidate: Candidate) -> Triple:
    """A candidate for `admit`."""
    if isinstance(candidate, Request):
        return candidate.url.fingerprint, candidate.url.host, _with_level(candidate)
    return candidate.url.fingerprint, "", candidate.reason


def submitted(url: Url) -> Triple:
    """A URL that somebody named."""
    return url.fingerprint, url.host, _FIRST + encode_new(url)


def dead_letter(request: Request, reason: str) -> Triple:
    """A dead request for `replay`: it goes to the front."""
    return request.url.host, reason, _with_level(replace(request, level=Level.FIRST))


def _with_level(request: Request) -> str:
    return f"{digit(request.level, request.render)}{encode(request)}"


def settle_calls(settlements: Sequence[Settlement], tag: Tag, most: int) -> Iterator[list[Arg]]:
    """Settlements for `settle`, so many a call at the most; those that have little to say, most of them, come first."""
    for start in range(0, len(settlements), most):
        short, long = list[Arg](), list[Arg]()
        for each in settlements[start : start + most]:
            if _is_plainly_done(each):
                lease = each.lease
                short += (tag.inner(lease.group), lease.index, ms(each.latency), each.received)
            else:
                long += _block(each, tag)
        yield [len(short) // 4, *short, *long]


def _is_plainly_done(settlement: Settlement) -> bool:
    return (
        settlement.outcome is Outcome.DONE
        and settlement.counts
        and not (settlement.reason or settlement.hold_host or settlement.saved or settlement.unasked)
        and settlement.lease.mark is not Mark.PROBE
    )


def _block(settlement: Settlement, tag: Tag) -> tuple[Arg, ...]:
    lease, outcome, entry = settlement.lease, settlement.outcome.value, ""
    if settlement.outcome is Outcome.RETRY:
        outcome = outcome if settlement.counts else LATER
        entry = encode(replace(lease.request, attempt=lease.request.attempt + settlement.counts))
        entry = f"{TO_BROWSER}{entry}" if settlement.render else entry
    return (
        tag.inner(lease.group),
        lease.index,
        outcome,
        settlement.reason,
        ms(settlement.delay),
        ms(settlement.hold_host),
        ms(settlement.latency),
        settlement.received,
        entry,
        _signal(settlement).value + (Mark.PROBE.value if lease.mark is Mark.PROBE else ""),
        settlement.saved,
        ms(settlement.unasked),
    )


def in_calls(blocks: Sequence[tuple[Arg, ...]], most: int) -> Iterator[list[Arg]]:
    """Arguments about many leases, so many leases a call at the most."""
    for start in range(0, len(blocks), most):
        yield list(chain(*blocks[start : start + most]))


def _signal(settlement: Settlement) -> Signal:
    """A page that is done was answered, unless nobody asked."""
    return Signal.OK if settlement.outcome is Outcome.DONE and settlement.counts else settlement.signal


def read_batch(answer: Sequence[Any], tag: Tag = WHOLE) -> LeaseBatch:
    """The answer of `lease`."""
    inner, wait, expired, ended, chunks, records, server = answer
    group = tag.outer(inner)
    terms = [term for chunk in cast(list[str], chunks) for term in _terms(chunk)]
    leases = tuple(
        Lease(group, index, *decode_record(record), queue, mark, limit)
        for index, (record, (queue, mark, limit)) in enumerate(zip(cast(list[str], records), terms, strict=True), 1)
    )
    return LeaseBatch(leases, None if wait < 0 else wait_of(wait), expired, tuple(ended), server, trusted=inner >= 0)


def _terms(chunk: str) -> repeat[tuple[str, Mark, Limit]]:
    """What holds for the next so many records."""
    queue, mark, rate, parallel, source, count = chunk.split(" ")
    limit = Limit(float(rate), int(parallel), LimitSource(source))
    return repeat((queue, Mark(mark[1:]), limit), int(count))


def read_reports(answers: Iterable[Sequence[Any]]) -> SettleReport:
    """The answers of one operation that brings leases to their end, called several times."""
    late, ended = 0, list[str]()
    for refused, *jobs in answers:
        late += refused
        ended += jobs
    return SettleReport(late, tuple(ended))


def read_glance(queues: Sequence[str], answer: Sequence[int]) -> Glance:
    """The answer of `glance` about these queues."""
    expired, *waits = answer
    return Glance(expired, {q: wait_of(wait) for q, wait in zip(queues, waits, strict=True) if wait >= 0})


def read_status(
    job: str, values: dict[str, str], reasons: dict[str, str], slow: list[tuple[str, float]], now_ms: int
) -> JobStatus:
    """A job's hashes as one value."""
    state = JobState(values["state"])
    return JobStatus(
        job,
        state,
        Counters(**{name: int(values.get(name, 0)) for name in COUNTERS}),
        {name: int(count) for name, count in reasons.items()},
        tuple(HostSpeed(host, int(latency)) for host, latency in slow),
        _optional_int(values.get("started")),
        _optional_int(values.get("ended")),
        now_ms,
        values.get("open") == "1" and not state.ended,
        _rate(values, now_ms),
        _rested(values, now_ms),
    )


def _rested(values: dict[str, str], now_ms: int) -> int:
    """The pauses since the first lease."""
    rested = int(values.get("rested", 0))
    if "paused" in values and "started" in values:
        rested += max(0, int(values.get("ended", now_ms)) - int(values["paused"]))
    return rested


def _rate(values: dict[str, str], now_ms: int) -> float:
    """Pages a second since the earlier mark, or since the first lease."""
    since = values.get("since") or values.get("started")
    if since is None or "ended" in values:
        return 0.0
    done = int(values.get("done", 0)) - int(values.get("since_done", 0))
    return round(1000 * done / max(RATE_LEAST_MS, now_ms - int(since)), 2)


def state_of(value: str) -> JobState | None:
    """None for a job that the frontier does not know."""
    return JobState(value) if value else None


def wait_of(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=min(milliseconds, LONGEST_WAIT_MS))


def ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def _optional_int(value: str | None) -> int | None:
    return None if value is None else int(value)
