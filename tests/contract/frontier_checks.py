"""The frontier's invariants, each checked on what stands in Redis and against the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import timedelta

import pytest

from shoal.core.job_status import Counters
from shoal.core.model import JobState, LeaseBatch
from shoal.frontier.entry import RENDER, digit
from shoal.frontier.keys import KEYS
from tests.contract.frontier_model import ROUNDING_MS, FrontierModel, JobModel, Span, lanes_of
from tests.contract.keyspace import has_word, leaks, wrong_depths
from tests.contract.snapshot import Snapshot

LISTED_EVERY_MS = 10_000
"""A host that is in use moves up in the list only so often."""

RECHECK_MS = 10_000
"""Who waits for room in a bucket and is not woken looks again after this."""

SUSPECT_MS = 50
"""Requests that were lost before wait so long before they are offered again to a worker that has some already."""

_COUNTERS = tuple(field.name for field in fields(Counters))


def check_all(model: FrontierModel, snapshot: Snapshot, now: Span) -> None:
    """What must hold after every step."""
    check_each_request_is_in_one_place(snapshot)
    check_same_as_model(model, snapshot)
    for job in model.jobs.values():
        check_counters(job, snapshot)
        check_seen(job, snapshot)
        check_state(job, snapshot)
        check_rotation(model, job, snapshot)
        check_host_pages(job, snapshot)
    check_tenants(model, snapshot)
    assert wrong_depths(snapshot.keys) == {}
    check_inflight(snapshot)
    check_hosts(model, snapshot)
    check_parking(model, snapshot)
    check_putting_off(model, snapshot, now)
    check_what_was_told(model, snapshot)
    check_keys(snapshot)


def check_each_request_is_in_one_place(snapshot: Snapshot) -> None:
    places = Counter((job, request.url) for (job, _, _), line in snapshot.lines.items() for request in line)
    places.update((job, request.url) for job, requests in snapshot.delayed.items() for request in requests)
    places.update((job, request.url) for job, request in snapshot.leased.values())
    assert [place for place, n in places.items() if n > 1] == []


def check_same_as_model(model: FrontierModel, snapshot: Snapshot) -> None:
    assert snapshot.known == snapshot.jobs.keys() == model.jobs.keys()
    jobs = model.jobs.values()
    lines = {
        (job.name, host, digit(level, half)): line
        for job in jobs
        for (host, half, level), line in job.lines.items()
        if line
    }
    assert snapshot.lines == lines
    assert snapshot.leased == model.leased
    assert snapshot.deadlines.keys() == model.deadlines.keys()
    for group, at in snapshot.deadlines.items():
        assert model.deadlines[group].lo <= at <= model.deadlines[group].hi
    delayed = {job.name: job.delayed for job in jobs if job.delayed}
    assert {name: requests.keys() for name, requests in snapshot.delayed.items()} == {
        name: requests.keys() for name, requests in delayed.items()
    }
    for name, requests in snapshot.delayed.items():
        for request, at in requests.items():
            assert delayed[name][request].lo <= at <= delayed[name][request].hi


def check_counters(job: JobModel, snapshot: Snapshot) -> None:
    values = snapshot.jobs[job.name]
    counters = Counters(**{name: int(values.get(name, 0)) for name in _COUNTERS})
    assert counters.reconciles, counters
    assert counters.queued == sum(len(line) for key, line in snapshot.lines.items() if key[0] == job.name)
    assert counters.delayed == len(snapshot.delayed.get(job.name, {}))
    assert counters.leased == sum(name == job.name for name, _ in snapshot.leased.values())
    assert counters == job.counters
    rendered = {
        "queued": sum(len(line) for (_, half, _), line in job.lines.items() if half),
        "delayed": sum(request.render for request in job.delayed),
        "leased": sum(name == job.name and request.render for name, request in snapshot.leased.values()),
    }
    assert {place: int(values.get(f"render_{place}", 0)) for place in rendered} == rendered
    assert snapshot.reasons.get(job.name, {}) == dict(job.reasons)


def check_seen(job: JobModel, snapshot: Snapshot) -> None:
    seen = snapshot.seen.get(job.name, [])
    assert len(seen) == int(snapshot.jobs[job.name].get("seen", 0))
    assert sorted(seen) == sorted(job.seen)


def check_state(job: JobModel, snapshot: Snapshot) -> None:
    values = snapshot.jobs[job.name]
    assert values["state"] == job.state
    assert ("ended" in values) == job.ended
    assert (values["open"] == "1") == job.open
    assert values["queue"] == job.spec.queue


def check_rotation(model: FrontierModel, job: JobModel, snapshot: Snapshot) -> None:
    """The hosts with queues are ready, the job is due when the first of them is, and nobody else is in the rotation.

    A slow host may stand in both lists for a while, or longer than its queue: the next lease that looks finds out.
    """
    ready, lag = snapshot.ready.get(job.name, {}), snapshot.lag.get(job.name, {})
    render = snapshot.render.get(job.name, {})
    waiting = {host for name, host, level in snapshot.lines if name == job.name and level < RENDER}
    assert render.keys() == {host for name, host, level in snapshot.lines if name == job.name and level >= RENDER}
    assert not render or job.half
    assert waiting <= ready.keys() | lag.keys()
    lanes = lanes_of(job.spec.queue)
    assert not lag or len(lanes) == 2
    both = {host for host in (ready.keys() | lag.keys()) - waiting if not model.host(host).slowed}
    assert both == set()
    assert ready.keys() & lag.keys() <= {name for name, host in model.hosts.items() if host.slowed}
    delayed = snapshot.delayed.get(job.name, {})
    halves = {request.render for request in delayed}
    times = {
        lanes[0]: [*ready.values(), *(delayed.values() if False in halves else ())],
        **{slow: [*lag.values()] for slow in lanes[1:]},
        **({job.half: [*render.values(), *(delayed.values() if True in halves else ())]} if job.half else {}),
    }
    expected = {
        queue: pytest.approx(min(due), abs=0.001)
        for queue, due in times.items()
        if job.state is JobState.RUNNING and min(due, default=math.inf) < math.inf
    }
    assert {queue: jobs[job.name] for queue, jobs in snapshot.due.items() if job.name in jobs} == expected
    turns = {queue for queue, jobs in snapshot.turns.items() if job.name in jobs}
    assert turns <= (set[str]() if job.ended else times.keys())


def check_host_pages(job: JobModel, snapshot: Snapshot) -> None:
    counted = {
        name.removeprefix("p "): int(n) for name, n in snapshot.spend.get(job.name, {}).items() if name.startswith("p ")
    }
    assert {host: n for host, n in counted.items() if n} == {host: n for host, n in job.host_pages.items() if n}


def check_tenants(model: FrontierModel, snapshot: Snapshot) -> None:
    """A tenant is due when the first of its jobs is, and a job stands with its own."""
    tenants = {(queue, tenant): at for queue, members in snapshot.tenants.items() for tenant, at in members.items()}
    assert tenants == snapshot.due_of_tenants
    for key in snapshot.keys:
        if key.family.name in ("due_jobs", "turn_jobs"):
            assert {model.jobs[job].tenant for job, _ in key.value} <= {key.names["T"]}


def check_inflight(snapshot: Snapshot) -> None:
    leased = Counter(request.url.host for _, request in snapshot.leased.values())
    counted = {host: int(values.get("inflight", 0)) for host, values in snapshot.hosts.items()}
    assert {host: n for host, n in counted.items() if n != 0} == dict(leased)


def check_hosts(model: FrontierModel, snapshot: Snapshot) -> None:
    """Who came back or was set is listed; what an operator said stands there, and nothing else lives for ever."""
    listed = {name: host.listed for name, host in model.hosts.items() if host.listed}
    assert snapshot.listed.keys() == listed.keys()
    for name, at in snapshot.listed.items():
        assert listed[name].lo - LISTED_EVERY_MS <= at <= listed[name].hi
    for name, values in snapshot.hosts.items():
        host = model.host(name)
        assert values.get("rate") == (None if host.rate is None else f"{host.rate:g}")
        assert values.get("parallel") == (None if host.parallel is None else str(host.parallel))
        assert ("paused" in values) == host.paused
        assert ("set" in values) == has_word(values) == host.has_word
    mortal = {key.names["H"] for key in snapshot.keys if key.family.name == "host" and key.ttl_ms > 0}
    assert [name for name in mortal if model.host(name).has_word] == []


def _places(snapshot: Snapshot) -> Iterator[tuple[str, str, float, str]]:
    """(job, host, ms when it may be asked, who waits for it)"""
    for lists, mark in ((snapshot.ready, ""), (snapshot.lag, ""), (snapshot.render, " +")):
        yield from (
            (job, host, at, f"{job} {host}{mark}") for job, hosts in lists.items() for host, at in hosts.items()
        )


def check_parking(model: FrontierModel, snapshot: Snapshot) -> None:
    """Only an operator parks a host for good; whoever is parked is woken by him."""
    for job, host, at, waiter in _places(snapshot):
        if at == math.inf:
            assert model.host(host).paused, f"{job} waits for {host} without an end"
            assert waiter in snapshot.waiters[host]
    lifetimes = {key.names["H"]: key.ttl_ms for key in snapshot.keys if key.family.name == "waiters"}
    assert {host for host, ttl_ms in lifetimes.items() if ttl_ms < 0} == {
        host for host in lifetimes if model.host(host).paused
    }


def _queueing(model: FrontierModel, snapshot: Snapshot, host: str) -> float:
    """Those who wait for one bucket come one after the other: each half an interval later than the one before."""
    rivals = [model.limits(host, model.jobs[name]).rate for name, other, *_ in _places(snapshot) if other == host]
    rates = [rate for rate in rivals if rate]
    return 500 * len(rivals) / min(rates) if len(rivals) > 1 and rates else 1.0


def _has_suspects(job: JobModel, host: str) -> bool:
    return any(request.losses in (1, 2) for key, line in job.lines.items() if key[0] == host for request in line)


def check_putting_off(model: FrontierModel, snapshot: Snapshot, now: Span) -> None:
    """No host waits beyond its last hold and the last slot that was booked, but for those that a return will wake."""
    for name, host, at, waiter in _places(snapshot):
        known = model.host(host)
        latest = max(now.hi, known.quiet_until) + ROUNDING_MS + _queueing(model, snapshot, host)
        if at == math.inf or at <= latest or known.slowed:
            continue
        assert waiter in snapshot.waiters.get(host, ()), f"{name} asks {host} {at - latest:.3f} ms too late"
        if known.breaker.open:
            assert at <= max(now.hi + RECHECK_MS, known.breaker.probe_at.hi)
            continue
        assert at <= now.hi + RECHECK_MS
        if at <= now.hi + SUSPECT_MS and _has_suspects(model.jobs[name], host):
            continue
        # Whose turn it is may ask for fewer at once: then the others wait for it.
        caps = [model.limits(host, job).parallel for job in model.jobs.values()]
        cap = min((cap for cap in caps if cap), default=0)
        inflight = sum(request.url.host == host for _, request in snapshot.leased.values())
        assert 0 < cap <= inflight, f"{name} waits for {host} with {inflight} of {cap} under way"


def check_what_was_told(model: FrontierModel, snapshot: Snapshot) -> None:
    """Each change of a job once, in its order; each outcome once."""
    assert snapshot.events == model.events
    assert snapshot.stats == {name: n for name, n in model.stats.items() if n}


def check_keys(snapshot: Snapshot) -> None:
    """keys.py lists every key (or the snapshot could not have been read) with its type, and someone will drop it."""
    assert [str(key) for key in snapshot.keys if key.type != key.family.type] == []
    assert [str(key) for key in snapshot.keys if key.family.name == "seen" and key.encoding != "intset"] == []
    assert leaks(snapshot.keys) == []


def check_lease(
    model: FrontierModel,
    before: Snapshot,
    snapshot: Snapshot,
    batch: LeaseBatch,
    queues: Sequence[str],
    limit: int,
    now: Span,
) -> None:
    """What a lease call says besides its leases is true, and it left nothing that could be had.

    A host that has just changed its lane is served there by the next call.
    """
    surely, perhaps = model.expired(now)
    assert surely <= batch.expired <= perhaps
    due = [at for queue in queues for at in snapshot.due.get(queue, {}).values()]
    assert (batch.next_due is None) == (not due)
    if batch.next_due is not None:
        lo, hi = (max(0.0, min(due) - moment) for moment in (now.hi, now.lo))
        assert lo <= batch.next_due / timedelta(milliseconds=1) <= math.ceil(hi)
    if len(batch.leases) < limit and _lanes(before) == _lanes(snapshot):
        assert not due or min(due) > now.lo, "there was more to be had"


def _lanes(snapshot: Snapshot) -> set[tuple[str, str, str]]:
    """Where the slow hosts stand."""
    slow = {host for host, values in snapshot.hosts.items() if values.get("slow")}
    moving = {("ready", job, host) for job, hosts in snapshot.ready.items() for host in slow & hosts.keys()}
    return moving | {("lag", job, host) for job, hosts in snapshot.lag.items() for host in hosts}


def check_nothing_is_left(snapshot: Snapshot) -> None:
    """Once all jobs are forgotten, only sums, lists with a cap, and an operator's word outlive a day."""
    lasting = {family.name for family in KEYS if family.lifetime == "for good"} | {"events", "hosts"}
    words = {host for host, values in snapshot.hosts.items() if has_word(values)}
    immortal = [key for key in snapshot.keys if key.ttl_ms < 0 and key.family.name not in lasting]
    assert [str(key) for key in immortal if key.names.get("H") not in words] == []
