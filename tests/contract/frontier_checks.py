"""The frontier's invariants, each checked on what stands in Redis and against the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta

import pytest

from shoal.core.model import Counters, JobState, LeaseBatch
from shoal.frontier.keys import KEYS
from tests.contract.frontier_model import ROUNDING_MS, FrontierModel, JobModel, Span
from tests.contract.keyspace import has_word, leaks, wrong_depths
from tests.contract.snapshot import Snapshot

_COUNTERS = tuple(field.name for field in fields(Counters))


def check_all(model: FrontierModel, snapshot: Snapshot, now: Span) -> None:
    """What must hold after every step."""
    check_each_request_is_in_one_place(snapshot)
    check_same_as_model(model, snapshot)
    for job in model.jobs.values():
        check_counters(job, snapshot)
        check_seen(job, snapshot)
        check_state(job, snapshot)
        check_rotation(job, snapshot)
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
    lines = {(job.name, host, level.value): line for job in jobs for (host, level), line in job.lines.items() if line}
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


def check_rotation(job: JobModel, snapshot: Snapshot) -> None:
    """The hosts with queues are ready, the job is due when the first of them is, and nobody else is in the rotation."""
    ready = snapshot.ready.get(job.name, {})
    assert ready.keys() == {host for name, host, _ in snapshot.lines if name == job.name}
    running = job.state is JobState.RUNNING
    times = [*ready.values(), *snapshot.delayed.get(job.name, {}).values()] if running else []
    earliest = min(times, default=math.inf)
    expected = {} if earliest == math.inf else {job.spec.queue: pytest.approx(earliest, abs=0.001)}
    assert {queue: jobs[job.name] for queue, jobs in snapshot.due.items() if job.name in jobs} == expected
    turns = {queue for queue, jobs in snapshot.turns.items() if job.name in jobs}
    assert turns <= (set() if job.ended else {job.spec.queue})


def check_inflight(snapshot: Snapshot) -> None:
    leased = Counter(request.url.host for _, request in snapshot.leased.values())
    counted = {host: int(values.get("inflight", 0)) for host, values in snapshot.hosts.items()}
    assert {host: n for host, n in counted.items() if n != 0} == dict(leased)


def check_hosts(model: FrontierModel, snapshot: Snapshot) -> None:
    """Who came back or was set is listed; what an operator said stands there, and nothing else lives for ever."""
    listed = {name: host.listed for name, host in model.hosts.items() if host.listed}
    assert snapshot.listed.keys() == listed.keys()
    for name, at in snapshot.listed.items():
        assert listed[name].lo <= at <= listed[name].hi
    for name, values in snapshot.hosts.items():
        host = model.host(name)
        assert values.get("rate") == (None if host.rate is None else f"{host.rate:g}")
        assert values.get("parallel") == (None if host.parallel is None else str(host.parallel))
        assert ("paused" in values) == host.paused
        assert ("set" in values) == has_word(values) == host.has_word
    mortal = {key.names["H"] for key in snapshot.keys if key.family.name == "host" and key.ttl_ms > 0}
    assert [name for name in mortal if model.host(name).has_word] == []


def check_parking(model: FrontierModel, snapshot: Snapshot) -> None:
    """A parked host is paused or at its cap, so that a lease must come back; whoever is parked will be woken then."""
    parked: dict[str, set[str]] = {}
    for name, hosts in snapshot.ready.items():
        job = model.jobs[name]
        at_rest = [host for host, at in hosts.items() if at == math.inf]
        for host in at_rest:
            parked.setdefault(host, set()).add(name)
            cap = model.host(host).limits(job.spec).parallel
            inflight = sum(request.url.host == host for _, request in snapshot.leased.values())
            at_cap = 0 < cap <= inflight
            assert at_cap or model.host(host).paused, f"{name} waits for {host} with {inflight} of {cap} under way"
    assert snapshot.waiters == parked
    lifetimes = {key.names["H"]: key.ttl_ms for key in snapshot.keys if key.family.name == "waiters"}
    assert {host for host, ttl_ms in lifetimes.items() if ttl_ms < 0} == {
        host for host in lifetimes if model.host(host).paused
    }


def check_putting_off(model: FrontierModel, snapshot: Snapshot, now: Span) -> None:
    """No host waits beyond its last hold and the last slot that was booked."""
    for name, hosts in snapshot.ready.items():
        for host, at in hosts.items():
            latest = max(now.hi, model.host(host).quiet_until) + ROUNDING_MS
            assert at == math.inf or at <= latest, f"{name} asks {host} {at - latest:.3f} ms later than it could"


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
    model: FrontierModel, snapshot: Snapshot, batch: LeaseBatch, queues: Sequence[str], limit: int, now: Span
) -> None:
    """What a lease call says besides its leases is true, and it left nothing that could be had."""
    surely, perhaps = model.expired(now)
    assert surely <= batch.expired <= perhaps
    due = [at for queue in queues for at in snapshot.due.get(queue, {}).values()]
    assert (batch.next_due is None) == (not due)
    if batch.next_due is not None:
        lo, hi = (max(0.0, min(due) - moment) for moment in (now.hi, now.lo))
        assert lo <= batch.next_due / timedelta(milliseconds=1) <= math.ceil(hi)
    if len(batch.leases) < limit:
        assert not due or min(due) > now.lo, "there was more to be had"


def check_nothing_is_left(snapshot: Snapshot) -> None:
    """Once all jobs are forgotten, only sums, lists with a cap, and an operator's word outlive a day."""
    lasting = {family.name for family in KEYS if family.lifetime == "for good"} | {"events", "hosts"}
    words = {host for host, values in snapshot.hosts.items() if has_word(values)}
    immortal = [key for key in snapshot.keys if key.ttl_ms < 0 and key.family.name not in lasting]
    assert [str(key) for key in immortal if key.names.get("H") not in words] == []
